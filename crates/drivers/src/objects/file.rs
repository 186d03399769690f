//! Objects as files in a directory that all hosts have mounted: NFS, `CephFS`, or one host's disk.
//!
//! An object `a/b` is the file `a/b=`: no name contains `=`, so other files are never taken for objects, and
//! an object never conflicts with a folder. A file is written beside its place, synced, and then renamed
//! (put) or linked (create; fails if the file exists, on NFS too); then its folder is synced. Empty folders
//! stay.
//!
//! A caller that got no answer reads the object, and takes it for durable if it is there. So a read syncs the folder first
//! if this process has published the file and has not synced its name since.
//!
//! NFS may cache for a minute that a name is absent: the mount needs `lookupcache=positive` (`mount`).
//!
//! Each call runs on a thread for blocking calls, and may outlive its timeout there: a dead mount blocks it
//! until it is back.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::{ObjectError, Objects, check_name, is_name, mount::warn_of_cached_absence};
use crate::{
    OpenError,
    disk::{is_foreign, is_same_file, parent_of},
    stopping,
};

/// Suffix of an object's file name.
const OBJECT: &str = "=";
/// Suffix of a file being written.
const PARTIAL: &str = "=new";
/// Age at which unfinished files of dead processes are removed.
const PARTIAL_AGE_MAX: Duration = Duration::from_hours(24);
/// Timeout of a listing, as a multiple of the deadline.
const LIST_DEADLINES: u32 = 30;
/// Files removed by one blocking call.
const DELETES_PER_CALL: usize = 100;
/// Concurrent calls; also limits the threads that a dead mount blocks.
const CALLS_MAX: usize = 64;
/// How many times a read opens a file before the error `stale` is final. A server that has lost its export always answers
/// with it.
const OPENS_MAX: usize = 10;

#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The folder that all processes share; created if missing.
    pub directory: PathBuf,
    /// Timeout of a call.
    pub deadline: Duration,
}

impl FileOptions {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, deadline: Duration::from_secs(10) }
    }
}

pub struct FileObjects {
    root: Arc<Path>,
    place: String,
    deadline: Duration,
    permits: Arc<Semaphore>,
    folders: Arc<Folders>,
}

type Folders = Mutex<FolderState>;

/// What this process knows of the folders below the root: bounded by the layout, and by the calls.
#[derive(Default)]
struct FolderState {
    /// Those whose own names are durable.
    durable: HashSet<PathBuf>,
    /// Those whose last sync has failed, so that names in them may not be durable, with the number of that failure.
    failed: HashMap<PathBuf, u64>,
    failures: u64,
    /// Files that calls are publishing, and how many calls each.
    publishing: HashMap<PathBuf, usize>,
}

impl FolderState {
    fn fail(&mut self, folder: &Path) {
        self.failures += 1;
        self.failed.insert(folder.to_owned(), self.failures);
    }
}

impl FileObjects {
    /// Opens the folder `DIRECTORY/PURPOSE`, and checks that it supports hard links.
    pub async fn open(options: &FileOptions, purpose: &str) -> Result<Self, OpenError> {
        let root: Arc<Path> = options.directory.join(purpose).into();
        let place = format!("folder {}", root.display());
        let permits = Arc::new(Semaphore::new(CALLS_MAX));
        let store = Self { root, place, deadline: options.deadline, permits, folders: Arc::default() };
        let checked = store.call("", |root| {
            make_folder(root, &sync_folder)?;
            warn_of_cached_absence(root);
            let probe = root.join(format!("{}{PARTIAL}", Uuid::new_v4()));
            write_new(&probe, b"probe")?;
            let link = root.join(format!("{}{PARTIAL}", Uuid::new_v4()));
            let linked = fs::hard_link(&probe, &link);
            let again = fs::hard_link(&probe, &link);
            fs::remove_file(&probe)?;
            linked?;
            fs::remove_file(&link)?;
            match again {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
                Ok(()) => Err(io::Error::other("a second link of one name was made")),
            }
        });
        checked.await.map_err(|error| super::open_error(&store.place, &error))?;
        Ok(store)
    }

