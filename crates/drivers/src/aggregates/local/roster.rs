//! The roster: which metrics' writes the log holds, and where. If a part of the log is lost, it lists the
//! affected metrics, so that no older value is taken for the newest. It also proves that the log was durable up to
//! there: what is whole behind damage is kept.
//!
//! A file beside each segment, `0000002a.roster`; each sync appends a record:
//!
//! ```text
//! 0 magic "gRos" | 4 length of the entries u32 | entries | CRC32C of all before u32
//! entry  0 offset of a frame u32, its lowest bits say what the frame has (see `kind`) | 4 metric id 16 bytes
//!        of a block also | 20 granularity, last and first bucket 24 bytes, as in its key
//! ```
//!
//! A record is written after the sync that made its frames durable, and is not synced itself. A record is
//! always true; a missing record only means that a loss goes unnoticed. So nothing waits for it, and its
//! failures are ignored.

use std::{
    collections::BTreeSet,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::Arc,
};

use gnudi_model::MetricId;
use uuid::Uuid;

use crate::{
    aggregates::key::{KEY_BYTES, Key},
    disk::{Disk, DiskFile, read_file, write_all_at},
    segments::{Location, frame::u32_at},
};

const MAGIC: u32 = u32::from_le_bytes(*b"gRos");
const HEADER_BYTES: usize = 8;
const ID_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
const SUFFIX: &str = ".roster";

/// A value or a deletion in a frame of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The frame.
    pub at: Location,
    pub key: Key,
}

/// An entry's type, in the lowest bits of the offset, which are otherwise zero.
mod kind {
    pub const HEAD: u32 = 0;
    pub const BLOCK: u32 = 1;
    pub const DELETION: u32 = 2;
    pub const BITS: u32 = 3;
}

/// The entries that earlier processes listed.
#[derive(Default)]
pub struct Expected(BTreeSet<Listed>);

impl Expected {
    /// Removes and returns the entries before a place.
    pub fn before(&mut self, at: Location) -> BTreeSet<Listed> {
        let behind = self.0.split_off(&Listed { at, key: Key::SMALLEST });
        std::mem::replace(&mut self.0, behind)
    }

    /// Removes and returns the entries before the end of a stretch.
    pub fn within(&mut self, at: Location, length: usize) -> BTreeSet<Listed> {
        self.before(Location { offset: at.offset + length as u32, ..at })
    }

    /// All that is left.
    pub fn rest(self) -> BTreeSet<Listed> {
        self.0
    }

    /// The first frame.
    pub fn first(&self) -> Option<Location> {
        self.0.first().map(|listed| listed.at)
    }

    /// The last frame.
    pub fn last(&self) -> Option<Location> {
        self.0.last().map(|listed| listed.at)
    }
}

/// The roster's files, for writing.
pub struct Roster {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Segments that have a file.
    numbers: BTreeSet<u32>,
    /// Segments before this one are released.
    first: u32,
    /// The file written last.
    file: Option<RosterFile>,
    /// Entries written to the log since the last sync began.
    waiting: Vec<Listed>,
}

struct RosterFile {
    number: u32,
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl Roster {
    /// Reads the files for segments after `done`; removes files for earlier ones.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, done: u32) -> io::Result<(Self, Expected)> {
        let mut expected = Expected::default();
        let (dir, waiting) = (dir.to_owned(), Vec::new());
        let mut roster = Self { disk, dir, numbers: BTreeSet::new(), first: 0, file: None, waiting };
        roster.numbers = roster.disk.list(&roster.dir)?.iter().filter_map(|name| number_of(name)).collect();
        roster.release(done.saturating_add(1));
        for number in &roster.numbers {
            let path = roster.path(*number);
            match read_file(&*roster.disk, &path) {
                Ok(bytes) => {
                    let (listed, end) = parse(*number, &bytes);
                    if end < bytes.len() {
                        tracing::warn!("{} is damaged after byte {end}", path.display());
                    }
                    expected.0.extend(listed);
                }
                Err(error) => tracing::warn!("{} cannot be read: {error}", path.display()),
            }
        }
        Ok((roster, expected))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{number:08x}{SUFFIX}"))
    }

