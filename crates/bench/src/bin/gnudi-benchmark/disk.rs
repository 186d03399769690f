//! Disk use of files, as in `du`.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// The unit of `st_blocks`, whatever the file system's block size.
const BLOCK_BYTES: u64 = 512;

/// The blocks of everything under the path; files that disappear meanwhile are skipped.
pub fn used_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    let of_entries = if metadata.is_dir() { below(path, used_bytes)? } else { 0 };
    Ok(metadata.blocks() * BLOCK_BYTES + of_entries)
}

/// The bytes of all files under the path up to the last non-zero byte: without preallocated space.
pub fn written_bytes(path: &Path) -> io::Result<u64> {
    if !fs::symlink_metadata(path)?.is_dir() {
        let content = fs::read(path)?;
        return Ok(content.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1));
    }
    below(path, written_bytes)
}

/// The sum over a directory's entries; those that disappear meanwhile are skipped.
fn below(path: &Path, bytes: fn(&Path) -> io::Result<u64>) -> io::Result<u64> {
    let of_entry = |entry: io::Result<fs::DirEntry>| match bytes(&entry?.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        bytes => bytes,
    };
    fs::read_dir(path)?.map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_laid_out_in_advance_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("log")).unwrap();
        fs::write(directory.path().join("log/1"), [1, 0, 2, 0, 0]).unwrap();
        fs::write(directory.path().join("empty"), [0; 9]).unwrap();
        assert_eq!(written_bytes(directory.path()).unwrap(), 3);
    }

    #[test]
    fn directories_are_added_up() {
        let directory = tempfile::tempdir().unwrap();
        let before = used_bytes(directory.path()).unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("file"), vec![1; 100_000]).unwrap();
        fs::File::open(below.join("file")).unwrap().sync_all().unwrap();
        let after = used_bytes(directory.path()).unwrap();
        assert!(after - before >= 100_000 && after - before < 200_000, "{before} {after}");
        assert!(used_bytes(&directory.path().join("missing")).is_err());
    }
}
