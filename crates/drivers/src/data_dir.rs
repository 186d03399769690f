//! The embedded store's data directory: created, locked, and its format version checked.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use uuid::Uuid;

use crate::{
    OpenError,
    disk::{Disk, LocalDisk, creating, if_there, is_foreign, read_id, read_if_there, replace_file},
    owner::KeepOwner,
    reserve,
};

/// Version of the data directory's layout.
pub const FORMAT_VERSION: u32 = 1;

pub(crate) const VERSION_FILE: &str = "format-version";
pub(crate) const LOCK_FILE: &str = "lock";
pub(crate) const INCOMING: &str = "incoming";
pub(crate) const AGGREGATES: &str = "aggregates";
pub(crate) const INDEX: &str = "indexer.sqlite";
/// The id of the index that the data belongs to: written once that index is complete.
pub(crate) const INDEX_ID: &str = "index-id";
/// URL of the server that has the directory open; outdated if none has.
const ENDPOINT: &str = "endpoint";
/// What a restore adds to a data directory's name for its copy, or how it calls the copy within a mount point. While that
/// is in a directory, its store is not complete.
pub(crate) const RESTORING: &str = ".restoring";
/// What a backup leaves out: files of the running process, and the index, which its database copies.
pub(crate) const NOT_COPIED: &[&str] =
    &[LOCK_FILE, ENDPOINT, reserve::FILE_NAME, INDEX, "indexer.sqlite-wal", "indexer.sqlite-shm"];

/// Attempts to lock a data directory, and the pause between them: `gnudi status` locks it for a moment, to see whether a
/// server has it open, and must not fail the start of one.
const LOCK_TRIES_MAX: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A data directory, locked by this process while this value or a store with its hold is alive.
pub struct DataDir {
    path: PathBuf,
    hold: Arc<Hold>,
}

/// The lock of a data directory. Field order is drop order.
#[derive(Debug)]
pub struct Hold {
    _owner: KeepOwner,
    _lock: File,
}

impl DataDir {
    /// Opens `path`, creating it if missing. Refuses a directory that another process has open, that a newer
    /// program wrote, or in which a restore was interrupted.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let disk = LocalDisk;
        disk.create_dir(path).map_err(OpenError::io(path))?;
        sync_ancestors(&disk, path)?;
        let restoring = path.join(RESTORING);
        if restoring.exists() {
            let reason = "left by an interrupted restore: run `gnudi restore` again";
            return Err(OpenError::invalid(restoring, reason));
        }
        let lock = lock(path)?;
        let owner = KeepOwner::of(path);
        check_version(&disk, path)?;
        Ok(Self { path: path.to_owned(), hold: Arc::new(Hold { _owner: owner, _lock: lock }) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For the stores in the directory: their threads may outlive this value, and no other process may open it before.
    pub fn hold(&self) -> Arc<Hold> {
        Arc::clone(&self.hold)
    }

    /// The incoming log's directory.
    pub fn incoming(&self) -> PathBuf {
        self.path.join(INCOMING)
    }

    /// The aggregates' directory.
    pub fn aggregates(&self) -> PathBuf {
        self.path.join(AGGREGATES)
    }

    /// The indexer's database file.
    pub fn indexer(&self) -> PathBuf {
        index_path(&self.path)
    }

    /// Which of the folders for measures and aggregates are not empty.
    pub fn parts(&self) -> Result<Vec<&'static str>, OpenError> {
        let mut parts = Vec::new();
        for name in [INCOMING, AGGREGATES] {
            let dir = self.path.join(name);
            let entries = if_there(std::fs::read_dir(&dir)).map_err(OpenError::io(&dir))?;
            if entries.is_some_and(|mut entries| entries.next().is_some()) {
                parts.push(name);
            }
        }
        Ok(parts)
    }

    /// Records the URL of the server that has the directory open, for other programs.
    pub fn set_endpoint(&self, url: &str) -> Result<(), OpenError> {
        let path = self.path.join(ENDPOINT);
        replace_file(&LocalDisk, &path, format!("{url}\n").as_bytes()).map_err(OpenError::io(&path))
    }

    /// The index that the measures belong to; `None` before there was one, and in data of older programs.
    pub fn index_id(&self) -> Result<Option<Uuid>, OpenError> {
        read_id(&LocalDisk, &self.path.join(INDEX_ID), "id of an index")
    }

    /// Durably records which index the measures belong to, or that they belong to none.
    pub fn set_index_id(&self, id: Option<Uuid>) -> Result<(), OpenError> {
        let path = self.path.join(INDEX_ID);
        let done = match id {
            Some(id) => replace_file(&LocalDisk, &path, format!("{id}\n").as_bytes()),
            None => LocalDisk.remove(&path).and_then(|()| LocalDisk.sync_dir(&self.path)),
        };
        done.map_err(OpenError::io(&path))
    }
}

/// Locks the data directory at `path` without changing it, until the file is dropped. `None` if it has no
/// lock file, such as a backup that was never opened.
pub fn lock_unchanged(path: &Path) -> Result<Option<File>, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let lock = if_there(File::open(&lock_path)).map_err(OpenError::io(&lock_path))?;
    lock.map(|lock| take(path, &lock).map(|()| lock)).transpose()
}

