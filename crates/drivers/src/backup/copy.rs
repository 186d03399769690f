//! Copies a file that may be in use.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{FileExt, MetadataExt as _},
    path::Path,
};

use crc_fast::{CrcAlgorithm, Digest};

use crate::disk::{if_there, read_up_to, with_suffix};

const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a growing file of which two reads must agree, and how often they are read at most.
const PIECE_BYTES: usize = 64 << 10;
const READS_MAX: usize = 1_000;
/// Name suffix of an unfinished copy.
const COPYING_SUFFIX: &str = ".copying";

/// Receives the number of bytes copied or read since the last call.
pub type OnBytes<'a> = &'a mut dyn FnMut(u64);

/// Copies a file that another process appends to, and returns its length; `None`, without a copy, if it is
/// gone or was renamed meanwhile. The copy gets the modification time that the file had before.
///
/// Reads backwards from the end, each piece as it is at one moment. The file is written front to back, so everything
/// before a byte that was read exists when it is read: the copy has no hole, only an end.
pub fn copy_growing(from: &Path, to: &Path, on_bytes: OnBytes<'_>) -> io::Result<Option<u64>> {
    let Some(source) = if_there(File::open(from))? else { return Ok(None) };
    let metadata = source.metadata()?;
    let length = metadata.len();
    let copy = File::create_new(to)?;
    copy.set_len(length)?;
    let read = |buffer: &mut [u8], offset: u64| source.read_at(buffer, offset);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES as u64);
        let chunk = &mut buffer[..(end - start) as usize];
        read_growing(&read, chunk, start)?;
        // Space that is only allocated stays a hole.
        if chunk.iter().any(|byte| *byte != 0) {
            copy.write_all_at(chunk, start)?;
        }
        on_bytes(end - start);
        end = start;
    }
    copy.set_modified(metadata.modified()?)?;
    copy.sync_all()?;
    if names_file(from, &source)? {
        Ok(Some(length))
    } else {
        fs::remove_file(to)?;
        Ok(None)
    }
}

/// Copies a small file that is replaced atomically; `None` if it is gone.
pub fn copy_small(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let Some(bytes) = if_there(fs::read(from))? else { return Ok(None) };
    fs::write(to, &bytes)?;
    File::open(to)?.sync_all()?;
    Ok(Some(bytes.len() as u64))
}

/// Hard-links `from` as `to`; false if that is impossible: another file system, or one without links.
pub fn link(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
        Err(_) => Ok(false),
    }
}

/// Copies an immutable file with its modification time, by which a later backup recognises it. The copy is
/// renamed to `to` once durable. Returns the checksum of the copied bytes.
pub fn copy_whole(from: &Path, to: &Path, on_bytes: OnBytes<'_>) -> io::Result<u32> {
    let mut source = File::open(from)?;
    let temporary = with_suffix(to, COPYING_SUFFIX);
    let mut copy = File::create(&temporary)?;
    let checksum = read_through(&mut source, &mut |chunk| {
        copy.write_all(chunk)?;
        on_bytes(chunk.len() as u64);
        Ok(())
    })?;
    copy.set_modified(source.metadata()?.modified()?)?;
    copy.sync_all()?;
    fs::rename(&temporary, to)?;
    Ok(checksum)
}

/// The CRC32C of a file.
pub fn checksum(path: &Path, on_bytes: OnBytes<'_>) -> io::Result<u32> {
    read_through(&mut File::open(path)?, &mut |chunk| {
        on_bytes(chunk.len() as u64);
        Ok(())
    })
}

