//! Recovery: reads every segment from the front. Where bytes are no frame, it decides between the end of the
//! log, a tail torn by a crash, and damage.
//!
//! Only the last segment can have a torn tail: a full one is synced and truncated to its length before the
//! next is begun. Each frame records how many bytes before it were not yet synced when it was written. A hole
//! is damage if a later frame was written after a sync of that place, or if the log's owner knows so: the bytes were
//! durable once. If all later frames were written before the next sync, it may be a tear: none of them was
//! acknowledged. A read error says nothing about the bytes on the disk, so it does not count as a tear: the start
//! fails. Where the bytes were durable once, the start waits for the device to recover; then the place counts as
//! damaged.
//!
//! Whatever lies beyond the last sync that a segment's frames prove is written again. It may be the remains
//! of a failed sync: Linux keeps the bytes readable and marks them clean, so a later sync succeeds without
//! writing them. Only the last segment can have such bytes: a full one has been synced without error.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    Location, OwnerState, SPARE_SUFFIX,
    frame::{ALIGNMENT, FrameHeader, ItemView, filler, has_foreign_header, items},
    segment::{
        FORMAT_VERSION, HeaderError, SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentReader, Sight,
        number_of,
    },
};
use crate::{
    OpenError,
    disk::{Disk, read_exact_at, write_all_at},
    quarantine::Quarantine,
    reserve::Reserve,
};

/// What recovery does with whole frames behind a torn one, none of them known to have been synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// Removes them: each frame may depend on those before it.
    Cut,
    /// Keeps them: each is independent. An empty frame replaces the torn one.
    KeepWhole,
}

/// A recovered frame.
pub struct RecoveredFrame<'a> {
    /// The owner's tag.
    pub owner_tag: u64,
    pub at: Location,
    /// Header and items.
    pub bytes: &'a [u8],
    /// The whole items. Of a damaged frame that was durable once, the surviving ones.
    pub items: &'a [ItemView],
    /// How many items are missing; `None` if the frame's header is lost: then `items` may belong to several
    /// frames.
    pub missing: Option<u32>,
}

/// The recovered log.
pub(crate) struct Recovered {
    pub segments: BTreeMap<u32, Arc<Segment>>,
    /// The segments' headers; `None` for a damaged one.
    pub headers: BTreeMap<u32, Option<SegmentHeader>>,
    pub spares: Vec<PathBuf>,
    pub owner_tag: u64,
    /// The last segment and where its frames end.
    pub last: Option<(u32, u32)>,
}

