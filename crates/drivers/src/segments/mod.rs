//! A log of frames in numbered files, shared by the incoming log and the local aggregate store.
//!
//! Writes frames, makes them durable, recovers them after a crash, reports damage and recycles files. It does
//! not interpret frames, keeps no index, and has a single writer, its owner.

mod checksums;
pub mod frame;
mod recovery;
pub(crate) mod repair;
mod segment;

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::RwLock;

pub use self::{
    frame::{Frame, ItemView},
    recovery::{RecoveredFrame, Tear},
    segment::{SEGMENT_HEADER_BYTES, Segment},
};
pub(crate) use self::{
    recovery::{Patience, recover},
    segment::{FORMAT_VERSION, HeaderError, SegmentHeader, SegmentReader, Sight, file_name, number_of},
};
use crate::{
    OpenError,
    disk::{
        Disk, LocalDisk, if_there, is_no_space, is_out_of_files, is_shortage, remove_all, with_suffix,
        write_all_at,
    },
    quarantine::Quarantine,
    reserve::Reserve,
};

/// The place of a frame or an item in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub segment: u32,
    pub offset: u32,
}

impl Location {
    /// One number, in the log's order. 0 means "before the first": segments count from 1.
    pub fn pack(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    pub fn unpack(packed: u64) -> Self {
        Self { segment: (packed >> 32) as u32, offset: packed as u32 }
    }
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct SegmentOptions {
    /// Size of a file; a longer frame gets a file of its own.
    pub segment_bytes: u32,
    /// How many emptied files are kept for reuse.
    pub spares_max: usize,
    /// Whether a full file is synced before the next one begins. If false, the owner forgoes durability.
    pub sync_full: bool,
    /// How recovery treats whole frames behind a torn one that were written after the last sync.
    pub tear: Tear,
    /// The log allocates space only as the reserve allows. Closing the last segment may use it.
    pub reserve: Reserve,
}

/// The owner's state of a log, known before it is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerState {
    /// Written into the headers of a new log; an existing log keeps its own.
    pub owner_tag: u64,
    /// Highest segment number ever used, even if the files do not show it.
    pub used: u32,
    /// Segments up to this number are no longer needed: leftovers of a crash, removed without reading.
    pub done: u32,
    /// Segments up to this number are kept but not read: full ones, of a log whose frames need no replay.
    pub unread: u32,
    /// A frame that was durable once, and with it all before it.
    pub durable: Option<Location>,
}

/// Why a write failed.
#[derive(Debug)]
pub enum WriteError {
    /// No disk space for now; no part of the frames is left in the log.
    NoSpace(io::Error),
    /// Too many files are open, or memory is short, for now; no part of the frames is left in the log.
    Shortage(io::Error),
    /// The disk failed and the file's content is unknown: the log must not be written any more.
    Broken(io::Error),
}

impl WriteError {
    /// Of an error before the log was changed.
    pub(crate) fn of(error: io::Error) -> Self {
        if is_no_space(&error) {
            WriteError::NoSpace(error)
        } else if is_shortage(&error) {
            WriteError::Shortage(error)
        } else {
            WriteError::Broken(error)
        }
    }
}

/// What disk space is allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// New data: refused while the disk-space reserve is released.
    New,
    /// Writes that free space in the end: they may use the reserve, and allocate as little as possible.
    Relief,
}

/// The readable segments, by number.
pub type Segments = RwLock<BTreeMap<u32, Arc<Segment>>>;

pub struct SegmentLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: SegmentOptions,
    owner_tag: u64,
    segments: Arc<Segments>,
    active: Active,
    /// Where the log ended when it was opened.
    found_end: Location,
    spares: Vec<PathBuf>,
}

/// The segment being written.
struct Active {
    segment: Arc<Segment>,
    /// Where the next frame goes.
    end: u32,
    /// Everything before this offset is durable.
    synced: u32,
    /// The file has its space allocated up to this offset.
    allocated: u32,
}