    /// Adds a frame's entries, to be listed once they are durable.
    pub fn add(&mut self, listed: impl IntoIterator<Item = Listed>) {
        self.waiting.extend(listed);
    }

    /// Takes the entries to list after a sync that begins now.
    pub fn take(&mut self) -> Vec<Listed> {
        std::mem::take(&mut self.waiting)
    }

    /// Lists durable frames. Omits those of segments that were released meanwhile: a flushed segment that is listed alone
    /// would hide the loss of the others of its run.
    pub fn write(&mut self, listed: &[Listed]) {
        for of_segment in listed.chunk_by(|one, next| one.at.segment == next.at.segment) {
            let number = of_segment[0].at.segment;
            if number < self.first {
                continue;
            }
            if let Err(error) = self.append(number, of_segment) {
                self.file = None;
                tracing::warn!("{} could not be written: {error}", self.path(number).display());
            }
        }
    }

    fn append(&mut self, number: u32, listed: &[Listed]) -> io::Result<()> {
        let file = match self.file.take().filter(|file| file.number == number) {
            Some(file) => file,
            None => self.file_of(number)?,
        };
        let bytes = encode(listed);
        write_all_at(&*file.file, &mut [IoSlice::new(&bytes)], file.end)?;
        self.file = Some(RosterFile { end: file.end + bytes.len() as u64, ..file });
        Ok(())
    }

    fn file_of(&mut self, number: u32) -> io::Result<RosterFile> {
        let path = self.path(number);
        if self.numbers.contains(&number) {
            let end = parse(number, &read_file(&*self.disk, &path)?).1 as u64;
            return Ok(RosterFile { number, file: self.disk.open(&path)?, end });
        }
        let file = self.disk.create(&path)?;
        self.disk.sync_dir(&self.dir)?;
        self.numbers.insert(number);
        Ok(RosterFile { number, file, end: 0 })
    }

    /// Removes the files for segments before this one.
    pub fn release(&mut self, before: u32) {
        self.first = self.first.max(before);
        self.waiting.retain(|listed| listed.at.segment >= before);
        if self.file.as_ref().is_some_and(|file| file.number < before) {
            // A removed file keeps its space while it is open.
            self.file = None;
        }
        let kept = self.numbers.split_off(&before);
        for number in std::mem::replace(&mut self.numbers, kept) {
            let path = self.path(number);
            if let Err(error) = self.disk.remove(&path) {
                tracing::warn!("{} stays until the next start: {error}", path.display());
            }
        }
    }
}

fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SUFFIX)?;
    u32::from_str_radix(number, 16).ok().filter(|found| format!("{found:08x}") == number)
}

