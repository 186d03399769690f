//! Incoming measures in a segmented write-ahead log on the local disk.
//!
//! `append` encodes a batch as one frame and queues it for the single writer thread, which writes all queued
//! frames, syncs once and adds them to an index in memory. Workers take records from frames still held in
//! memory, or read them at the locations in the index. A checkpoint file holds the trimmed positions; fully
//! trimmed segments are recycled. `segments::frame` and `entries` have the format.

mod checkpoint;
pub(crate) mod entries;
mod followed;
mod index;
mod load;
mod queue;
mod read;
mod recent_frames;
pub(crate) mod verify;
mod writer;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use async_trait::async_trait;
use gnudi_model::{Fault, MetricId, Numbering, Sack, SackCount};
use parking_lot::Mutex;

use self::{
    entries::SackExtent,
    followed::Following,
    index::Index,
    load::Loader,
    queue::{Gate, WriteQueue},
    read::RecordsRead,
};
use super::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, TrimNeed,
};
use crate::{
    OpenError,
    data_dir::Hold,
    disk::{Disk, LocalDisk, remove_all},
    quarantine::{Quarantine, UNREADABLE_MAX},
    reserve::Reserve,
    segments::{
        Claim, Location, OwnerState, SegmentLog, SegmentOptions, Segments, Tear, WriteError,
        frame::FRAME_BYTES_MAX,
    },
    stopping,
};

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Power loss: every append waits for a disk sync.
    #[default]
    Sync,
    /// A crash of the process, but not of the machine: the operating system writes at any time.
    Os,
}

#[derive(Clone, Debug)]
pub struct LocalIncomingOptions {
    /// For a new log; an existing one keeps its own.
    pub sack_count: SackCount,
    pub durability: Durability,
    /// Size of a log file: 64 KiB to 1 GiB.
    pub segment_bytes: u32,
    /// How many emptied log files are kept for reuse, which is cheaper than creating new ones.
    pub spare_segments_max: usize,
    /// Queued bytes between `append` and the disk.
    pub queue_bytes_max: u32,
    /// Bytes of waiting frames held in memory, so that they need not be read back.
    pub held_bytes_max: u64,
    /// The folder of the aggregates that follow this log, where its progress is recorded (`followed`).
    pub followed_in: Option<PathBuf>,
    /// The reserve of disk space.
    pub reserve: Reserve,
    /// Stored bytes of unacknowledged measures; beyond it `append` returns [`IncomingError::BacklogFull`].
    pub backlog_bytes_max: u64,
    /// A record that stays unreadable this long counts as damaged; until then it stops its sack.
    pub unreadable_max: Duration,
    /// Of the data directory, kept until the writer and the last trim have ended.
    pub hold: Option<Arc<Hold>>,
}

impl Default for LocalIncomingOptions {
    fn default() -> Self {
        Self {
            sack_count: SackCount::DEFAULT,
            durability: Durability::Sync,
            segment_bytes: 64 << 20,
            spare_segments_max: 2,
            queue_bytes_max: 64 << 20,
            held_bytes_max: 8 << 20,
            followed_in: None,
            reserve: Reserve::default(),
            backlog_bytes_max: 4 << 30,
            unreadable_max: UNREADABLE_MAX,
            hold: None,
        }
    }
}

/// Counters since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncomingFigures {
    /// Batches made durable.
    pub appends: u64,
    /// Syncs for them: each covers `appends / syncs` batches on average.
    pub syncs: u64,
    pub sync_time: Duration,
    /// Damaged places found, at the start and since.
    pub damaged: u64,
    /// Log files in use.
    pub segments: u64,
    /// Whether a disk failure has stopped the log.
    pub poisoned: bool,
}

pub struct LocalIncoming {
    shared: Arc<LogState>,
    writer: Option<JoinHandle<()>>,
}

