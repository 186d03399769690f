//! A read-only disk: discards writes, counts what is read, and remembers what cannot be read.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind, IoSlice},
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::Progress;
use crate::disk::{Disk, DiskFile, LocalDisk, if_there, pieces};

/// The operating system's files. Opening a store on it changes nothing.
#[derive(Clone)]
pub(crate) struct ReadOnlyDisk {
    progress: Arc<Progress>,
    unreadable: Arc<Mutex<Unreadable>>,
}

/// Bytes that could not be read, by file; in order, and not adjacent.
pub(crate) type Unreadable = BTreeMap<PathBuf, Vec<Range<u64>>>;

impl ReadOnlyDisk {
    pub fn new(progress: Arc<Progress>) -> Self {
        Self { progress, unreadable: Arc::default() }
    }

    /// What could not be read so far of the files that the filter selects.
    pub fn unreadable(&self, is_wanted: impl Fn(&Path) -> bool) -> Unreadable {
        let unreadable = self.unreadable.lock();
        let wanted = unreadable.iter().filter(|(path, _)| is_wanted(path));
        wanted.map(|(path, ranges)| (path.clone(), ranges.clone())).collect()
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
        Ok(Arc::new(ReadOnlyFile { file, path: path.to_owned(), disk: self.clone() }))
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
    path: PathBuf,
    disk: ReadOnlyDisk,
}

impl DiskFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bad = |bytes| add(self.disk.unreadable.lock().entry(self.path.clone()).or_default(), bytes);
        let count = read_past_bad_places(&|buf, offset| self.file.read_at(buf, offset), buf, offset, &bad)?;
        self.disk.progress.add(0, count as u64);
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

/// Adds a range to ranges that are in order and not adjacent.
fn add(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    let first = ranges.partition_point(|range| range.end < new.start);
    let behind = ranges.partition_point(|range| range.start <= new.end);
    let joined = &ranges[first..behind];
    let start = joined.first().map_or(new.start, |range| range.start.min(new.start));
    let end = joined.last().map_or(new.end, |range| range.end.max(new.end));
    drop(ranges.splice(first..behind, std::iter::once(start..end)));
}

/// Like `read`, but unreadable pieces read as zeros, which match no checksum: a bad place does not affect its
/// neighbours. Each is passed to `bad`.
fn read_past_bad_places(
    read: &dyn Fn(&mut [u8], u64) -> io::Result<usize>,
    buf: &mut [u8],
    offset: u64,
    bad: &dyn Fn(Range<u64>),
) -> io::Result<usize> {
    match read(buf, offset) {
        Err(error) if error.kind() != ErrorKind::Interrupted => {}
        answer => return answer,
    }
    let Some((_, piece)) = pieces(offset, buf).next() else { return Ok(0) };
    match read(piece, offset) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) => {
            tracing::warn!(offset, "unreadable, treated as zeros: {error}");
            piece.fill(0);
            bad(offset..offset + piece.len() as u64);
            Ok(piece.len())
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
        let found: Mutex<Vec<Range<u64>>> = Mutex::default();
        let bad = |bytes| add(&mut found.lock(), bytes);
        while at < bytes.len() {
            at += read_past_bad_places(&read, &mut bytes[at..], at as u64, &bad).unwrap();
        }
        assert_eq!(*found.lock(), [BAD]);
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, if BAD.contains(&(at as u64)) { 0 } else { 7 }, "{at}");
        }
    }

    #[test]
    fn ranges_are_joined() {
        let mut ranges = Vec::new();
        for (new, expected) in [
            (10..20, vec![(10, 20)]),
            (30..40, vec![(10, 20), (30, 40)]),
            (12..15, vec![(10, 20), (30, 40)]),
            (40..50, vec![(10, 20), (30, 50)]),
            (0..10, vec![(0, 20), (30, 50)]),
            (19..31, vec![(0, 50)]),
            (60..70, vec![(0, 50), (60, 70)]),
        ] {
            add(&mut ranges, new);
            let found: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
        }
    }
}