/// Locks the data directory at `path`, which must exist, until the file is dropped.
pub fn lock(path: &Path) -> Result<File, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let lock = creating().truncate(false).open(&lock_path);
    let lock = lock.map_err(OpenError::io(&lock_path))?;
    for _ in 1..LOCK_TRIES_MAX {
        match take(path, &lock) {
            Err(OpenError::InUse { .. }) => thread::sleep(LOCK_PAUSE),
            taken => return taken.map(|()| lock),
        }
    }
    take(path, &lock).map(|()| lock)
}

/// Excludes repairs of the data directory at `path` until the file is dropped. This lock is on the directory itself: a
/// backup writes nothing there, and a server that has the store open must not hold it.
pub fn exclude_repairs(path: &Path) -> Result<File, OpenError> {
    lock_directory(path, File::try_lock_shared)
}

/// Excludes backups, too.
pub fn exclude_backups(path: &Path) -> Result<File, OpenError> {
    lock_directory(path, File::try_lock)
}

fn lock_directory(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<File, OpenError> {
    let dir = File::open(path).map_err(OpenError::io(path))?;
    match lock(&dir) {
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: path.to_owned() }),
        // Some network file systems lock no directories.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(dir),
    }
}

/// URL of the server that has the data directory at `path` open, or had it last; `None` if none was recorded.
pub fn endpoint(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path.join(ENDPOINT)).ok()?;
    Some(text.trim().to_owned()).filter(|url| !url.is_empty())
}

/// The kernel releases the lock whenever the process ends.
fn take(path: &Path, lock: &File) -> Result<(), OpenError> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path: path.join(LOCK_FILE), source }),
    }
}

/// The indexer's database file of the data directory at `path`; needs no lock.
pub fn index_path(path: &Path) -> PathBuf {
    path.join(INDEX)
}

/// Makes the names of all ancestors of `path` durable: their creator may have crashed before doing so.
fn sync_ancestors(disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
    let path = path.canonicalize().map_err(OpenError::io(path))?;
    for ancestor in path.ancestors().skip(1) {
        match disk.sync_dir(ancestor) {
            Err(error) if is_foreign(&error) => {}
            synced => synced.map_err(OpenError::io(ancestor))?,
        }
    }
    Ok(())
}

/// Creates a missing format version.
fn check_version(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(VERSION_FILE);
    match known_version(disk, dir)? {
        Some(Ok(_)) => Ok(()),
        Some(Err(text)) => Err(OpenError::invalid(path, format!("{text:?} is no format version"))),
        None => {
            let text = format!("{FORMAT_VERSION}\n");
            replace_file(disk, &path, text.as_bytes()).map_err(OpenError::io(path))
        }
    }
}

/// Refuses a data directory that a newer program wrote; changes nothing. Commands that do not open the store call it before
/// anything else: only that program knows what belongs to the store.
pub fn refuse_newer(dir: &Path) -> Result<(), OpenError> {
    known_version(&LocalDisk, dir).map(drop)
}

