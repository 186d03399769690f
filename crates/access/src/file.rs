//! Reads YAML files of operators (rules, limits) of limited size.

use std::path::{Path, PathBuf};

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}: the file has more than {bytes_max} bytes", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
}

/// Reads a text file of at most `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let unreadable = |error| FileError::Unreadable { path: path.to_owned(), error };
    if std::fs::metadata(path).map_err(unreadable)?.len() > bytes_max {
        return Err(FileError::TooLarge { path: path.to_owned(), bytes_max });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}
