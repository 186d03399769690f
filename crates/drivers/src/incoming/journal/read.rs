//! Reads a journal from a position on, also one that is being written: its end is then only the current one.
//!
//! Bytes that are no whole frame are the end, or damage if frames follow. Damage is reported with its place,
//! and reading continues behind it. A device may recover from a read error: the reader waits for that before the
//! place counts as damaged. If no frame follows an unreadable place, reading fails: the end is unknown.
//!
//! Nothing is written, and no file is opened for it: the journal may be on a file system that is mounted read-only.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use gnudi_model::Timestamp;
use uuid::Uuid;

use super::check_owner;
use crate::{
    OpenError,
    disk::{Disk, LocalDisk},
    incoming::{Position, Record, log::entries},
    quarantine::UNREADABLE_MAX,
    segments::{
        Location, Patience, SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentReader, Sight, file_name,
        frame::{ALIGNMENT, FrameHeader, ItemView},
        numbers_on,
    },
};

/// A place between two frames of a journal. Its text is `FILE:OFFSET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPosition(u64);

impl JournalPosition {
    fn of(at: Location) -> Self {
        Self(at.pack())
    }

    fn location(self) -> Location {
        Location::unpack(self.0)
    }
}

impl fmt::Display for JournalPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { segment, offset } = self.location();
        write!(formatter, "{}:{offset}", file_name(segment))
    }
}

impl FromStr for JournalPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(file, offset)| {
            let segment = crate::segments::number_of(file)?;
            Some(Location { segment, offset: offset.parse().ok()? })
        });
        parsed.map(Self::of).ok_or_else(|| format!("{text} is no position in a journal"))
    }
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// When it arrived.
    pub at: Timestamp,
    /// In the request's order. Their positions have no meaning.
    pub records: Vec<Record>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Entry(JournalEntry),
    /// `bytes` bytes at `offset` of a file are damaged; 0: the file, or a part of unknown size, is missing.
    Damage {
        file: PathBuf,
        offset: u64,
        bytes: u64,
    },
}

pub struct JournalReader {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    at: Location,
    current: Option<Current>,
    /// The missing file already reported.
    told_missing: u32,
    /// For each place that the device fails to read.
    patience: Patience,
}

/// The file being read.
struct Current {
    segment: Arc<Segment>,
    reader: SegmentReader,
    limit: u32,
    /// The number of the next file, if there is one: then this file is complete.
    next: Option<u32>,
    told_short: Option<u64>,
}

impl JournalReader {
    /// Reads from `from` on. Refuses a journal of a newer program, or of a store other than `store`; and a directory without
    /// any, as a journal has a file from its first start on.
    pub fn open(dir: &Path, store: Uuid, from: JournalPosition) -> Result<Self, OpenError> {
        if numbers_on(&LocalDisk, dir).map_err(OpenError::io(dir))?.is_empty() {
            return Err(OpenError::invalid(dir, "there is no journal in this directory"));
        }
        Self::open_on(Arc::new(LocalDisk), dir, store, from)
    }