/// How far a log was written at some moment.
pub struct SyncPoint {
    pub segment: Arc<Segment>,
    end: u32,
}

impl SegmentLog {
    /// Opens the log in `dir`, creates it if missing, and passes every frame found to `visit`, oldest first.
    /// The last segment is closed where its frames end, and a new one begun.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: SegmentOptions,
        quarantine: &Quarantine,
        known: OwnerState,
        visit: &mut dyn FnMut(RecoveredFrame<'_>),
    ) -> Result<Self, OpenError> {
        disk.create_dir(dir).map_err(OpenError::io(dir))?;
        // Unneeded files are removed or overwritten below. First make the names that say so durable: the last
        // writer may have crashed before doing so.
        disk.sync_dir(dir).map_err(OpenError::io(dir))?;
        let reserve = &options.reserve;
        let recovered = recover(reserve, &*disk, dir, options.tear, known, quarantine, visit)?;
        let owner_tag = recovered.owner_tag;
        let (previous, previous_end) = recovered.last.unwrap_or_default();
        let number = previous.max(known.used).max(known.done) + 1;
        let mut spares = recovered.spares;
        let header = SegmentHeader { number, previous, previous_end, previous_synced: true, owner_tag };
        let mut begin = |bytes| Ok((create(&*disk, dir, &header, bytes, &mut spares)?, bytes));
        let begun = begin(options.segment_bytes).or_else(|error| match error {
            WriteError::NoSpace(_) => {
                // Existing data stays readable; writes are refused until there is room.
                tracing::warn!(
                    "no space for a new file of {} bytes in {}",
                    options.segment_bytes,
                    dir.display()
                );
                match begin(SEGMENT_HEADER_BYTES) {
                    Err(WriteError::NoSpace(_)) if reserve.release() => begin(SEGMENT_HEADER_BYTES),
                    begun => begun,
                }
            }
            error => Err(error),
        });
        let (segment, allocated) = begun.map_err(|error| {
            let (WriteError::NoSpace(source) | WriteError::Shortage(source) | WriteError::Broken(source)) =
                error;
            OpenError::Io { path: dir.join(file_name(number)), source }
        })?;
        let mut segments = recovered.segments;
        segments.insert(number, Arc::clone(&segment));
        let active = Active { segment, end: SEGMENT_HEADER_BYTES, synced: SEGMENT_HEADER_BYTES, allocated };
        let segments = Arc::new(RwLock::new(segments));
        let found_end = Location { segment: previous, offset: previous_end };
        let dir = dir.to_owned();
        let mut log = Self { disk, dir, options, owner_tag, segments, active, found_end, spares };
        log.drop_spares(log.options.spares_max).map_err(OpenError::io(&log.dir))?;
        Ok(log)
    }

    /// The owner's tag that the log was created with.
    pub fn owner_tag(&self) -> u64 {
        self.owner_tag
    }

    pub fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Where the log ended when it was opened; the lowest location if it was empty.
    pub fn found_end(&self) -> Location {
        self.found_end
    }

    /// The number of the segment being written.
    pub fn active(&self) -> u32 {
        self.active.segment.number
    }

    /// Makes room for a frame of `bytes`, beginning a new segment if the active one lacks it. Returns how
    /// many bytes of frames may now be written at once.
    pub fn make_room(&mut self, bytes: usize, claim: Claim) -> Result<usize, WriteError> {
        let mut room = self.options.segment_bytes.saturating_sub(self.active.end) as usize;
        if bytes > room {
            if self.active.end > SEGMENT_HEADER_BYTES {
                self.roll(claim)?;
            }
            // An empty segment takes one frame of any length.
            room = bytes.max((self.options.segment_bytes - SEGMENT_HEADER_BYTES) as usize);
        }
        self.allocate(bytes, claim)?;
        Ok(room.min((self.active.allocated - self.active.end) as usize))
    }