    /// Opens and reads an object; `None` if it is absent. If it is there, its name is durable.
    async fn read<T: Send + 'static>(
        &self,
        name: &str,
        read: impl Fn(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>, ObjectError> {
        check_name(name)?;
        let (name, folders) = (name.to_owned(), self.folders.clone());
        let read = move |root: &Path| {
            let found = read_object(root, &name, read)?;
            if found.is_some() {
                settle(&folders, &file_of(root, &name))?;
            }
            Ok(found)
        };
        self.call("", read).await
    }

    /// Runs blocking work on the root. Maps `AlreadyExists` to `name`, other errors to the place.
    async fn call<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ObjectError> {
        self.call_within(self.deadline, name, work).await
    }

    async fn call_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ObjectError> {
        let (root, permits) = (self.root.clone(), self.permits.clone());
        let whole = async {
            let permit = permits.acquire_owned().await.expect("never closed");
            let work = move || {
                // Held until the call has ended, even if its caller has timed out.
                let _permit = permit;
                work(&root)
            };
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|error| Err(io::Error::other(stopping(error))))
        };
        let Ok(answer) = tokio::time::timeout(deadline, whole).await else {
            let text = format!("{}: no answer within {deadline:.0?}", self.place);
            return Err(ObjectError::Unavailable(text));
        };
        answer.map_err(|error| {
            let text = format!("{}: {error}", self.place);
            match error.kind() {
                ErrorKind::AlreadyExists if !name.is_empty() => ObjectError::Exists(name.to_owned()),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ObjectError::NoSpace(text),
                ErrorKind::PermissionDenied
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::NotADirectory
                | ErrorKind::Unsupported => ObjectError::Refused(text),
                _ => ObjectError::Unavailable(text),
            }
        })
    }
}

fn file_of(root: &Path, name: &str) -> PathBuf {
    root.join(format!("{name}{OBJECT}"))
}

/// Creates a folder and its parents, durable by `sync`. The name of an existing one is made durable, too: its
/// creator may have crashed before doing so.
fn make_folder(folder: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut is_new = true;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => is_new = false,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = folder.parent().ok_or(error)?;
            make_folder(above, sync)?;
            match fs::create_dir(folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        made => made?,
    }
    match sync(parent_of(folder)) {
        Err(error) if !is_new && is_foreign(&error) => Ok(()),
        synced => synced,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes the bytes beside an object's place, and then moves them there durably with `publish`.
fn write_object(
    root: &Path,
    folders: &Folders,
    name: &str,
    bytes: &[u8],
    publish: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let path = file_of(root, name);
    let folder = path.parent().expect("below the root");
    if !folders.lock().durable.contains(folder) {
        for folder in folder.ancestors().take_while(|folder| *folder != root) {
            make_folder(folder, &sync_folder)?;
        }
        folders.lock().durable.insert(folder.to_owned());
    }
    let partial = folder.join(format!("{}{PARTIAL}", Uuid::new_v4()));
    let mut written = write_new(&partial, bytes);
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        make_folder(folder, &sync_folder)?;
        written = write_new(&partial, bytes);
    }
    let published = written.and_then(|()| publish_durably(folders, &path, || publish(&partial, &path)));
    // Absent after a rename. If it cannot be removed now, a listing removes it.
    let _ = fs::remove_file(&partial);
    published
}

/// Publishes the file `path`, and syncs its folder.
fn publish_durably(
    folders: &Folders,
    path: &Path,
    publish: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let folder = parent_of(path);
    // Before others can find it.
    *folders.lock().publishing.entry(path.to_owned()).or_default() += 1;
    let published = publish();
    let synced = if published.is_ok() { sync_folder(folder) } else { Ok(()) };
    let mut folders = folders.lock();
    if synced.is_err() {
        folders.fail(folder);
    }
    if let Entry::Occupied(mut calls) = folders.publishing.entry(path.to_owned()) {
        *calls.get_mut() -= 1;
        if *calls.get() == 0 {
            calls.remove();
        }
    }
    // An error of the sync must not be of a kind that says that nothing was written.
    published.and(synced.map_err(io::Error::other))
}

/// Makes the name of a file durable that was found, if a call of this process has published it and not synced it since.
fn settle(folders: &Folders, path: &Path) -> io::Result<()> {
    let folder = parent_of(path);
    let failure = {
        let folders = folders.lock();
        let failure = folders.failed.get(folder).copied();
        if failure.is_none() && !folders.publishing.contains_key(path) {
            return Ok(());
        }
        failure
    };
    sync_folder(folder)?;
    let mut folders = folders.lock();
    // Unless another sync has failed meanwhile.
    if folders.failed.get(folder).copied() == failure {
        folders.failed.remove(folder);
    }
    Ok(())
}

/// Links a file to its place; `AlreadyExists` if another file is there.
fn link(partial: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(partial, path) {
        // NFS may send a request twice, and report for the second that the link exists: it is our own.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if is_same_file(partial, path)? {
                Ok(())
            } else {
                Err(error)
            }
        }
        linked => linked,
    }
}