/// Reads the log in `dir` and passes its frames to `visit`, oldest first. Truncates the last segment where
/// its frames end, with space of the reserve if need be, fills torn frames and removes files that are not needed.
pub(crate) fn recover(
    reserve: &Reserve,
    disk: &dyn Disk,
    dir: &Path,
    tear: Tear,
    known: OwnerState,
    quarantine: &Quarantine,
    visit: &mut dyn FnMut(RecoveredFrame<'_>),
) -> Result<Recovered, OpenError> {
    let mut numbers = Vec::new();
    let mut spares = Vec::new();
    for name in disk.list(dir).map_err(OpenError::io(dir))? {
        if let Some(number) = number_of(&name).filter(|number| *number > known.done) {
            if number > known.unread {
                numbers.push(number);
            }
        } else if name.ends_with(SPARE_SUFFIX) {
            spares.push(dir.join(name));
        } else if name.ends_with(".log.tmp") || number_of(&name).is_some() {
            disk.remove(&dir.join(&name)).map_err(OpenError::io(dir.join(&name)))?;
        }
    }
    numbers.sort_unstable();
    let mut recovered = Recovered {
        segments: BTreeMap::new(),
        headers: BTreeMap::new(),
        spares,
        owner_tag: known.owner_tag,
        last: None,
    };
    for &number in &numbers {
        let segment = Segment::open(disk, dir, number).map_err(OpenError::io(dir))?;
        recovered.headers.insert(number, read_header(&segment, quarantine)?);
        recovered.segments.insert(number, Arc::new(segment));
    }
    let headers = &recovered.headers;
    recovered.owner_tag =
        headers.values().rev().flatten().map(|header| header.owner_tag).next().unwrap_or(known.owner_tag);
    let known = OwnerState { owner_tag: recovered.owner_tag, ..known };
    let patience = Patience::new(quarantine.unreadable_max());
    for (&number, segment) in &recovered.segments {
        let is_last = numbers.last() == Some(&number);
        let next = headers.range(number + 1..).next();
        let successor = next.and_then(|(_, header)| header.filter(|header| header.previous == number));
        let scan = Scan::new(segment, successor, is_last, tear, known, quarantine, &patience)?;
        let Found { end, proven, torn } = scan.run(visit)?;
        if is_last {
            // On file systems that copy on write all of this takes space.
            let close = || {
                segment.file.truncate(u64::from(end))?;
                torn.iter().try_for_each(|hole| fill(segment, hole))?;
                write_again(segment, proven, end)
            };
            reserve.with_room(close).map_err(OpenError::io(&segment.path))?;
            segment.file.sync_data().map_err(OpenError::io(&segment.path))?;
            recovered.last = Some((number, end));
        }
    }
    Ok(recovered)
}

/// Overwrites a torn frame with an empty one, so that it is not taken for damage later.
fn fill(segment: &Segment, hole: &Range<u32>) -> io::Result<()> {
    let mut filler = filler(hole.len());
    filler.stamp(segment.at(hole.start), hole.start - SEGMENT_HEADER_BYTES);
    write_all_at(&*segment.file, &mut [IoSlice::new(filler.bytes())], hole.start.into())
}

/// Bytes rewritten at once.
const REWRITE_BYTES: usize = 1 << 20;

/// Rewrites bytes of a segment as they are read, for the next sync. Parts known to be unreadable are left as they are.
fn write_again(segment: &Segment, from: u32, to: u32) -> io::Result<()> {
    for start in (from..to).step_by(REWRITE_BYTES) {
        let mut bytes = vec![0; REWRITE_BYTES.min((to - start) as usize)];
        match read_exact_at(&*segment.file, &mut bytes, start.into()) {
            Ok(()) => write_all_at(&*segment.file, &mut [IoSlice::new(&bytes)], start.into())?,
            Err(_) if segment.unreadable.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `None` if it is damaged, which is reported: frames can be read without it.
fn read_header(segment: &Segment, quarantine: &Quarantine) -> Result<Option<SegmentHeader>, OpenError> {
    let path = &segment.path;
    match SegmentHeader::read(&*segment.file, segment.number).map_err(OpenError::unreadable(path))? {
        Ok(header) => Ok(Some(header)),
        Err(HeaderError::TooNew(found)) => {
            Err(OpenError::TooNew { path: path.clone(), found, known: FORMAT_VERSION })
        }
        Err(HeaderError::Damaged) => {
            let mut bytes = [0; 64];
            let length = segment.file.read_at(&mut bytes, 0).map_err(OpenError::io(path))?;
            quarantine.report("segment header", path, 0, &bytes[..length]);
            Ok(None)
        }
    }
}

/// The time between two attempts to read a place that the device fails to read.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait in all for what the device fails to read.
pub(crate) struct Patience {
    max: Duration,
    /// Once it has begun to wait.
    until: Mutex<Option<Instant>>,
}

impl Patience {
    pub fn new(max: Duration) -> Self {
        Self { max, until: Mutex::default() }
    }

    /// Waits before another attempt; false once the time is over.
    pub fn wait(&self) -> bool {
        let until = *self.until.lock().get_or_insert_with(|| Instant::now() + self.max);
        let is_left = Instant::now() < until;
        if is_left {
            std::thread::sleep(ATTEMPT_PAUSE);
        }
        is_left
    }

    /// Begins anew, for another place.
    pub fn renew(&self) {
        *self.until.lock() = None;
    }
}

/// Reads one segment.
struct Scan<'a> {
    segment: &'a Segment,
    reader: SegmentReader,
    /// Where the search for frames ends.
    limit: u32,
    /// Whether the next segment says that the frames ended at the limit.
    ends_at_limit: bool,
    is_last: bool,
    /// Whether the whole segment is known to have been durable once.
    synced: bool,
    tear: Tear,
    known: OwnerState,
    quarantine: &'a Quarantine,
    patience: &'a Patience,
}

/// Where a segment's frames end, and up to where they prove a successful sync.
struct Found {
    end: u32,
    proven: u32,
    /// Frames that were being written at the crash, with whole ones behind them.
    torn: Vec<Range<u32>>,
}

impl<'a> Scan<'a> {
    fn new(
        segment: &'a Arc<Segment>,
        successor: Option<SegmentHeader>,
        is_last: bool,
        tear: Tear,
        known: OwnerState,
        quarantine: &'a Quarantine,
        patience: &'a Patience,
    ) -> Result<Self, OpenError> {
        let length = segment.file.len().map_err(OpenError::io(&segment.path))?;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let promised = successor.map(|header| header.previous_end);
        let synced = successor.is_some_and(|header| header.previous_synced);
        if let Some(promised) = promised.filter(|promised| *promised > length) {
            quarantine.report(
                &format!("segment, {} bytes short", promised - length),
                &segment.path,
                length.into(),
                &[],
            );
        }
        let limit = promised.map_or(length, |promised| promised.min(length));
        let reader = SegmentReader::new(Arc::clone(segment), limit);
        let ends_at_limit = promised.is_some();
        Ok(Self { segment, reader, limit, ends_at_limit, is_last, synced, tear, known, quarantine, patience })
    }

    /// Passes the frames to `visit`.
    fn run(mut self, visit: &mut dyn FnMut(RecoveredFrame<'_>)) -> Result<Found, OpenError> {
        let (mut offset, mut proven, mut torn) = (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES, Vec::new());
        while offset < self.limit {
            let sight = self.reader.look(offset).map_err(OpenError::io(&self.segment.path))?;
            if let Sight::Whole(header, _) | Sight::Damaged(header, _) = &sight {
                proven = proven.max(offset - header.unsynced.min(offset));
            }
            if let Sight::Whole(header, items) = &sight {
                self.show(offset, header.length, items, Some(0), visit)?;
                offset += header.length as u32;
                continue;
            }
            let behind = match &sight {
                Sight::Damaged(header, _) => offset + header.length as u32,
                _ => offset + ALIGNMENT as u32,
            };
            let next = self.reader.next_header(behind).map_err(OpenError::io(&self.segment.path))?;
            let hole_end = match &sight {
                // The header is valid: what follows is another frame, though its header may be damaged, too.
                Sight::Damaged(..) => behind.min(self.limit),
                _ => next.map_or(self.limit, |(next, _)| next),
            };
            let synced = self.was_synced(offset, next)?;
            if synced || !self.is_last {
                if self.reader.check_read(offset..hole_end).is_err() && self.patience.wait() {
                    self.reader.read_again();
                    continue;
                }
                self.damage(offset..hole_end, sight, synced, next.is_some(), visit)?;
                offset = hole_end;
                continue;
            }
            // What could not be read may be acknowledged, or prove that this place was.
            self.reader.check_read(offset..u32::MAX).map_err(OpenError::unreadable(&self.segment.path))?;
            if next.is_none() || self.tear == Tear::Cut {
                self.torn_tail(offset, &sight)?;
                return Ok(Found { end: offset, proven, torn });
            }
            let bytes = self.reader.bytes(offset, (hole_end - offset) as usize);
            let bytes = bytes.map_err(OpenError::io(&self.segment.path))?;
            self.quarantine.set_aside("torn frame", &self.segment.path, offset.into(), bytes);
            torn.push(offset..hole_end);
            offset = hole_end;
        }
        Ok(Found { end: offset.min(self.limit), proven, torn })
    }

    fn show(
        &mut self,
        offset: u32,
        length: usize,
        items: &[ItemView],
        missing: Option<u32>,
        visit: &mut dyn FnMut(RecoveredFrame<'_>),
    ) -> Result<(), OpenError> {
        let (owner_tag, at) = (self.known.owner_tag, self.segment.at(offset));
        visit(RecoveredFrame { owner_tag, at, bytes: self.bytes(offset, length)?, items, missing });
        Ok(())
    }

    /// Whether the bytes at `hole` are known to have been durable once: according to the next segment's
    /// header or the owner, or because a frame at `next` or later was written after they were synced.
    fn was_synced(&mut self, hole: u32, next: Option<(u32, FrameHeader)>) -> Result<bool, OpenError> {
        if self.synced || self.known.durable.is_some_and(|durable| self.segment.at(hole) <= durable) {
            return Ok(true);
        }
        self.reader.proves_sync(hole, next).map_err(OpenError::io(&self.segment.path))
    }

    /// Reports a hole and shows the surviving items of the frame there. Bytes that were never synced are not
    /// shown: they may be mixed with earlier contents of the file.
    ///
    /// Behind the last frame there may be whole items of an earlier use of the file. So items without a frame's header are
    /// shown if another frame follows (`is_within`). Otherwise they are shown up to the first that is not whole, if the
    /// next segment tells the end: this may be that of an earlier recovery, which took all of the file for a hole. None are
    /// shown if a header tells that the disk did not write the place: then they are of an earlier use, too.
    fn damage(
        &mut self,
        hole: Range<u32>,
        sight: Sight,
        synced: bool,
        is_within: bool,
        visit: &mut dyn FnMut(RecoveredFrame<'_>),
    ) -> Result<(), OpenError> {
        let Range { start, end } = hole;
        let (quarantine, path, at) = (self.quarantine, &self.segment.path, self.segment.at(start));
        quarantine.report("frame", path, start.into(), self.bytes(start, (end - start) as usize)?);
        if !synced {
            return Ok(());
        }
        let (length, items, missing) = if let Sight::Damaged(header, items) = sight {
            let missing = header.items.saturating_sub(items.len() as u32);
            (header.length, items, Some(missing))
        } else if !is_within && !self.ends_at_limit {
            return Ok(());
        } else {
            // Perhaps only the header is damaged: then the items are where they should be.
            let length = (end - start) as usize;
            let bytes = self.bytes(start, length)?;
            if has_foreign_header(bytes, at) {
                return Ok(());
            }
            let items = items(bytes);
            let valid: Vec<ItemView> = if is_within {
                items.into_iter().filter(|item| item.valid).collect()
            } else {
                items.into_iter().take_while(|item| item.valid).collect()
            };
            (length, valid, None)
        };
        if items.is_empty() { Ok(()) } else { self.show(start, length, &items, missing, visit) }
    }

    /// The log ends here: what follows was being written at the crash, and was never acknowledged.
    fn torn_tail(&mut self, offset: u32, sight: &Sight) -> Result<(), OpenError> {
        if let Sight::Damaged(header, _) = sight {
            let (quarantine, path) = (self.quarantine, &self.segment.path);
            quarantine.set_aside(
                "torn end of the log",
                path,
                offset.into(),
                self.bytes(offset, header.length)?,
            );
        }
        Ok(())
    }

    fn bytes(&mut self, offset: u32, length: usize) -> Result<&[u8], OpenError> {
        self.reader.bytes(offset, length).map_err(OpenError::io(&self.segment.path))
    }
}