/// Shared by the writer thread and the callers.
struct LogState {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    sack_count: SackCount,
    durability: Durability,
    queue: WriteQueue,
    gate: Arc<Gate>,
    index: Index,
    /// Limits the bytes of frames held in memory.
    held: Arc<Gate>,
    log: Mutex<SegmentLog>,
    segments: Arc<Segments>,
    quarantine: Arc<Quarantine>,
    poisoned: OnceLock<String>,
    /// Whether the writer panicked: then it only answers callers.
    panicked: AtomicBool,
    counters: Counters,
    following: Option<Following>,
    reserve: Reserve,
    /// One trim at a time: a checkpoint must never go back.
    trimming: Mutex<()>,
    _hold: Option<Arc<Hold>>,
}

#[derive(Default)]
struct Counters {
    appends: AtomicU64,
    syncs: AtomicU64,
    sync_nanoseconds: AtomicU64,
}

impl LocalIncoming {
    /// Opens the log in `dir`, creating it if missing. Damage is reported and copied to `dir/quarantine`.
    pub fn open(dir: &Path, options: &LocalIncomingOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_on(Arc::new(LocalDisk), dir, options)
    }

    /// Like [`LocalIncoming::open`], on another disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &LocalIncomingOptions,
    ) -> Result<Arc<Self>, OpenError> {
        assert!(
            (1 << 16..=1 << 30).contains(&options.segment_bytes),
            "segments of {}",
            options.segment_bytes
        );
        let quarantine = Quarantine::new(Arc::clone(&disk), dir.join("quarantine"));
        let quarantine = Arc::new(quarantine.giving_up_after(options.unreadable_max));
        disk.create_dir(dir).map_err(OpenError::io(dir))?;
        let trimmed = checkpoint::read(&*disk, dir, &quarantine)?;
        let configured = trimmed.as_ref().map_or(usize::from(options.sack_count.get()), Vec::len);
        let trimmed = trimmed.unwrap_or_default();
        let trimmed_up_to = trimmed.iter().copied().max().unwrap_or_default();
        let used = Location::unpack(trimmed_up_to.0).segment;
        let following = options.followed_in.as_deref();
        let following =
            following.map(|place| Following::open(&*disk, dir, place, &quarantine)).transpose()?;
        let used = following.as_ref().map_or(used, |following| used.max(following.segment()));
        let gate = Gate::new(options.backlog_bytes_max);
        let mut loader = Loader::new(trimmed, Arc::clone(&gate));
        let segment_options = SegmentOptions {
            segment_bytes: options.segment_bytes,
            spares_max: options.spare_segments_max,
            sync_full: options.durability == Durability::Sync,
            tear: Tear::KeepWhole,
            reserve: options.reserve.clone(),
        };
        let log = SegmentLog::open(
            Arc::clone(&disk),
            dir,
            segment_options,
            &quarantine,
            OwnerState { owner_tag: configured as u64, used, ..OwnerState::default() },
            &mut |frame| loader.take(&frame),
        )?;
        if let Some(following) = &following {
            following.begin(&*disk, dir, &log, trimmed_up_to).map_err(OpenError::io(dir))?;
        }
        let (index, sack_count) = loader.finish(dir, log.owner_tag(), options.sack_count)?;
        let shared = Arc::new(LogState {
            dir: dir.to_owned(),
            sack_count,
            durability: options.durability,
            queue: WriteQueue::new(options.queue_bytes_max),
            gate,
            index,
            held: Gate::new(options.held_bytes_max),
            segments: Arc::clone(log.segments()),
            log: Mutex::new(log),
            quarantine,
            poisoned: OnceLock::new(),
            panicked: AtomicBool::new(false),
            counters: Counters::default(),
            following,
            reserve: options.reserve.clone(),
            trimming: Mutex::default(),
            _hold: options.hold.clone(),
            disk,
        });
        shared.release_trimmed().map_err(OpenError::io(dir))?;
        let writer = std::thread::Builder::new().name("gnudi-incoming".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                if std::panic::catch_unwind(AssertUnwindSafe(|| writer::run(&shared))).is_err() {
                    shared.panicked.store(true, Ordering::Relaxed);
                    shared.poisoned.get_or_init(|| "its writer panicked".to_owned());
                    // Writes nothing any more, but answers all callers.
                    writer::run(&shared);
                }
            }
        });
        let writer = writer.map_err(OpenError::io(dir))?;
        Ok(Arc::new(Self { shared, writer: Some(writer) }))
    }

    /// Whether it ever had a record, according to its files.
    pub fn has_had_records(&self) -> bool {
        let shared = &self.shared;
        shared.sack_count.iter().any(|sack| shared.index.positions(sack).newest > Position(0))
    }

    pub fn figures(&self) -> IncomingFigures {
        let LogState { counters, quarantine, segments, poisoned, .. } = &*self.shared;
        IncomingFigures {
            appends: counters.appends.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            sync_time: Duration::from_nanos(counters.sync_nanoseconds.load(Ordering::Relaxed)),
            damaged: quarantine.found(),
            segments: segments.read().len() as u64,
            poisoned: poisoned.get().is_some(),
        }
    }
}

