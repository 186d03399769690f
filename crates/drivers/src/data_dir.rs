//! The directory that holds everything the embedded store keeps: made, locked and checked for its format's version.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    OpenError,
    disk::{Disk, LocalDisk, read_file, replace_file},
};

/// What a data directory's layout is called by its first version.
pub const FORMAT_VERSION: u32 = 1;

const VERSION_FILE: &str = "format-version";
const LOCK_FILE: &str = "lock";

/// A data directory that belongs to this process for as long as this lives.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens `path`, creating it where it is missing. Refuses a directory that another process has open, or that a newer
    /// program wrote.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let disk = LocalDisk;
        disk.create_dir(path).map_err(OpenError::io(path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(OpenError::io(&lock_path))?;
        // The kernel lets go of it when the process ends, however it ends.
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { dir: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(OpenError::Io { path: lock_path, source }),
        }
        check_version(&disk, &path.join(VERSION_FILE))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the incoming log lies.
    pub fn incoming(&self) -> PathBuf {
        self.path.join("incoming")
    }

    /// Where the aggregates lie.
    pub fn aggregates(&self) -> PathBuf {
        self.path.join("aggregates")
    }

    /// The indexer's database file.
    pub fn indexer(&self) -> PathBuf {
        self.path.join("indexer.sqlite")
    }
}

fn check_version(disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
    let bytes = match read_file(disk, path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("{FORMAT_VERSION}\n");
            return replace_file(disk, path, text.as_bytes()).map_err(OpenError::io(path));
        }
        Err(source) => return Err(OpenError::Io { path: path.to_owned(), source }),
    };
    let text = String::from_utf8_lossy(&bytes);
    match text.trim().parse::<u32>() {
        Ok(found) if found > FORMAT_VERSION => {
            Err(OpenError::TooNew { path: path.to_owned(), found, known: FORMAT_VERSION })
        }
        Ok(_) => Ok(()),
        Err(_) => {
            let reason = format!("{:?} is no format version", text.trim());
            Err(OpenError::Invalid { path: path.to_owned(), reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
