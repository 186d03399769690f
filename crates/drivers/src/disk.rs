//! The file operations of the embedded store behind a small trait, so that tests can fail any of them and cut the
//! power: what is not synced may be lost, in any order.
//!
//! The rules a [`Disk`] promises are those of a POSIX file system: bytes are durable after `sync_data` of their file,
//! names after `sync_dir` of their directory, and nothing before that.

use std::{
    fs, io,
    io::{ErrorKind, IoSlice},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Directories and names.
pub trait Disk: Send + Sync + 'static {
    /// The names of the files (not the directories) in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its parents; one that exists is no error.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file, or empties one that exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file, read and written at offsets.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Reads up to `buf.len()` bytes; fewer than one only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes the slices one behind the other; may write less than all, as the system call does.
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    fn sync_data(&self) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Reserves space for the first `len` bytes. Makes a shorter file longer, with zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// How many slices one system call takes (Linux: `UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;

/// Fills `buf` from `offset`; `UnexpectedEof` where the file is shorter.
pub fn read_exact_at(file: &dyn DiskFile, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buf = &mut buf[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

/// The whole of a small file.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(|_| ErrorKind::FileTooLarge)?];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

/// Replaces a small file so that after a crash either the old or the new bytes are there: written under another name,
/// synced, renamed, directory synced.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let file = disk.create(&temporary)?;
    write_all_at(&*file, &mut [IoSlice::new(bytes)], 0)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(path.parent().expect("a file lies in a directory"))
}

/// `path` with `suffix` behind its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether an error says that there is no room: disk, quota or file size limit.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
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

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(dir)?;
        // The new name is an entry of the parent.
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent),
            _ => Ok(()),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = fs::OpenOptions::new();
        Ok(Arc::new(LocalFile(options.read(true).write(true).create(true).truncate(true).open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LocalFile(fs::OpenOptions::new().read(true).write(true).open(path)?)))
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
}

struct LocalFile(fs::File);

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
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
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            // A file system without reservation, or one that gives it up at a signal: space is then found, or not, as bytes
            // are written.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INTR) => Ok(()),
            answer => Ok(answer?),
        }
    }
}