/// The format version of a data directory that no newer program wrote, or the text that is none; `None` if it is missing.
pub(crate) fn known_version(disk: &dyn Disk, dir: &Path) -> Result<Option<Result<u32, String>>, OpenError> {
    let path = dir.join(VERSION_FILE);
    let Some(bytes) = read_if_there(disk, &path)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    match text.parse::<u32>() {
        Ok(found) if found > FORMAT_VERSION => Err(OpenError::TooNew { path, found, known: FORMAT_VERSION }),
        Ok(found) => Ok(Some(Ok(found))),
        Err(_) => Ok(Some(Err(text))),
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::{
        aggregates::local::{LocalAggregates, LocalAggregatesOptions},
        disk::tests::Recorder,
        incoming::log::{LocalIncoming, LocalIncomingOptions},
    };

    #[test]
    fn a_directory_has_one_owner() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("some/where");
        let first = DataDir::open(&path).unwrap();
        assert_eq!(first.path(), path);
        let error = DataDir::open(&path).err().unwrap();
        assert!(matches!(&error, OpenError::InUse { dir } if *dir == path));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_store_holds_its_directory_until_it_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let is_in_use = || matches!(DataDir::open(root.path()), Err(OpenError::InUse { .. }));
        let segment_bytes = 1 << 16;
        let incoming = |dir: &DataDir| -> Box<dyn Any> {
            let hold = Some(dir.hold());
            let options = LocalIncomingOptions { segment_bytes, hold, ..LocalIncomingOptions::default() };
            Box::new(LocalIncoming::open(&dir.incoming(), &options).unwrap())
        };
        let aggregates = |dir: &DataDir| -> Box<dyn Any> {
            let hold = Some(dir.hold());
            let options = LocalAggregatesOptions { segment_bytes, hold, ..LocalAggregatesOptions::default() };
            Box::new(LocalAggregates::open(&dir.aggregates(), &options).unwrap())
        };
        for open in [&incoming as &dyn Fn(&DataDir) -> Box<dyn Any>, &aggregates] {
            let dir = DataDir::open(root.path()).unwrap();
            let store = open(&dir);
            drop(dir);
            assert!(is_in_use());
            drop(store);
            assert!(!is_in_use());
        }
    }

    #[test]
    fn whoever_looks_for_an_owner_keeps_none_out() {
        let root = tempfile::tempdir().unwrap();
        drop(DataDir::open(root.path()).unwrap());
        let opens = || {
            let looking = lock_unchanged(root.path()).unwrap();
            let looking = thread::spawn(move || {
                thread::sleep(LOCK_PAUSE);
                drop(looking);
            });
            let opened = DataDir::open(root.path());
            looking.join().unwrap();
            opened.is_ok()
        };
        // A busy machine may delay the thread for longer than a start waits.
        assert!((0..5).any(|_| opens()));
    }

    #[test]
    fn all_names_on_the_way_are_synced() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let disk = Recorder::default();
        sync_ancestors(&disk, &root.join("link/b")).unwrap();
        let done = disk.take(&root);
        assert_eq!(done[..2], ["sync ROOT/a", "sync ROOT"]);
        assert_eq!(done[done.len() - 1], "sync /");
        assert_eq!(done.len(), root.ancestors().count() + 1);
    }

    #[test]
    fn the_index_is_remembered() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap();
        assert_eq!((dir.index_id().unwrap(), dir.parts().unwrap()), (None, vec![]));
        dir.set_index_id(Some(Uuid::from_u128(7))).unwrap();
        assert_eq!(dir.index_id().unwrap(), Some(Uuid::from_u128(7)));
        dir.set_index_id(None).unwrap();
        assert_eq!(dir.index_id().unwrap(), None);
        std::fs::write(root.path().join(INDEX_ID), "seven").unwrap();
        assert!(matches!(dir.index_id(), Err(OpenError::Invalid { .. })));
        std::fs::create_dir(dir.incoming()).unwrap();
        assert_eq!(dir.parts().unwrap(), Vec::<&str>::new());
        std::fs::write(dir.incoming().join("00000001.log"), "").unwrap();
        assert_eq!(dir.parts().unwrap(), [INCOMING]);
    }

    #[test]
    fn a_newer_format_and_rubbish_are_refused() {
        let root = tempfile::tempdir().unwrap();
        drop(DataDir::open(root.path()).unwrap());
        let file = root.path().join(VERSION_FILE);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n");
        std::fs::write(&file, "2\n").unwrap();
        let error = DataDir::open(root.path()).err().unwrap();
        assert!(matches!(&error, OpenError::TooNew { path, found: 2, known: 1 } if *path == file), "{error}");
        std::fs::write(&file, "gnocchi").unwrap();
        assert!(matches!(DataDir::open(root.path()).err(), Some(OpenError::Invalid { .. })));
    }
}