/// `None` if absent.
fn opened(root: &Path, name: &str) -> io::Result<Option<File>> {
    match File::open(file_of(root, name)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens and reads an object. On NFS, a file that another host replaces or removes while it is open here becomes stale: it
/// is opened again.
fn read_object<T>(root: &Path, name: &str, read: impl Fn(&File) -> io::Result<T>) -> io::Result<Option<T>> {
    let mut opens = 0;
    loop {
        let Some(file) = opened(root, name)? else { return Ok(None) };
        opens += 1;
        match read(&file) {
            Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle && opens < OPENS_MAX => {}
            answer => return answer.map(Some),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Collects the names below a folder with the prefix; `above` is the folder's own name with a slash, or
/// empty.
fn collect(folder: &Path, above: &str, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(file_name) = entry.file_name().into_string() else { continue };
        if file_name.ends_with(PARTIAL) {
            sweep(&entry);
        } else if let Some(last) = file_name.strip_suffix(OBJECT) {
            names.extend(Some(format!("{above}{last}")).filter(|name| name.starts_with(prefix)));
        } else {
            let inner = format!("{above}{file_name}/");
            let leads_there = inner.starts_with(prefix) || prefix.starts_with(&inner);
            if leads_there && entry.file_type()?.is_dir() {
                collect(&entry.path(), &inner, prefix, names)?;
            }
        }
    }
    Ok(())
}

/// Removes an abandoned unfinished file. Ignores failures.
fn sweep(entry: &fs::DirEntry) {
    let age = entry
        .metadata()
        .and_then(|metadata| metadata.modified())
        .map(|at| SystemTime::now().duration_since(at));
    if age.is_ok_and(|age| age.is_ok_and(|age| age > PARTIAL_AGE_MAX)) {
        let _ = fs::remove_file(entry.path());
    }
}

#[async_trait]
impl Objects for FileObjects {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        let owned = name.to_owned();
        let folders = self.folders.clone();
        let rename = |partial: &Path, path: &Path| fs::rename(partial, path);
        self.call("", move |root| write_object(root, &folders, &owned, &bytes, rename)).await
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        let (owned, folders) = (name.to_owned(), self.folders.clone());
        self.call(name, move |root| write_object(root, &folders, &owned, &bytes, link)).await
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        let read = |mut file: &File| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(Bytes::from(bytes))
        };
        self.read(name, read).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        let read = move |file: &File| {
            let there = file.metadata()?.len().saturating_sub(start).min(length);
            let mut bytes = vec![0; there as usize];
            if there > 0 {
                file.read_exact_at(&mut bytes, start)?;
            }
            Ok(Bytes::from(bytes))
        };
        self.read(name, read).await
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        names.iter().try_for_each(|name| check_name(name))?;
        // In chunks, so that each has the full timeout.
        for part in names.chunks(DELETES_PER_CALL) {
            let part = part.to_owned();
            let delete = move |root: &Path| {
                for name in &part {
                    match fs::remove_file(file_of(root, name)) {
                        Err(error) if !is_absent(&error) => return Err(error),
                        _ => {}
                    }
                }
                Ok(())
            };
            self.call("", delete).await?;
        }
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let prefix = prefix.to_owned();
        let list = move |root: &Path| {
            let mut names = Vec::new();
            collect(root, "", &prefix, &mut names)?;
            Ok(names)
        };
        let mut names = self.call_within(self.deadline * LIST_DEADLINES, "", list).await?;
        names.retain(|name| is_name(name));
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn store(folder: &Path) -> FileObjects {
        FileObjects::open(&FileOptions::new(folder.to_owned()), "a/b").await.unwrap()
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort_unstable();
        files
    }

    #[tokio::test]
    async fn files_of_others_are_no_objects() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        let root = folder.path().join("a/b");
        assert!(files(&root).is_empty(), "nothing stays of the check at the start");
        store.create("log/1", Bytes::from_static(b"1")).await.unwrap();
        fs::write(root.join("log/2"), b"of another").unwrap();
        fs::write(root.join("log/not a name="), b"of another").unwrap();
        fs::write(root.join("log/half=new"), b"ha").unwrap();
        assert_eq!(store.list("").await.unwrap(), ["log/1"]);
        assert_eq!(store.get("log/2").await, Ok(None));
        assert_eq!(files(&root.join("log")), ["1=", "2", "half=new", "not a name="]);
        // Recent unfinished files stay; abandoned ones are removed.
        let half = File::options().write(true).open(root.join("log/half=new")).unwrap();
        half.set_modified(SystemTime::now() - PARTIAL_AGE_MAX - Duration::from_mins(1)).unwrap();
        store.list("").await.unwrap();
        assert_eq!(files(&root.join("log")), ["1=", "2", "not a name="]);
        // A foreign file where a folder belongs.
        fs::write(root.join("taken"), b"of another").unwrap();
        assert_eq!(store.get("taken/x").await, Ok(None));
        assert!(matches!(store.put("taken/x", Bytes::new()).await, Err(ObjectError::Refused(_))));
    }

    #[tokio::test]
    async fn names_of_folders_are_durable_whoever_made_them() {
        let folder = tempfile::tempdir().unwrap();
        let synced = Mutex::new(Vec::new());
        let sync = |path: &Path| {
            synced.lock().push(path.strip_prefix(folder.path()).unwrap().to_owned());
            Ok(())
        };
        make_folder(&folder.path().join("a/b"), &sync).unwrap();
        assert_eq!(std::mem::take(&mut *synced.lock()), [Path::new(""), Path::new("a")]);
        make_folder(&folder.path().join("a/b"), &sync).unwrap();
        assert_eq!(*synced.lock(), [Path::new("a")]);
        // A process syncs a folder before it first writes there.
        let store = store(folder.path()).await;
        for name in ["log/1", "aggregates/shard/1/hint"] {
            store.put(name, Bytes::new()).await.unwrap();
            assert!(store.folders.lock().durable.contains(file_of(&store.root, name).parent().unwrap()));
        }
    }

    #[tokio::test]
    async fn a_lost_create_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        store.create("x", Bytes::from_static(b"first")).await.unwrap();
        let exists = Err(ObjectError::Exists("x".to_owned()));
        assert_eq!(store.create("x", Bytes::from_static(b"second")).await, exists);
        store.put("x", Bytes::from_static(b"third")).await.unwrap();
        assert_eq!(files(&folder.path().join("a/b")), ["x="]);
    }

    #[test]
    fn what_was_published_and_not_synced_is_in_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let (root, folders) = (folder.path(), Folders::default());
        let publish = |partial: &Path, path: &Path| {
            link(partial, path)?;
            assert!(folders.lock().publishing.contains_key(path));
            // The folder cannot be opened any more: a file is in its way.
            fs::rename(root.join("a"), root.join("gone"))?;
            fs::write(root.join("a"), b"of another")
        };
        let error = write_object(root, &folders, "a/b/x", b"x", publish).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(fs::read(root.join("gone/b/x=")).unwrap(), b"x");
        let path = file_of(root, "a/b/x");
        settle(&folders, &path).unwrap_err();
        fs::remove_file(root.join("a")).unwrap();
        fs::rename(root.join("gone"), root.join("a")).unwrap();
        settle(&folders, &path).unwrap();
        let known = folders.lock();
        assert!(known.failed.is_empty() && known.publishing.is_empty());
    }

    /// A writer that got no answer takes its object for durable if it reads it.
    #[tokio::test]
    async fn a_read_makes_durable_what_it_finds() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        store.create("log/1", Bytes::from_static(b"1")).await.unwrap();
        let path = file_of(&store.root, "log/1");
        store.folders.lock().fail(parent_of(&path));
        for (name, is_durable) in [("log/2", false), ("log/1", true)] {
            store.get(name).await.unwrap();
            assert_eq!(store.folders.lock().failed.is_empty(), is_durable, "{name}");
        }
    }

    #[test]
    fn a_stale_file_is_opened_again_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(file_of(folder.path(), "x"), b"x").unwrap();
        // The first `stale` opens are in vain.
        let outcome = |stale: usize| {
            let opens = std::cell::Cell::new(0);
            let read = |_: &File| {
                opens.set(opens.get() + 1);
                if opens.get() <= stale { Err(ErrorKind::StaleNetworkFileHandle.into()) } else { Ok(()) }
            };
            let read = read_object(folder.path(), "x", read);
            (read.map_err(|error| error.kind()), opens.get())
        };
        assert_eq!(outcome(0), (Ok(Some(())), 1));
        assert_eq!(outcome(3), (Ok(Some(())), 4));
        assert_eq!(outcome(usize::MAX), (Err(ErrorKind::StaleNetworkFileHandle), OPENS_MAX));
    }

    #[test]
    fn a_link_that_was_made_by_a_first_request_is_our_own() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, path) = (folder.path().join("partial"), folder.path().join("path"));
        fs::write(&partial, b"x").unwrap();
        fs::hard_link(&partial, &path).unwrap();
        link(&partial, &path).unwrap();
        fs::write(folder.path().join("other"), b"x").unwrap();
        let error = link(&folder.path().join("other"), &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn a_place_that_cannot_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"x").unwrap();
        let options = FileOptions::new(folder.path().join("file"));
        let error = FileObjects::open(&options, "a").await.err().expect("a file is in the way").to_string();
        assert!(error.starts_with(&format!("folder {}", folder.path().display())), "{error}");
    }
}