    /// Ensures space for `bytes` more of frames; [`Claim::New`] allocates the whole segment.
    fn allocate(&mut self, bytes: usize, claim: Claim) -> Result<(), WriteError> {
        let end = self.active.end.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if end <= self.active.allocated {
            return Ok(());
        }
        if claim == Claim::New && !self.options.reserve.is_held() {
            return Err(self.refused());
        }
        let wanted = match claim {
            Claim::New => end.max(self.options.segment_bytes),
            Claim::Relief => end.saturating_add(RELIEF_BYTES).min(end.max(self.options.segment_bytes)),
        };
        let file = &self.active.segment.file;
        let done = match file.allocate(wanted.into()) {
            Err(error) if is_no_space(&error) && claim == Claim::Relief && self.options.reserve.release() => {
                file.allocate(wanted.into())
            }
            done => done,
        };
        match done {
            Ok(()) => self.active.allocated = wanted,
            Err(error) if is_no_space(&error) => {
                return Err(WriteError::NoSpace(self.options.reserve.refusal(error)));
            }
            Err(error) => return Err(WriteError::of(error)),
        }
        Ok(())
    }

    fn refused(&self) -> WriteError {
        WriteError::NoSpace(self.options.reserve.refusal(io::ErrorKind::StorageFull.into()))
    }

    /// Writes frames, not yet durable, all or none; returns where each starts.
    pub fn write(&mut self, frames: &mut [Frame]) -> Result<Vec<Location>, WriteError> {
        let mut end = self.active.end;
        let mut locations = Vec::with_capacity(frames.len());
        for frame in &mut *frames {
            let at = self.active.segment.at(end);
            frame.stamp(at, end - self.active.synced);
            locations.push(at);
            end += frame.len() as u32;
        }
        let mut slices: Vec<IoSlice<'_>> = frames.iter().map(|frame| IoSlice::new(frame.bytes())).collect();
        let start = u64::from(self.active.end);
        match write_all_at(&*self.active.segment.file, &mut slices, start) {
            Ok(()) => {
                self.active.end = end;
                Ok(locations)
            }
            Err(error) if is_no_space(&error) => self.undo(error),
            Err(error) => Err(WriteError::Broken(error)),
        }
    }

    /// Removes what a failed write left, so that no later recovery finds a refused frame.
    fn undo<T>(&mut self, error: io::Error) -> Result<T, WriteError> {
        let file = &self.active.segment.file;
        // On file systems that copy on write even that takes space.
        self.options
            .reserve
            .with_room(|| file.truncate(u64::from(self.active.end)))
            .and_then(|()| self.active.segment.sync())
            .map_err(WriteError::Broken)?;
        self.active.allocated = self.active.end;
        Err(WriteError::NoSpace(error))
    }

    /// Makes all that was written durable. After an error the log must not be written any more.
    pub fn sync(&mut self) -> io::Result<()> {
        self.active.segment.sync()?;
        self.active.synced = self.active.end;
        Ok(())
    }

    /// What a sync would make durable, for callers that sync without the log's lock: see
    /// [`SegmentLog::synced`].
    pub fn sync_point(&self) -> SyncPoint {
        SyncPoint { segment: Arc::clone(&self.active.segment), end: self.active.end }
    }

    /// Records that the caller has synced the file of `point`.
    pub fn synced(&mut self, point: &SyncPoint) {
        // A segment that is full by now was synced when the next one was begun.
        if point.segment.number == self.active.segment.number {
            self.active.synced = self.active.synced.max(point.end);
        }
    }

    /// Writes an empty frame. It proves to a later recovery that everything before it was synced, so that
    /// damage there is not mistaken for a torn tail.
    pub fn mark(&mut self) -> Result<(), WriteError> {
        let mut mark = Frame::with_capacity(0);
        self.make_room(mark.len(), Claim::New)?;
        self.write(std::slice::from_mut(&mut mark)).map(|_| ())
    }