/// Passes a file chunk by chunk to `visit`, and returns its CRC32C.
fn read_through(file: &mut File, visit: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<u32> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(digest.finalize() as u32),
            Ok(count) => {
                digest.update(&buffer[..count]);
                visit(&buffer[..count])?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether two files have the same length and modification time.
pub fn looks_alike(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    let time = |file: &fs::Metadata| (file.len(), file.mtime(), file.mtime_nsec());
    time(one) == time(other)
}

/// Whether both belong to the same file.
pub fn is_same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether the path still names the open file.
fn names_file(path: &Path, file: &File) -> io::Result<bool> {
    let open = file.metadata()?;
    Ok(if_there(fs::metadata(path))?.is_some_and(|named| is_same_file(&named, &open)))
}

/// Reads from a file at an offset, as [`FileExt::read_at`] does.
type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> io::Result<usize>;

/// Reads a chunk of a file that is written front to back, its last piece first.
///
/// One read copies page by page: it may miss a write and see a later one behind it. So a piece is read until two reads
/// agree. Then the piece is as it was at the end of the first read, because each byte is written once: a byte that the
/// first read found written was written at that moment, and a byte that the second read found unwritten was not.
fn read_growing(read: ReadAt<'_>, chunk: &mut [u8], start: u64) -> io::Result<()> {
    read_or_zeros(read, chunk, start)?;
    let mut again = vec![0; PIECE_BYTES.min(chunk.len())];
    for (index, piece) in chunk.chunks_mut(PIECE_BYTES).enumerate().rev() {
        let again = &mut again[..piece.len()];
        settle(read, piece, again, start + (index * PIECE_BYTES) as u64)?;
    }
    Ok(())
}

/// Reads a piece that was read before until two reads agree.
fn settle(read: ReadAt<'_>, piece: &mut [u8], again: &mut [u8], offset: u64) -> io::Result<()> {
    for _ in 0..READS_MAX {
        read_or_zeros(read, again, offset)?;
        if *again == *piece {
            return Ok(());
        }
        piece.copy_from_slice(again);
    }
    Err(io::Error::other(format!("the bytes at {offset} changed in each of {READS_MAX} reads")))
}

/// Fills `buffer` from `offset`, as far as the file goes; the rest with zeros.
fn read_or_zeros(read: ReadAt<'_>, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let length = read_up_to(read, buffer, offset)?;
    buffer[length..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// While a read copies a page, the writer may write two.
    #[test]
    fn a_read_of_a_growing_file_finds_no_hole() {
        const PAGE_BYTES: usize = 4096;
        const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
        let read_from = |first: usize| {
            let copied = Cell::new(0_usize);
            let read = |buffer: &mut [u8], offset: u64| -> io::Result<usize> {
                for (page, number) in buffer.chunks_mut(PAGE_BYTES).zip(offset as usize / PAGE_BYTES..) {
                    page.fill(u8::from(number < 2 * copied.get().saturating_sub(first)));
                    copied.set(copied.get() + 1);
                }
                Ok(buffer.len())
            };
            let mut chunk = vec![0; CHUNK_BYTES];
            read_growing(&read, &mut chunk, 0).unwrap();
            chunk
        };
        // The writer begins at any time.
        for first in (0..3 * PAGES).step_by(7) {
            let chunk = read_from(first);
            let end = chunk.iter().position(|byte| *byte == 0).unwrap_or(chunk.len());
            assert!(chunk[end..].iter().all(|byte| *byte == 0), "a hole at {end} ({first})");
        }
    }

    #[test]
    fn a_growing_file_is_copied_and_one_that_is_renamed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        assert_eq!(copy_growing(&from, &to, &mut |_| {}).unwrap(), None);
        let bytes: Vec<u8> = (0..CHUNK_BYTES * 2 + 5).map(|at| (at % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        let mut reported = 0;
        let copied = copy_growing(&from, &to, &mut |bytes| reported += bytes).unwrap();
        assert_eq!((copied, reported), (Some(bytes.len() as u64), bytes.len() as u64));
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
        assert_eq!(link(&from, &to).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&from, b"entries").unwrap();
        assert!(link(&from, &to).unwrap());
        assert!(is_same_file(&fs::metadata(&from).unwrap(), &fs::metadata(&to).unwrap()));
    }

    #[test]
    fn a_copy_keeps_its_time_of_change_and_tells_its_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, b"entries").unwrap();
        let copied = copy_whole(&from, &to, &mut |_| {}).unwrap();
        assert_eq!(copied, crc_fast::crc32_iscsi(b"entries"));
        assert_eq!(checksum(&to, &mut |_| {}).unwrap(), copied);
        assert!(looks_alike(&fs::metadata(&from).unwrap(), &fs::metadata(&to).unwrap()));
        fs::write(&from, b"Entries").unwrap();
        assert!(!looks_alike(&fs::metadata(&from).unwrap(), &fs::metadata(&to).unwrap()));
    }
}