fn encode(listed: &[Listed]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + listed.len() * (4 + ID_BYTES) + CHECKSUM_BYTES);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for Listed { at, key } in listed {
        let (kind, length) = match key {
            key if key.is_deletion() => (kind::DELETION, ID_BYTES),
            key if key.is_head() => (kind::HEAD, ID_BYTES),
            _ => (kind::BLOCK, KEY_BYTES),
        };
        bytes.extend_from_slice(&(at.offset | kind).to_le_bytes());
        bytes.extend_from_slice(&key.bytes()[..length]);
    }
    let length = (bytes.len() - HEADER_BYTES) as u32;
    bytes[4..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    let checksum = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The entries of the valid records at the front, and where these end.
fn parse(segment: u32, bytes: &[u8]) -> (Vec<Listed>, usize) {
    let (mut listed, mut at) = (Vec::new(), 0);
    while let Some((mut entries, length)) = record_at(&bytes[at..]) {
        while let Some((entry, behind)) = entry_at(segment, entries) {
            listed.push(entry);
            entries = behind;
        }
        at += length;
    }
    (listed, at)
}

/// The first entry, and the remaining bytes.
fn entry_at(segment: u32, bytes: &[u8]) -> Option<(Listed, &[u8])> {
    let (id, behind) = bytes.get(4..)?.split_first_chunk::<ID_BYTES>()?;
    let metric = MetricId(Uuid::from_bytes(*id));
    let offset = u32_at(bytes, 0);
    let at = Location { segment, offset: offset & !kind::BITS };
    match offset & kind::BITS {
        kind::HEAD => Some((Listed { at, key: Key::head(metric) }, behind)),
        kind::DELETION => Some((Listed { at, key: Key::deletion(metric) }, behind)),
        kind::BLOCK => {
            let (key, behind) = bytes[4..].split_first_chunk()?;
            Some((Listed { at, key: Key::from_bytes(*key) }, behind))
        }
        _ => None,
    }
}

/// The first record's entries and the record's length; `None` if it is torn or damaged.
fn record_at(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let checked = HEADER_BYTES.checked_add(u32_at(header, 4) as usize)?;
    let record = bytes.get(..checked.checked_add(CHECKSUM_BYTES)?)?;
    let right =
        u32_at(header, 0) == MAGIC && u32_at(record, checked) == crc_fast::crc32_iscsi(&record[..checked]);
    right.then_some((&record[HEADER_BYTES..checked], record.len()))
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Timespan, Timestamp};

    use super::*;
    use crate::{aggregates::BlockKey, disk::LocalDisk};

    fn listed(segment: u32, offset: u32, key: Key) -> Listed {
        Listed { at: Location { segment, offset }, key }
    }

    #[test]
    fn what_is_listed_is_expected_and_what_is_torn_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let open = |done| Roster::open(Arc::new(LocalDisk), folder.path(), done).unwrap();
        let metric = MetricId(Uuid::from_u128(7));
        let block = BlockKey {
            metric,
            granularity: Timespan::from_secs(1),
            first: Timestamp::from_secs(-3),
            last: Timestamp::from_secs(5),
        };
        let first = [
            listed(2, 64, Key::head(metric)),
            listed(2, 64, Key::block(&block)),
            listed(3, 64, Key::deletion(metric)),
        ];
        let (mut roster, _) = open(0);
        roster.write(&first);
        let (mut roster, expected) = open(0);
        assert_eq!((expected.last(), Vec::from_iter(expected.rest())), (Some(first[2].at), first.to_vec()));
        let more = listed(3, 4096, Key::head(metric));
        roster.write(&[more]);
        let path = folder.path().join("00000003.roster");
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let left = open(1).1.rest();
            assert_eq!(left.len(), if length < HEADER_BYTES + 4 + ID_BYTES + CHECKSUM_BYTES { 2 } else { 3 });
        }
        // A torn record is overwritten.
        let (mut roster, _) = open(0);
        roster.write(&[more]);
        let (mut roster, mut expected) = open(0);
        assert_eq!(Vec::from_iter(expected.before(Location { segment: 3, offset: 0 })), first[..2]);
        assert_eq!(Vec::from_iter(expected.within(Location { segment: 3, offset: 64 }, 64)), [first[2]]);
        assert_eq!(Vec::from_iter(expected.rest()), [more]);
        roster.release(3);
        assert_eq!(Vec::from_iter(open(0).1.rest()), [first[2], more]);
        assert!(open(3).1.rest().is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A flush may end between the start of a sync and its record.
    #[test]
    fn a_segment_that_is_released_during_a_sync_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Roster::open(Arc::new(LocalDisk), folder.path(), 0).unwrap();
        let [flushed, left] =
            [2, 3].map(|number| listed(number, 64, Key::head(MetricId(Uuid::from_u128(7)))));
        let (mut roster, _) = open();
        roster.add([flushed, left]);
        let taken = roster.take();
        roster.release(3);
        roster.write(&taken);
        assert_eq!(Vec::from_iter(open().1.rest()), [left]);
    }
}