impl Drop for LocalIncoming {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the incoming log panicked");
        }
    }
}

impl LogState {
    /// Makes room for a frame. Records a new segment at the aggregates before any of its records become
    /// visible.
    fn make_room(&self, bytes: usize) -> Result<usize, WriteError> {
        let mut log = self.log.lock();
        let room = log.make_room(bytes, Claim::New)?;
        if let Some(following) = &self.following {
            let kept_up = following.keep_up(&*self.disk, &self.dir, log.active(), Position(0));
            kept_up.map_err(WriteError::of)?;
        }
        Ok(room)
    }

    /// The segments that get no more records: all but the last.
    fn full_segments(&self) -> Vec<u32> {
        let segments = self.segments.read();
        segments.keys().copied().take(segments.len().saturating_sub(1)).collect()
    }

    fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        let _one_at_a_time = self.trimming.lock();
        let failed = |error: std::io::Error| IncomingError::Io(format!("trimming the log: {error}"));
        let positions = self.index.trim(up_to);
        // At the aggregates first: if these are replaced by an older copy, the log is trimmed further.
        if let (Some(following), Some(newest)) = (&self.following, positions.iter().copied().max()) {
            let active = self.log.lock().active();
            let keep_up = || following.keep_up(&*self.disk, &self.dir, active, newest);
            self.reserve.with_room(keep_up).map_err(failed)?;
        }
        let written = self.reserve.with_room(|| checkpoint::write(&*self.disk, &self.dir, &positions));
        written.map_err(failed)?;
        self.release_trimmed().map_err(failed)
    }

    /// Releases the segments that hold only trimmed records.
    fn release_trimmed(&self) -> std::io::Result<()> {
        let mut log = self.log.lock();
        let trimmed = self.index.take_trimmed(self.full_segments().into_iter());
        let to_remove = log.release(&trimmed)?;
        drop(log);
        // Outside the lock: removing a large file takes time, and appends go on.
        remove_all(&*self.disk, &to_remove)
    }
}

impl Incoming for LocalIncoming {
    fn fault(&self) -> Option<Fault> {
        if self.shared.panicked.load(Ordering::Relaxed) {
            return Some(Fault::Ended("the writer of the incoming log"));
        }
        let reason = self.shared.poisoned.get()?;
        Some(Fault::OutOfOrder(format!("the incoming log accepts no measures: {reason}")))
    }

    fn damaged(&self) -> u64 {
        self.shared.quarantine.found()
    }
}

