//! A segment: one file of the log, its name and its header.
//!
//! ```text
//! header  0 magic "gnudiseg" | 8 format version u32 | 12 segment number u32 | 16 number of the segment before u32
//!         20 end of the segment before u32 | 24 the owner's tag u64 | 32 whether the segment before was synced u32
//!         36 CRC32C of bytes 0..36 u32
//! ```
//!
//! Frames start at [`SEGMENT_HEADER_BYTES`]. The header of the next segment records where this one ends: a
//! file may be longer than its frames, since space is allocated ahead and files are recycled.

use std::{
    io::{self, IoSlice},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Location,
    frame::{
        self, ALIGNMENT, FRAME_HEADER_BYTES, FrameHeader, ITEM_HEADER_BYTES, ItemView, items, u32_at, u64_at,
    },
};
use crate::disk::{Disk, DiskFile, pieces, read_exact_at, write_all_at};

/// One page, so that writing frames never rewrites the header.
pub const SEGMENT_HEADER_BYTES: u32 = 4096;
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"gnudiseg";
const HEADER_BYTES: usize = 40;
const CHECKSUM_AT: usize = 36;

/// A segment's open file; readers hold a reference while they read.
pub struct Segment {
    pub number: u32,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    /// Whether a sync has failed. Locked during a sync.
    sync_failed: Mutex<bool>,
    /// Whether a read failed: then the file is kept when its frames are no longer needed.
    pub unreadable: AtomicBool,
}

/// The contents of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub number: u32,
    /// The previous segment and where its frames end; 0 if there is none.
    pub previous: u32,
    pub previous_end: u32,
    /// Whether all of the previous segment was durable when this one was begun.
    pub previous_synced: bool,
    /// The owner's number, the same in all segments: the incoming log stores its sack count here.
    pub owner_tag: u64,
}

/// Why a header is unusable.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    Damaged,
    TooNew(u32),
}

impl SegmentHeader {
    pub fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        let mut page = vec![0; SEGMENT_HEADER_BYTES as usize];
        page[0..8].copy_from_slice(MAGIC);
        for (at, number) in
            [(8, FORMAT_VERSION), (12, self.number), (16, self.previous), (20, self.previous_end)]
        {
            page[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        page[24..32].copy_from_slice(&self.owner_tag.to_le_bytes());
        page[32] = u8::from(self.previous_synced);
        let checksum = crc_fast::crc32_iscsi(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        write_all_at(file, &mut [IoSlice::new(&page)], 0)
    }

    /// The outer error is the disk's.
    pub fn read(file: &dyn DiskFile, number: u32) -> io::Result<Result<Self, HeaderError>> {
        let mut bytes = [0; HEADER_BYTES];
        match read_exact_at(file, &mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Err(HeaderError::Damaged));
            }
            answer => answer?,
        }
        let checksum_right = u32_at(&bytes, CHECKSUM_AT) == crc_fast::crc32_iscsi(&bytes[..CHECKSUM_AT]);
        let version = u32_at(&bytes, 8);
        if bytes[..8] != *MAGIC || !checksum_right {
            return Ok(Err(HeaderError::Damaged));
        }
        if version > FORMAT_VERSION {
            return Ok(Err(HeaderError::TooNew(version)));
        }
        let header = Self {
            number: u32_at(&bytes, 12),
            previous: u32_at(&bytes, 16),
            previous_end: u32_at(&bytes, 20),
            owner_tag: u64_at(&bytes, 24),
            previous_synced: u32_at(&bytes, 32) != 0,
        };
        Ok(if header.number == number { Ok(header) } else { Err(HeaderError::Damaged) })
    }
}

impl Segment {
    pub fn new(number: u32, file: Arc<dyn DiskFile>, path: PathBuf) -> Self {
        Self { number, path, file, sync_failed: Mutex::new(false), unreadable: AtomicBool::new(false) }
    }

