//! Copies of files where links cannot be made.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use crate::disk::with_suffix;

/// Whether both names belong to one file.
pub fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(one)?, fs::metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Copies a file, durably and as a whole.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let partial = with_suffix(to, ".tmp");
    fs::copy(from, &partial)?;
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, to)
}
