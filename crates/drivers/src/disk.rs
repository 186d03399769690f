//! The file operations of the embedded store behind a small trait, so that tests can fail any of them and
//! simulate power loss, in which unsynced data may be lost in any order.
//!
//! A [`Disk`] guarantees what a POSIX file system does: bytes are durable after `sync_data` of their file,
//! names after `sync_dir` of their directory, and nothing before that.

use std::{
    fs, io,
    io::{ErrorKind, IoSlice, IoSliceMut},
    iter,
    os::unix::fs::{DirBuilderExt as _, FileExt, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::runtime::{Handle, RuntimeFlavor};
use uuid::Uuid;

use crate::OpenError;

/// Operations on directories and names.
pub trait Disk: Send + Sync + 'static {
    /// Names of the files (not the directories) in a directory, unordered.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    fn is_dir(&self, dir: &Path) -> bool;
    /// Creates one directory, accessible to its owner only; the parent must exist.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates a directory and its parents, and makes their names durable. If the directory exists, its
    /// parent is synced anyway, and so is that of the first existing parent: their creator may have crashed
    /// before doing so.
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let parent = parent_of(dir);
        let is_new = !self.is_dir(dir);
        if is_new {
            if parent != dir {
                self.create_dir(parent)?;
            }
            match self.make_dir(dir) {
                // Created concurrently.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && self.is_dir(dir) => {}
                made => made?,
            }
        }
        match self.sync_dir(parent) {
            Err(error) if !is_new && is_foreign(&error) => Ok(()),
            synced => synced,
        }
    }
    /// Creates a file, or empties one that exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that is only read: the file system may be mounted read-only.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Whether the file has other names, too: then it must not be overwritten.
    fn is_linked(&self, _path: &Path) -> bool {
        false
    }
    /// Space of the file system that holds `dir`. Not every disk supports this.
    fn space(&self, dir: &Path) -> io::Result<Space> {
        Err(io::Error::new(ErrorKind::Unsupported, format!("the space of {} is not known", dir.display())))
    }
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total_bytes: u64,
    /// Available to this process; root's reserve is not counted.
    pub free_bytes: u64,
}

/// An open file, read and written at offsets.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Reads up to `buf.len()` bytes; 0 only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes the slices one behind the other; may write fewer bytes, as the system call does.
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    fn sync_data(&self) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Allocates space for the first `len` bytes. Extends a shorter file with zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// Most slices that one system call accepts (Linux: `UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;

/// Fills `buf` from `offset`, as far as the file goes; returns how many bytes it has there. `read` is
/// [`DiskFile::read_at`] of the file.
pub(crate) fn read_up_to(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    buf: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Fills `buf` from `offset`; `UnexpectedEof` if the file is shorter.
pub fn read_exact_at(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let done = read_up_to(|buf, offset| file.read_at(buf, offset), buf, offset)?;
    if done < buf.len() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Writes all slices from `offset` on.
pub fn write_all_at(file: &dyn DiskFile, mut slices: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    while !slices.is_empty() {
        match file.write_at(&slices[..slices.len().min(SLICES_MAX)], offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                IoSlice::advance_slices(&mut slices, count);
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The unit that reads as zeros when the disk cannot read it.
const PIECE_BYTES: usize = 4096;

/// Bytes to read from `offset` on, in pieces with their offsets, for a read after a joint one has failed: one bad place
/// must not cost the rest. Pieces are aligned to the disk's blocks, so that the bad block's neighbours are not lost.
pub(crate) fn pieces(offset: u64, bytes: &mut [u8]) -> impl Iterator<Item = (u64, &mut [u8])> {
    let unaligned = PIECE_BYTES - (offset % PIECE_BYTES as u64) as usize;
    let (first, rest) = bytes.split_at_mut(unaligned.min(bytes.len()));
    let mut end = offset;
    iter::once(first).chain(rest.chunks_mut(PIECE_BYTES)).map(move |piece| {
        let start = end;
        end += piece.len() as u64;
        (start, piece)
    })
}

/// The directory that contains the name `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        // The root has no parent.
        None => path,
    }
}

/// Whether a directory cannot be synced because another user owns it or its file system does not support it:
/// then this program did not create its names.
pub(crate) fn is_foreign(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported
            | ErrorKind::ReadOnlyFilesystem
    )
}

/// Makes the name of a file durable, if its directory can be synced at all.
pub fn sync_name(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.sync_dir(parent_of(path)) {
        Err(error) if is_foreign(&error) => Ok(()),
        synced => synced,
    }
}

/// The whole of a small file.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(|_| ErrorKind::FileTooLarge)?];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

/// `None` if the file does not exist.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Removes files, all that it can; returns the first error. One that is gone already is none.
pub(crate) fn remove_all(disk: &dyn Disk, paths: &[PathBuf]) -> io::Result<()> {
    let mut outcome = Ok(());
    for path in paths {
        outcome = outcome.and(if_there(disk.remove(path)).map(|_| ()));
    }
    outcome
}

/// The whole of a small file; `None` if it does not exist.
pub(crate) fn read_if_there(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    if_there(read_file(disk, path)).map_err(OpenError::io(path))
}

/// The id in a small text file; errors call it `what`. `None` if there is no file.
pub(crate) fn read_id(disk: &dyn Disk, path: &Path, what: &str) -> Result<Option<Uuid>, OpenError> {
    let Some(bytes) = read_if_there(disk, path)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let Ok(id) = Uuid::parse_str(text.trim()) else {
        return Err(OpenError::invalid(path, format!("{:?} is no {what}", text.trim())));
    };
    Ok(Some(id))
}

/// Replaces a small file atomically: written under another name, synced, renamed, directory synced. After a
/// crash either the old or the new bytes are there.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let file = disk.create(&temporary)?;
    let written = write_all_at(&*file, &mut [IoSlice::new(bytes)], 0).and_then(|()| file.sync_data());
    if let Err(error) = written.and_then(|()| disk.rename(&temporary, path)) {
        // Free the space: what is set aside of a damaged file may be large.
        disk.remove(&temporary).ok();
        return Err(error);
    }
    disk.sync_dir(parent_of(path))
}

/// `path` with `suffix` appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether both paths name the same file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(one)?, fs::metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Copies a file durably and atomically.
pub(crate) fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let partial = with_suffix(to, ".tmp");
    fs::copy(from, &partial)?;
    fs::File::open(&partial)?.sync_all()?;
    fs::rename(&partial, to)
}

