//! Copying one file that may be in use.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a file that went into a backup, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub copied: u64,
    pub linked: u64,
}

/// Copies a file to which somebody appends, and answers its length; `None`, and no copy, where it is gone or has been given
/// another name meanwhile.
///
/// The end is read first. What is written is written front to back, so all that stands in front of a byte that was read is
/// there when it is read: the copy has no hole, only an end.
pub fn copy_growing(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let Some(source) = open_if_there(from)? else { return Ok(None) };
    let length = source.metadata()?.len();
    let copy = File::create_new(to)?;
    copy.set_len(length)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES as u64);
        let chunk = &mut buffer[..(end - start) as usize];
        chunk.fill(0);
        read_up_to(&source, chunk, start)?;
        // Space that is only reserved stays a hole.
        if chunk.iter().any(|byte| *byte != 0) {
            copy.write_all_at(chunk, start)?;
        }
        end = start;
    }
    copy.sync_all()?;
    if names_file(from, &source)? {
        Ok(Some(length))
    } else {
        fs::remove_file(to)?;
        Ok(None)
    }
}

/// Copies a small file that others replace as a whole; `None` where it is gone.
pub fn copy_small(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let bytes = match fs::read(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    fs::write(to, &bytes)?;
    File::open(to)?.sync_all()?;
    Ok(Some(bytes.len() as u64))
}

/// Shares a file that never changes, or copies it where another file system is in between and none of `earlier` is a copy of it.
/// `None` where it is gone.
pub fn link_or_copy(from: &Path, to: &Path, earlier: &[PathBuf]) -> io::Result<Option<Bytes>> {
    let Some(source) = open_if_there(from)? else { return Ok(None) };
    let metadata = source.metadata()?;
    let linked = Bytes { copied: 0, linked: metadata.len() };
    match fs::hard_link(from, to) {
        Ok(()) => return Ok(Some(linked)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // Another file system, or one without links.
        Err(_) => {}
    }
    for copy in earlier {
        let is_same = fs::metadata(copy).is_ok_and(|copy| {
            copy.len() == metadata.len()
                && (copy.mtime(), copy.mtime_nsec()) == (metadata.mtime(), metadata.mtime_nsec())
        });
        if is_same && fs::hard_link(copy, to).is_ok() {
            return Ok(Some(linked));
        }
    }
    copy_whole(source, to)?;
    Ok(Some(Bytes { copied: metadata.len(), linked: 0 }))
}

/// Copies an open file with its time of change, by which a later backup knows it again.
pub fn copy_whole(mut source: File, to: &Path) -> io::Result<()> {
    let mut copy = File::create_new(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_modified(source.metadata()?.modified()?)?;
    copy.sync_all()
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// Whether the name still belongs to the open file.
fn names_file(path: &Path, file: &File) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fills as much of `buffer` as the file has from `offset` on.
fn read_up_to(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_file_is_copied_and_one_that_is_renamed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        assert_eq!(copy_growing(&from, &to).unwrap(), None);
        let bytes: Vec<u8> = (0..CHUNK_BYTES * 2 + 5).map(|at| (at % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        assert_eq!(copy_growing(&from, &to).unwrap(), Some(bytes.len() as u64));
        assert_eq!(fs::read(&to).unwrap(), bytes);
        let open = File::open(&from).unwrap();
        assert!(names_file(&from, &open).unwrap());
        fs::rename(&from, dir.path().join("spare")).unwrap();
        assert!(!names_file(&from, &open).unwrap());
        fs::write(&from, b"another").unwrap();
        assert!(!names_file(&from, &open).unwrap());
    }

    #[test]
    fn what_never_changes_is_shared() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        assert_eq!(link_or_copy(&from, &to, &[]).unwrap(), None);
        fs::write(&from, b"entries").unwrap();
        assert_eq!(link_or_copy(&from, &to, &[]).unwrap(), Some(Bytes { copied: 0, linked: 7 }));
        assert_eq!(fs::metadata(&from).unwrap().ino(), fs::metadata(&to).unwrap().ino());
    }

    #[test]
    fn a_copy_keeps_its_time_of_change() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, b"entries").unwrap();
        copy_whole(File::open(&from).unwrap(), &to).unwrap();
        let (from, to) = (fs::metadata(from).unwrap(), fs::metadata(to).unwrap());
        assert_eq!((from.mtime(), from.mtime_nsec(), from.len()), (to.mtime(), to.mtime_nsec(), to.len()));
    }
}
