//! Reads YAML files of operators (rules, limits) of limited size.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: the file has more than {bytes_max} bytes", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
}

/// Reads a text file of at most `bytes_max` bytes. The length in its metadata is not relied upon: devices and
/// pipes have none.
pub fn read(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let unreadable = |error: io::Error| FileError::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    read.map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        return Err(FileError::TooLarge { path: path.to_owned(), bytes_max });
    }
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_at_most_so_many_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "aé").unwrap();
        assert_eq!(read(file.path(), 3).unwrap(), "aé");
        for bytes_max in [1, 2] {
            assert!(matches!(read(file.path(), bytes_max), Err(FileError::TooLarge { .. })), "{bytes_max}");
        }
        assert!(matches!(read(Path::new("/dev/zero"), 5), Err(FileError::TooLarge { bytes_max: 5, .. })));
        std::fs::write(file.path(), b"\xff").unwrap();
        assert!(matches!(read(file.path(), 3), Err(FileError::Unreadable { .. })));
    }
}