/// Whether an error means that there is no space: disk, quota or file size limit.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Whether an error means that the process, or the system, has too many files open.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether an error means a lack that passes: of open files, or of the system's memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    is_out_of_files(error) || error.kind() == ErrorKind::OutOfMemory
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.is_dir()
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = creating();
        Ok(Arc::new(LocalFile(options.read(true).truncate(true).open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LocalFile(fs::OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LocalFile(fs::File::open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn is_linked(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| found.nlink() > 1)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total_bytes: bytes(stat.f_blocks), free_bytes: bytes(stat.f_bavail) })
    }
}

/// Options to open a file for writing that may not be there yet. A symbolic link is an error: root also works in the
/// directories of other users, whose links may name any file.
pub(crate) fn creating() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Runs work that waits for a disk. The other tasks of this thread go on in another one.
fn without_blocking_tasks<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // No tasks, or no other thread.
        _ => work(),
    }
}

struct LocalFile(fs::File);

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        // Most reads are of bytes that the page cache has. Some versions of Linux return 0 instead of an error if it has
        // not.
        match preadv2(&self.0, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) if count > 0 => Ok(count),
            _ => without_blocking_tasks(|| self.0.read_at(buf, offset)),
        }
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.0, slices, offset))?)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        allocated(|| rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len))
    }
}

