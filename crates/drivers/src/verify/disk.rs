//! A read-only disk: discards writes, and counts what is read.

use std::{
    fs,
    io::{self, ErrorKind, IoSlice},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use super::Progress;
use crate::disk::{Disk, DiskFile, LocalDisk, if_there};

/// The unit that reads as zeros when the disk cannot read it.
const PIECE_BYTES: u64 = 4096;

/// The operating system's files. Opening a store on it changes nothing.
#[derive(Clone)]
pub(crate) struct ReadOnlyDisk {
    progress: Arc<Progress>,
}

impl ReadOnlyDisk {
    pub fn new(progress: Arc<Progress>) -> Self {
        Self { progress }
    }
}

impl Disk for ReadOnlyDisk {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if_there(LocalDisk.list(dir)).map(Option::unwrap_or_default)
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.is_dir()
    }

    fn make_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = fs::File::open(path)?;
        self.progress.add(1, 0);
        Ok(Arc::new(ReadOnlyFile { file, progress: Arc::clone(&self.progress) }))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct ReadOnlyFile {
    file: fs::File,
    progress: Arc<Progress>,
}

impl DiskFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = read_past_bad_places(&|buf, offset| self.file.read_at(buf, offset), buf, offset)?;
        self.progress.add(0, count as u64);
        Ok(count)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], _offset: u64) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Like `read`, but unreadable pieces read as zeros, which match no checksum: a bad place does not affect its
/// neighbours.
fn read_past_bad_places(
    read: &dyn Fn(&mut [u8], u64) -> io::Result<usize>,
    buf: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    match read(buf, offset) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {}
        answer => return answer,
    }
    let length = (PIECE_BYTES - offset % PIECE_BYTES).min(buf.len() as u64) as usize;
    let piece = &mut buf[..length];
    match read(piece, offset) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) => {
            tracing::warn!(offset, "unreadable, treated as zeros: {error}");
            piece.fill(0);
            Ok(length)
        }
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_place_costs_no_more_than_itself() {
        const BAD: std::ops::Range<u64> = 8192..12288;
        let read = |buf: &mut [u8], offset: u64| {
            if offset < BAD.end && offset + buf.len() as u64 > BAD.start {
                return Err(io::Error::other("bad sector"));
            }
            buf.fill(7);
            Ok(buf.len())
        };
        let mut bytes = vec![1; 20_000];
        let mut at = 0;
        while at < bytes.len() {
            at += read_past_bad_places(&read, &mut bytes[at..], at as u64).unwrap();
        }
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, if BAD.contains(&(at as u64)) { 0 } else { 7 }, "{at}");
        }
    }
}