    /// Like [`JournalReader::open`], on another disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        store: Uuid,
        from: JournalPosition,
    ) -> Result<Self, OpenError> {
        for number in numbers_on(&*disk, dir).map_err(OpenError::io(dir))? {
            check_owner(&*disk, dir, number, store)?;
        }
        let (dir, at, patience) = (dir.to_owned(), from.location(), Patience::new(UNREADABLE_MAX));
        Ok(Self { disk, dir, at, current: None, told_missing: 0, patience })
    }

    /// Waits this long for a place that the device fails to read; the default is 30 s.
    #[must_use]
    pub fn giving_up_after(self, unreadable_max: Duration) -> Self {
        Self { patience: Patience::new(unreadable_max), ..self }
    }

    /// The position behind everything read so far.
    pub fn position(&self) -> JournalPosition {
        JournalPosition::of(self.at)
    }

    /// Bytes of files behind the position; the last file's may include space allocated ahead.
    pub fn bytes_left(&self) -> Result<u64, OpenError> {
        let mut left = 0;
        for number in numbers_on(&*self.disk, &self.dir).map_err(OpenError::io(&self.dir))? {
            if number >= self.at.segment {
                let path = self.dir.join(file_name(number));
                left += self
                    .disk
                    .open_to_read(&path)
                    .and_then(|file| file.len())
                    .map_err(OpenError::io(&path))?;
            }
        }
        Ok(left.saturating_sub(self.at.offset.into()))
    }

    /// The next batch or damaged place; `None` at the current end. Blocks while a place cannot be read.
    #[expect(clippy::should_implement_trait, reason = "it fails, and may have more after its end")]
    pub fn next(&mut self) -> Result<Option<Found>, OpenError> {
        loop {
            if self.current.is_none()
                && let Some(found) = self.enter()?
            {
                return Ok(Some(found));
            }
            let Some(mut current) = self.current.take() else { return Ok(None) };
            let found = match self.read(&mut current) {
                // The writer has closed the file and truncated it to its length.
                Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                    continue;
                }
                found => found?,
            };
            if let Some(found) = found {
                self.current = Some(current);
                return Ok(Some(found));
            }
            if let Some(next) = current.next {
                self.at = Location { segment: next, offset: SEGMENT_HEADER_BYTES };
                continue;
            }
            // The writer may have begun a file since this one was opened.
            let numbers = numbers_on(&*self.disk, &self.dir).map_err(OpenError::io(&self.dir))?;
            if numbers.last().is_none_or(|last| *last <= self.at.segment) {
                return Ok(None);
            }
        }
    }

    /// Opens the file at the position, or the next existing one.
    fn enter(&mut self) -> Result<Option<Found>, OpenError> {
        let (disk, dir) = (&*self.disk, &self.dir);
        let numbers = numbers_on(disk, dir).map_err(OpenError::io(dir))?;
        let expected = self.at.segment;
        let mut from_here = numbers.iter().copied().filter(|number| *number >= expected);
        let Some(number) = from_here.next() else { return Ok(None) };
        if number > expected {
            self.at = Location { segment: number, offset: SEGMENT_HEADER_BYTES };
            // Nothing is missing before the first position.
            if expected > 0 && self.told_missing != expected {
                self.told_missing = expected;
                let file = dir.join(file_name(expected));
                return Ok(Some(Found::Damage { file, offset: 0, bytes: 0 }));
            }
        }
        self.at.offset = self.at.offset.max(SEGMENT_HEADER_BYTES);
        let path = dir.join(file_name(number));
        let segment = Arc::new(Segment::open_to_read(disk, dir, number).map_err(OpenError::io(&path))?);
        let length = segment.file.len().map_err(OpenError::io(&path))?;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let (mut limit, mut next, mut short) = (length, None, None);
        if let Some(following) = from_here.next() {
            next = Some(number + 1);
            let path = dir.join(file_name(following));
            let behind = Segment::open_to_read(disk, dir, following).map_err(OpenError::io(&path))?;
            let header = SegmentHeader::read(&*behind.file, following).map_err(OpenError::io(&path))?;
            if let Some(header) = header.ok().filter(|header| header.previous == number) {
                limit = header.previous_end.min(length);
                short = (header.previous_end > length).then(|| (header.previous_end - length).into());
            }
        }
        let reader = SegmentReader::new(Arc::clone(&segment), limit);
        self.current = Some(Current { segment, reader, limit, next, told_short: short });
        Ok(None)
    }

    /// The next batch or damage of a file; `None` at its end.
    fn read(&mut self, current: &mut Current) -> Result<Option<Found>, OpenError> {
        while self.at.offset < current.limit {
            let offset = self.at.offset;
            let sight = current.look(offset)?;
            if let Sight::Whole(header, items) = &sight {
                self.at.offset = offset + header.length as u32;
                self.patience.renew();
                if items.is_empty() {
                    continue;
                }
                let entry = decode(current.bytes(offset, header.length)?, items);
                let damage = || current.damage(offset, header.length as u64);
                return Ok(Some(entry.map_or_else(damage, Found::Entry)));
            }
            let behind = match &sight {
                Sight::Damaged(header, _) => offset + header.length as u32,
                _ => offset + ALIGNMENT as u32,
            };
            let next = current.reader.next_header(behind).map_err(OpenError::io(&current.segment.path))?;
            let end = next.map(|(next, _)| next).or(current.next.map(|_| current.limit));
            let unreadable = current.reader.check_read(offset..end.unwrap_or(current.limit));
            // The writer may have written between the two reads. It writes in order, so read again.
            current.reader.forget_bytes();
            if matches!(current.look(offset)?, Sight::Whole(..)) {
                continue;
            }
            if unreadable.is_err() && self.patience.wait() {
                current.reader.read_again();
                continue;
            }
            let Some(end) = end else {
                // Torn, or being written: the writer's next start cuts it off.
                return unreadable.map(|()| None).map_err(OpenError::io(&current.segment.path));
            };
            self.at.offset = end;
            self.patience.renew();
            // Also of an unreadable place that was perhaps not durable: it may have been acknowledged.
            if unreadable.is_err() || current.was_written(offset, next)? {
                return Ok(Some(current.damage(offset, (end - offset).into())));
            }
        }
        let short = current.told_short.take();
        Ok(short.map(|bytes| current.damage(current.limit, bytes)))
    }
}

impl Current {
    fn look(&mut self, offset: u32) -> Result<Sight, OpenError> {
        self.reader.look(offset).map_err(OpenError::io(&self.segment.path))
    }

    /// Whether the bytes at `hole` may have been acknowledged: the file is complete, or a frame at `next` or later was
    /// written after they were synced. Whatever was torn is covered by the writer's next start, which begins a file.
    fn was_written(&mut self, hole: u32, next: Option<(u32, FrameHeader)>) -> Result<bool, OpenError> {
        if self.next.is_some() {
            return Ok(true);
        }
        self.reader.proves_sync(hole, next).map_err(OpenError::io(&self.segment.path))
    }

    fn damage(&self, offset: u32, bytes: u64) -> Found {
        Found::Damage { file: self.segment.path.clone(), offset: offset.into(), bytes }
    }

    fn bytes(&mut self, offset: u32, length: usize) -> Result<&[u8], OpenError> {
        self.reader.bytes(offset, length).map_err(OpenError::io(&self.segment.path))
    }
}

/// The batch in a frame; `None` if its format is unknown.
fn decode(frame: &[u8], items: &[ItemView]) -> Option<JournalEntry> {
    let [item] = items else { return None };
    let payload = Bytes::copy_from_slice(item.payload(frame));
    let mut records = Vec::new();
    entries::decode(&payload, Position(0), &mut records)?;
    Some(JournalEntry { at: Timestamp(item.tag as i64), records })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_a_text() {
        let position = JournalPosition::of(Location { segment: 42, offset: 4096 });
        assert_eq!(position.to_string(), "0000002a.log:4096");
        assert_eq!("0000002a.log:4096".parse(), Ok(position));
        for text in ["", "0000002a.log", "2a.log:1", "0000002a.log:-1", "0000002a.log:x"] {
            assert!(text.parse::<JournalPosition>().is_err(), "{text}");
        }
        assert!(JournalPosition::default() < position);
    }
}