/// Repeats an allocation that a signal interrupts: what it has allocated stays.
fn allocated(allocate: impl FnMut() -> rustix::io::Result<()>) -> io::Result<()> {
    match rustix::io::retry_on_intr(allocate) {
        // The file system cannot allocate: lack of space then shows when bytes are written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        answer => Ok(answer?),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        os::unix::fs::PermissionsExt as _,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use parking_lot::Mutex;
    use rustix::fs::Advice;

    use super::*;

    /// The operating system's files; records changes of names and synced directories.
    #[derive(Default)]
    pub(crate) struct Recorder {
        operations: Mutex<Vec<String>>,
        /// How many of the next openings of files, and of directories, fail because too many are open.
        pub(crate) files_refused: AtomicUsize,
        pub(crate) dirs_refused: AtomicUsize,
        /// What the next call of `create` returns.
        pub(crate) created: Mutex<Option<Arc<dyn DiskFile>>>,
    }

    fn refuse(left: &AtomicUsize) -> io::Result<()> {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(Errno::MFILE.into()),
            Err(_) => Ok(()),
        }
    }

    impl Recorder {
        /// The operations since the last call, with paths relative to `root`.
        pub(crate) fn take(&self, root: &Path) -> Vec<String> {
            let root = format!("{}", root.display());
            std::mem::take(&mut *self.operations.lock())
                .iter()
                .map(|line| line.replace(&root, "ROOT"))
                .collect()
        }

        fn note(&self, operation: &str, path: &Path) {
            self.operations.lock().push(format!("{operation} {}", path.display()));
        }
    }

    impl Disk for Recorder {
        fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
            LocalDisk.list(dir)
        }

        fn is_dir(&self, dir: &Path) -> bool {
            LocalDisk.is_dir(dir)
        }

        fn make_dir(&self, dir: &Path) -> io::Result<()> {
            self.note("make", dir);
            LocalDisk.make_dir(dir)
        }

        fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
            refuse(&self.files_refused)?;
            self.created.lock().take().map_or_else(|| LocalDisk.create(path), Ok)
        }

        fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
            refuse(&self.files_refused)?;
            LocalDisk.open(path)
        }

        fn space(&self, dir: &Path) -> io::Result<Space> {
            LocalDisk.space(dir)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.note("rename", to);
            LocalDisk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.note("remove", path);
            LocalDisk.remove(path)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            refuse(&self.dirs_refused)?;
            self.note("sync", dir);
            LocalDisk.sync_dir(dir)
        }
    }

    #[test]
    fn the_parent_of_every_new_level_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (disk, dir) = (Recorder::default(), root.join("a/b/c"));
        disk.create_dir(&dir).unwrap();
        let above = format!("sync {}", root.parent().unwrap().display());
        let wanted =
            ["make ROOT/a", "sync ROOT", "make ROOT/a/b", "sync ROOT/a", "make ROOT/a/b/c", "sync ROOT/a/b"];
        let done = disk.take(root);
        assert_eq!((&done[0], &done[1..]), (&above, &wanted.map(str::to_owned)[..]));
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        // The creator may have crashed before the sync.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        disk.create_dir(&dir).unwrap();
        assert_eq!(disk.take(root), ["sync ROOT/a/b"]);
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o750, "it is left as it is");
    }

    #[test]
    fn a_name_without_a_slash_stands_in_the_working_directory() {
        assert_eq!(parent_of(Path::new("gnudi-data")), Path::new("."));
        assert_eq!(parent_of(Path::new("./gnudi-data")), Path::new("."));
        assert_eq!(parent_of(Path::new("/gnudi-data")), Path::new("/"));
        assert_eq!(parent_of(Path::new("/")), Path::new("/"));
        let disk = Recorder::default();
        // Tests run in the crate's directory.
        disk.create_dir(Path::new("src")).unwrap();
        assert_eq!(disk.take(Path::new("/nowhere")), ["sync ."]);
    }

    #[test]
    fn work_that_waits_leaves_its_thread_to_other_tasks() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let waits = runtime.spawn(async move {
            tokio::spawn(async move { send.send(7).unwrap() });
            without_blocking_tasks(|| receive.recv_timeout(Duration::from_mins(1)))
        });
        assert_eq!(runtime.block_on(waits).unwrap(), Ok(7));
        assert_eq!(without_blocking_tasks(|| 8), 8, "outside of a runtime");
        let alone = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(alone.block_on(async { without_blocking_tasks(|| 9) }), 9);
    }

    #[test]
    fn reads_return_what_the_cache_has_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let file = LocalDisk.open(&path).unwrap();
        file.sync_data().unwrap();
        let plain = fs::File::open(&path).unwrap();
        for advice in [Advice::Normal, Advice::DontNeed] {
            rustix::fs::fadvise(&plain, 0, None, advice).unwrap();
            let mut read = vec![0; bytes.len() - 5];
            read_exact_at(&*file, &mut read, 5).unwrap();
            assert!(read == bytes[5..], "{advice:?}");
        }
        assert_eq!(file.read_at(&mut [0; 10], bytes.len() as u64).unwrap(), 0, "at the end");
    }

    #[test]
    fn nothing_is_written_where_a_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, link) = (folder.path().join("outside"), folder.path().join("link"));
        fs::write(&outside, b"kept").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(LocalDisk.create(&link).is_err());
        assert!(creating().truncate(false).open(&link).is_err());
        assert_eq!(fs::read(&outside).unwrap(), b"kept");
        LocalDisk.create(&outside).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"");
    }

    #[test]
    fn an_interrupted_allocation_is_repeated() {
        let mut answers = [Err(Errno::INTR), Err(Errno::INTR), Err(Errno::NOSPC)].into_iter();
        let error = allocated(|| answers.next().unwrap()).unwrap_err();
        assert!(is_no_space(&error), "{error}");
        allocated(|| Err(Errno::OPNOTSUPP)).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"").unwrap();
        for name in ["file", "file/below"] {
            LocalDisk.create_dir(&folder.path().join(name)).unwrap_err();
        }
    }
}