    /// Closes the active segment and begins the next one.
    pub fn roll(&mut self, claim: Claim) -> Result<(), WriteError> {
        if claim == Claim::New && self.spares.is_empty() && !self.options.reserve.is_held() {
            return Err(self.refused());
        }
        let previous_end = self.active.end;
        let truncate = || self.active.segment.file.truncate(u64::from(previous_end));
        let truncated =
            if claim == Claim::New { truncate() } else { self.options.reserve.with_room(truncate) };
        truncated.map_err(WriteError::of)?;
        self.active.allocated = previous_end;
        if self.options.sync_full {
            self.sync().map_err(WriteError::Broken)?;
        }
        let previous = self.active.segment.number;
        let number = previous.checked_add(1).expect("2^32 segments outlast any disk");
        let previous_synced = self.active.synced == previous_end;
        let header =
            SegmentHeader { number, previous, previous_end, previous_synced, owner_tag: self.owner_tag };
        let (segment, allocated) = self.begin(&header, claim)?;
        self.segments.write().insert(number, Arc::clone(&segment));
        self.active = Active { segment, end: SEGMENT_HEADER_BYTES, synced: SEGMENT_HEADER_BYTES, allocated };
        Ok(())
    }

    /// Begins a segment; also returns how many of its bytes are allocated.
    fn begin(&mut self, header: &SegmentHeader, claim: Claim) -> Result<(Arc<Segment>, u32), WriteError> {
        let Self { disk, dir, options, spares, .. } = self;
        let reserve = &options.reserve;
        let mut begin = |bytes| Ok((create(&**disk, dir, header, bytes, spares)?, bytes));
        let is_new = claim == Claim::New;
        if is_new || reserve.is_held() {
            match begin(options.segment_bytes) {
                Err(WriteError::NoSpace(_)) if !is_new => {}
                Err(WriteError::NoSpace(error)) => return Err(WriteError::NoSpace(reserve.refusal(error))),
                begun => return begun,
            }
        }
        let bytes = options.segment_bytes.min(RELIEF_BYTES);
        match begin(bytes) {
            Err(WriteError::NoSpace(_)) if reserve.release() => begin(bytes),
            begun => begun,
        }
    }

    /// Closes the files of all segments but the active one, for an owner that reads them elsewhere: an open file that
    /// somebody removes keeps its space.
    pub fn close_full(&mut self) {
        let active = self.active();
        self.segments.write().retain(|number, _| *number == active);
    }

    /// Releases segments that are no longer needed: some files are kept as spares; returns the others, for
    /// the caller to remove. Never the active segment.
    pub fn release(&mut self, numbers: &[u32]) -> io::Result<Vec<PathBuf>> {
        let mut to_remove = Vec::new();
        let is_short = self.options.reserve.is_short();
        if is_short {
            self.drop_spares(0)?;
        }
        let kept = self.spares.len();
        for number in numbers.iter().filter(|number| **number != self.active.segment.number) {
            let Some(segment) = self.segments.write().remove(number) else { continue };
            if segment.unreadable.load(Ordering::Relaxed) {
                let renamed = self.disk.rename(&segment.path, &with_suffix(&segment.path, ".unreadable"));
                if let Err(error) = renamed {
                    tracing::warn!("{} stays until the next start: {error}", segment.path.display());
                }
                continue;
            }
            // A reader may still hold the file: then it is removed, and lives until the reader is done.
            let reusable = Arc::strong_count(&segment) == 1
                && !is_short
                && self.spares.len() < self.options.spares_max
                && segment.file.len().is_ok_and(|length| length <= self.options.segment_bytes.into())
                && !self.disk.is_linked(&segment.path);
            let spare = with_suffix(&segment.path, SPARE_SUFFIX);
            // One that cannot be renamed, such as one that is gone, must not keep the others.
            if reusable && self.disk.rename(&segment.path, &spare).is_ok() {
                self.spares.push(spare);
            } else {
                to_remove.push(segment.path.clone());
            }
        }
        // The old name must be gone durably before a spare is overwritten.
        if self.spares.len() > kept
            && let Err(error) = self.disk.sync_dir(&self.dir)
        {
            // The next start finds these files. The others are not written again, so their names need no sync.
            self.spares.truncate(kept);
            remove_all(&*self.disk, &to_remove).ok();
            return Err(error);
        }
        Ok(to_remove)
    }