#[async_trait]
impl Append for LocalIncoming {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
        let shared = &self.shared;
        if let Some(reason) = shared.poisoned.get() {
            return Err(IncomingError::Poisoned(reason.clone()));
        }
        if batch.entries.is_empty() {
            return Ok(());
        }
        let (frame, parts) = entries::encode(&batch, shared.sack_count);
        drop(batch);
        if frame.len() > FRAME_BYTES_MAX {
            return Err(IncomingError::Io(format!("a batch of {} bytes is too large", frame.len())));
        }
        let admission = shared.gate.admit(parts.iter().map(SackExtent::stored_bytes).sum())?;
        let answer = shared.queue.push(frame, parts, admission).await;
        answer.await.unwrap_or_else(|_| Err(IncomingError::Poisoned("the writer has stopped".into())))
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        Ok(self.shared.index.backlog())
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        let shared = Arc::clone(&self.shared);
        // It may read gigabytes.
        let counted = tokio::task::spawn_blocking(move || shared.backlog_by_metric()).await;
        counted.map_err(|error| IncomingError::Unavailable(stopping(error)))
    }
}

#[async_trait]
impl Consume for LocalIncoming {
    fn numbering(&self) -> Numbering {
        Numbering::settled(self.shared.sack_count)
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        loop {
            let parts = self.shared.index.pending(sack.id, after, bytes_max);
            let RecordsRead { records, stopped } = self.shared.read(sack.id, &parts);
            // If all of them were damaged, read on.
            let Some(last) = parts.last() else { return Ok(Pending::default()) };
            if !records.is_empty() {
                let newest = self.shared.index.positions(sack.id).newest;
                let more = stopped.is_some() || last.item.position() < newest;
                return Ok(Pending { records, more });
            }
            if let Some(reason) = stopped {
                return Err(IncomingError::Io(reason));
            }
        }
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        self.shared.index.acknowledge(sack.id, up_to);
        Ok(())
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        let (shared, up_to) = (Arc::clone(&self.shared), up_to.to_vec());
        // It syncs several files.
        let trimmed = tokio::task::spawn_blocking(move || shared.trim(&up_to)).await;
        trimmed.unwrap_or_else(|error| Err(IncomingError::Unavailable(stopping(error))))
    }

    fn trim_need(&self) -> TrimNeed {
        /// Segments that a trim would free.
        const USEFUL: usize = 2;
        const URGENT: usize = 16;
        let shared = &self.shared;
        match shared.index.count_acknowledged(shared.full_segments().into_iter()) {
            _ if shared.reserve.is_short() => TrimNeed::Urgent,
            URGENT.. => TrimNeed::Urgent,
            USEFUL.. => TrimNeed::Useful,
            _ => TrimNeed::None,
        }
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        Ok(sacks.iter().map(|sack| self.shared.index.positions(sack.id)).collect())
    }

    async fn arrivals(&self) -> Vec<Sack> {
        let count = self.shared.sack_count;
        self.shared.index.arrivals().await.into_iter().map(|id| Sack { count, id }).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// While a trim waits for the disk, its thread runs other tasks.
    #[tokio::test]
    async fn a_trim_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let options = LocalIncomingOptions { segment_bytes: 1 << 16, ..LocalIncomingOptions::default() };
        let log = LocalIncoming::open(dir.path(), &options).unwrap();
        let mut trimming = log.trim(&[]);
        {
            let _waits = log.shared.log.lock();
            assert!(trimming.as_mut().now_or_never().is_none());
        }
        trimming.await.unwrap();
    }

    /// A runtime that shuts down cancels what it has not begun.
    #[test]
    fn a_call_while_the_process_stops_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let log = LocalIncoming::open(dir.path(), &LocalIncomingOptions::default()).unwrap();
        let stopped = runtime.handle().clone();
        drop(runtime);
        let _within = stopped.enter();
        let trimmed = log.trim(&[]).now_or_never().unwrap();
        assert!(matches!(trimmed, Err(IncomingError::Unavailable(_))), "{trimmed:?}");
        let counted = log.backlog_by_metric().now_or_never().unwrap();
        assert!(matches!(counted, Err(IncomingError::Unavailable(_))), "{counted:?}");
    }
}