    /// Makes all that was written durable. Linux reports a write-back error to one fsync only, and later
    /// syncs succeed without the bytes: so after one failure every further sync fails, in all threads.
    pub fn sync(&self) -> io::Result<()> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(io::Error::other("an earlier sync of the file has failed"));
        }
        self.file.sync_data().inspect_err(|_| *failed = true)
    }

    pub fn open(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Self> {
        let path = dir.join(file_name(number));
        Ok(Self::new(number, disk.open(&path)?, path))
    }

    /// Like [`Segment::open`], for a file of another process or a file system that is mounted read-only.
    pub fn open_to_read(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Self> {
        let path = dir.join(file_name(number));
        Ok(Self::new(number, disk.open_to_read(&path)?, path))
    }

    /// Reads an item's bytes, header included, without checking them.
    pub fn read_item(&self, offset: u32, payload_length: u32) -> io::Result<Vec<u8>> {
        self.read(offset, ITEM_HEADER_BYTES + payload_length as usize)
    }

    /// Reads bytes without checking them.
    pub fn read(&self, offset: u32, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        read_exact_at(&*self.file, &mut bytes, u64::from(offset))?;
        Ok(bytes)
    }

    pub fn at(&self, offset: u32) -> Location {
        Location { segment: self.number, offset }
    }
}

/// `0000002a.log`
pub fn file_name(number: u32) -> String {
    format!("{number:08x}.log")
}

/// The number of a segment's file; `None` for other files.
pub fn number_of(name: &str) -> Option<u32> {
    let number = u32::from_str_radix(name.strip_suffix(".log")?, 16).ok()?;
    (file_name(number) == name).then_some(number)
}

/// Reads a segment's frames from the front, through a buffer.
pub struct SegmentReader {
    segment: Arc<Segment>,
    end: u32,
    buffer: Vec<u8>,
    buffer_start: u32,
    /// Pieces that the disk could not read, and why.
    unreadable: Vec<(Range<u32>, io::Error)>,
    /// The end of what frames before `walked` prove to have been synced.
    proven: u32,
    walked: u32,
    /// No frame proves that bytes before this were synced, from `proven` on.
    unproven: u32,
}

/// What stands at an offset.
pub enum Sight {
    Whole(FrameHeader, Vec<ItemView>),
    /// The header is valid, but only these items.
    Damaged(FrameHeader, Vec<ItemView>),
    Nothing,
}

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// A block that was never written.
const NOTHING: [u8; 4096] = [0; 4096];

impl SegmentReader {
    /// Reads nothing from `end` on.
    pub fn new(segment: Arc<Segment>, end: u32) -> Self {
        Self {
            segment,
            end,
            buffer: Vec::new(),
            buffer_start: 0,
            unreadable: Vec::new(),
            proven: 0,
            walked: 0,
            unproven: 0,
        }
    }

    /// Up to `length` bytes at `offset`, fewer only at the end.
    pub fn bytes(&mut self, offset: u32, length: usize) -> io::Result<&[u8]> {
        let length = length.min(self.end.saturating_sub(offset) as usize);
        let held = self.buffer_start..self.buffer_start + self.buffer.len() as u32;
        if offset < held.start || offset as usize + length > held.end as usize {
            let wanted = length.max(READ_BYTES).min(self.end.saturating_sub(offset) as usize);
            self.buffer.resize(wanted, 0);
            self.buffer_start = offset;
            self.fill()?;
        }
        let start = (offset - self.buffer_start) as usize;
        Ok(&self.buffer[start..start + length])
    }

    /// Fills the buffer. One bad disk block must not cost the rest: what cannot be read is replaced with
    /// zeros, which never parse as a frame, and recorded.
    fn fill(&mut self) -> io::Result<()> {
        let (file, start) = (&*self.segment.file, u64::from(self.buffer_start));
        match read_exact_at(file, &mut self.buffer, start) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                tracing::error!(file = %self.segment.path.display(), offset = start, "unreadable: {error}");
            }
            answer => return answer,
        }
        for (at, piece) in pieces(start, &mut self.buffer) {
            if let Err(error) = read_exact_at(file, piece, at) {
                piece.fill(0);
                self.segment.unreadable.store(true, Ordering::Relaxed);
                self.unreadable.push((at as u32..at as u32 + piece.len() as u32, error));
            }
        }
        Ok(())
    }

    /// Forgets bytes and errors, so that they are read again; not what frames prove.
    pub fn forget_bytes(&mut self) {
        self.buffer.clear();
        self.unreadable.clear();
    }

    /// Forgets all that was read, so that frames are found that could not be read.
    pub fn read_again(&mut self) {
        self.forget_bytes();
        (self.walked, self.unproven) = (0, 0);
        self.segment.unreadable.store(false, Ordering::Relaxed);
    }

    /// The error if a part of these bytes could not be read.
    pub fn check_read(&self, bytes: Range<u32>) -> io::Result<()> {
        let is_within = |piece: &Range<u32>| piece.start < bytes.end && bytes.start < piece.end;
        match self.unreadable.iter().find(|(piece, _)| is_within(piece)) {
            Some((piece, error)) => {
                Err(io::Error::new(error.kind(), format!("unreadable at {}: {error}", piece.start)))
            }
            None => Ok(()),
        }
    }

    /// What stands at an offset.
    pub fn look(&mut self, offset: u32) -> io::Result<Sight> {
        let at = self.segment.at(offset);
        let Some(header) = FrameHeader::parse(self.bytes(offset, FRAME_HEADER_BYTES)?, at) else {
            return Ok(Sight::Nothing);
        };
        let frame = self.bytes(offset, header.length)?;
        let whole_length = frame.len() == header.length;
        let items = if header.items == 0 { Vec::new() } else { items(frame) };
        Ok(if whole_length && header.matches(&items) {
            Sight::Whole(header, items)
        } else {
            Sight::Damaged(header, header.own_items(frame, at, items))
        })
    }

    /// The first valid frame header at or behind `offset`.
    pub fn next_header(&mut self, mut offset: u32) -> io::Result<Option<(u32, FrameHeader)>> {
        while offset < self.end {
            // Most of a file being written is allocated but unused space.
            let ahead = self.bytes(offset, NOTHING.len())?;
            if *ahead == NOTHING[..ahead.len()] {
                offset += ahead.len() as u32;
                continue;
            }
            if frame::may_start(ahead) {
                let at = self.segment.at(offset);
                if let Some(header) = FrameHeader::parse(self.bytes(offset, FRAME_HEADER_BYTES)?, at) {
                    return Ok(Some((offset, header)));
                }
            }
            offset += ALIGNMENT as u32;
        }
        Ok(None)
    }

    /// Whether a frame at `next` or later was written after a sync of the bytes at `hole`. Walks over each frame once, for
    /// all holes: a frame that proves a sync lies behind all that it proves.
    pub fn proves_sync(&mut self, hole: u32, next: Option<(u32, FrameHeader)>) -> io::Result<bool> {
        let Some((next, _)) = next else { return Ok(false) };
        while self.proven <= hole {
            if hole < self.unproven {
                return Ok(false);
            }
            let Some((offset, header)) = self.next_header(self.walked.max(next))? else {
                self.unproven = self.walked;
                return Ok(false);
            };
            self.proven = self.proven.max(offset - header.unsynced.min(offset));
            self.walked = offset + header.length as u32;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::disk::LocalDisk;

    #[test]
    fn names_carry_numbers() {
        assert_eq!(file_name(42), "0000002a.log");
        assert_eq!(number_of("0000002a.log"), Some(42));
        for name in ["2a.log", "0000002A.log", "0000002a.tmp", "trimmed", "+000002a.log"] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }

    #[test]
    fn headers_read_back_and_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = LocalDisk.create(&dir.path().join(file_name(3))).unwrap();
        let header = SegmentHeader {
            number: 3,
            previous: 2,
            previous_end: 8192,
            previous_synced: true,
            owner_tag: 128,
        };
        header.write(&*file).unwrap();
        assert_eq!(SegmentHeader::read(&*file, 3).unwrap(), Ok(header));
        assert_eq!(SegmentHeader::read(&*file, 4).unwrap(), Err(HeaderError::Damaged));
        write_all_at(&*file, &mut [IoSlice::new(b"?")], 21).unwrap();
        assert_eq!(SegmentHeader::read(&*file, 3).unwrap(), Err(HeaderError::Damaged));
    }

    /// Only a header with a valid checksum names a version.
    #[test]
    fn a_newer_version_is_known_from_damage() {
        let dir = tempfile::tempdir().unwrap();
        let file = LocalDisk.create(&dir.path().join(file_name(1))).unwrap();
        let header =
            SegmentHeader { number: 1, previous: 0, previous_end: 0, previous_synced: true, owner_tag: 128 };
        header.write(&*file).unwrap();
        write_all_at(&*file, &mut [IoSlice::new(&[2])], 8).unwrap();
        assert_eq!(SegmentHeader::read(&*file, 1).unwrap(), Err(HeaderError::Damaged));
        let mut bytes = [0; CHECKSUM_AT];
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        let checksum = crc_fast::crc32_iscsi(&bytes).to_le_bytes();
        write_all_at(&*file, &mut [IoSlice::new(&checksum)], CHECKSUM_AT as u64).unwrap();
        assert_eq!(SegmentHeader::read(&*file, 1).unwrap(), Err(HeaderError::TooNew(2)));
        write_all_at(&*file, &mut [IoSlice::new(&[0xff; HEADER_BYTES])], 0).unwrap();
        assert_eq!(SegmentHeader::read(&*file, 1).unwrap(), Err(HeaderError::Damaged));
    }

    /// Counts the reads.
    struct Counted {
        bytes: Vec<u8>,
        reads: AtomicUsize,
    }

    impl DiskFile for Counted {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let rest = &self.bytes[offset as usize..];
            let length = buf.len().min(rest.len());
            buf[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }

        fn write_at(&self, _slices: &[IoSlice<'_>], _offset: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _len: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn allocate(&self, _len: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Of a group of 8 MiB that was written without a sync, each second frame is lost. A frame behind may prove a sync. A
    /// reader of a journal reads each hole twice; here a few of them, since each costs a buffer.
    #[test]
    fn many_holes_cost_one_walk_over_the_frames() {
        const FRAMES: u32 = 8192;
        const FRAME_BYTES: u32 = 1024;
        const FORGETS_EACH: u32 = 32;
        for (is_proven, forgets) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut bytes = vec![0; SEGMENT_HEADER_BYTES as usize];
            for number in 1..=FRAMES {
                let (mut frame, offset) = (frame::filler(FRAME_BYTES as usize), bytes.len() as u32);
                let is_synced = is_proven && number == FRAMES;
                let unsynced = if is_synced { 0 } else { offset - SEGMENT_HEADER_BYTES };
                frame.stamp(Location { segment: 1, offset }, unsynced);
                bytes.extend_from_slice(if number % 2 == 0 {
                    frame.bytes()
                } else {
                    &[0; FRAME_BYTES as usize]
                });
            }
            let end = bytes.len() as u32;
            let file = Arc::new(Counted { bytes, reads: AtomicUsize::new(0) });
            let segment = Segment::new(1, file.clone(), PathBuf::new());
            let mut reader = SegmentReader::new(Arc::new(segment), end);
            let (mut offset, mut holes) = (SEGMENT_HEADER_BYTES, 0);
            while offset < end {
                if let Sight::Whole(header, _) = reader.look(offset).unwrap() {
                    offset += header.length as u32;
                    continue;
                }
                let next = reader.next_header(offset).unwrap();
                if forgets && holes % FORGETS_EACH == 0 {
                    reader.forget_bytes();
                    assert!(matches!(reader.look(offset).unwrap(), Sight::Nothing));
                }
                assert_eq!(reader.proves_sync(offset, next).unwrap(), is_proven, "at {offset}");
                offset = next.map_or(end, |(next, _)| next);
                holes += 1;
            }
            assert_eq!(holes, FRAMES / 2);
            let reads = file.reads.load(Ordering::Relaxed);
            let max = if forgets { (FRAMES / 2 / FORGETS_EACH) as usize + 40 } else { 40 };
            assert!(reads < max, "{reads} reads");
        }
    }
}