    /// Removes spares until at most `keep` are left.
    pub fn drop_spares(&mut self, keep: usize) -> io::Result<()> {
        while self.spares.len() > keep {
            let spare = self.spares.pop().expect("just counted");
            if_there(self.disk.remove(&spare))?;
        }
        Ok(())
    }
}

/// The numbers of the segments in `dir`, ascending.
pub(crate) fn numbers(dir: &Path) -> io::Result<Vec<u32>> {
    numbers_on(&LocalDisk, dir)
}

/// Like [`numbers`], on another disk.
pub(crate) fn numbers_on(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u32>> {
    let mut numbers: Vec<u32> = disk.list(dir)?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Closes the log in `copy`, an older state of the one in `original`, where its frames end. The copy then
/// continues with higher locations than the original has used.
pub(crate) fn continue_behind(original: &Path, copy: &Path) -> Result<(), OpenError> {
    let used = numbers(original).map_err(OpenError::io(original))?.last().copied().unwrap_or(0);
    let options = SegmentOptions {
        segment_bytes: SEGMENT_HEADER_BYTES,
        spares_max: 0,
        sync_full: true,
        tear: Tear::KeepWhole,
        reserve: Reserve::default(),
    };
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let quarantine = Quarantine::new(Arc::clone(&disk), copy.join("quarantine"));
    let known = OwnerState { used, ..OwnerState::default() };
    let log = SegmentLog::open(disk, copy, options, &quarantine, known, &mut |_| {})?;
    if log.owner_tag() == OwnerState::default().owner_tag {
        let reason = "no segment of the log has a header that is whole".to_owned();
        return Err(OpenError::Invalid { path: original.to_owned(), reason });
    }
    Ok(())
}

/// How much space a [`Claim::Relief`] segment starts with.
const RELIEF_BYTES: u32 = 32 << 10;

/// Name suffix of files kept for reuse.
const SPARE_SUFFIX: &str = ".spare";

/// How often, and how long each time, a segment waits for a file to be closed before its directory can be synced.
const FILES_WAITS_MAX: u32 = 300;
const FILES_PAUSE: Duration = Duration::from_millis(100);

/// Creates a segment with `segment_bytes` allocated, from a spare if there is one: written under another
/// name, synced, renamed, directory synced.
///
/// Overwriting a file costs a fraction of extending one: its blocks and most of its pages exist already
/// (docs/store-comparison.md has the figures).
fn create(
    disk: &dyn Disk,
    dir: &Path,
    header: &SegmentHeader,
    segment_bytes: u32,
    spares: &mut Vec<PathBuf>,
) -> Result<Arc<Segment>, WriteError> {
    let path = dir.join(file_name(header.number));
    let spare = spares.pop();
    let temporary = spare.clone().unwrap_or_else(|| with_suffix(&path, ".tmp"));
    let prepare = || {
        let file = if spare.is_some() { disk.open(&temporary)? } else { disk.create(&temporary)? };
        file.allocate(u64::from(segment_bytes))?;
        header.write(&*file)?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        Ok(file)
    };
    let file = prepare().map_err(|error: io::Error| {
        match spare {
            // It was not touched: on a full disk nothing else can begin a segment.
            Some(spare) if is_out_of_files(&error) => spares.push(spare),
            // Free the space; a file that cannot be removed now is removed at the next start.
            _ => drop(disk.remove(&temporary)),
        }
        WriteError::of(error)
    })?;
    // The new segment records where the previous one ends: after a failed sync neither may be written.
    let mut attempts = 0..FILES_WAITS_MAX;
    while let Err(error) = disk.sync_dir(dir) {
        if !is_out_of_files(&error) || attempts.next().is_none() {
            return Err(WriteError::Broken(error));
        }
        std::thread::sleep(FILES_PAUSE);
    }
    Ok(Arc::new(Segment::new(header.number, file, path)))
}

#[cfg(test)]
mod tests;
