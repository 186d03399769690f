//! Aggregates on the local disk: a log of recent writes, and sorted runs of older ones (an LSM tree).
//!
//! A pass that writes only a head leaves it in memory (`dirty`); one with blocks goes to a log (`recent`). A
//! `sync` writes the dirty heads to the log, and makes the log durable. When the log or memory reaches its
//! limit, the newest value of each key is written to a run, a file with one table ([`super::table`]), and the log's
//! files are recycled (`flush`). New runs are separated into heads and blocks, and runs of similar size are merged
//! (`merge`). A read checks the recent layer first, then the runs, newest first. Every value keeps the checksum of its
//! first write through all copies; damage is reported with file and offset and costs that value only.
//!
//! docs/store-comparison.md explains why this is not a library.

mod dirty;
mod flush;
mod free_space;
mod merge;
mod opening;
mod read;
mod recent;
pub(crate) mod repair;
mod roster;
mod run;
pub(crate) mod verify;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId};
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;

use self::{
    dirty::HEAD_BYTES_MAX,
    free_space::Waiting,
    recent::{Layer, Written},
    roster::Roster,
    run::{Run, RunName},
};
use super::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError, table::levels::Levels,
};
use crate::{
    data_dir::Hold,
    disk::{Disk, LocalDisk},
    fence::Fences,
    quarantine::{Quarantine, UNREADABLE_MAX},
    reserve::Reserve,
    segments::{Claim, Frame, SegmentLog, Segments, WriteError, frame::FRAME_BYTES_MAX},
    stopping,
};

/// The log is flushed to a run at this number of heads and blocks.
const RECENT_ENTRIES_MAX: usize = 300_000;

/// Limits of the store. Memory: about 100 bytes per recent entry; per run 48 bytes for each 32 KiB of it, up
/// to as much for each head, and 10 bits for each metric.
#[derive(Clone, Debug)]
pub struct LocalAggregatesOptions {
    /// Size of a log file: 64 KiB to 1 GiB.
    pub segment_bytes: u32,
    /// How many emptied log files are kept for reuse.
    pub spare_segments_max: usize,
    /// The log is flushed to a run at this size; at twice this size writers wait.
    pub recent_bytes_max: u64,
    /// Like `recent_bytes_max`, but for the memory of heads that are in no file yet. 0: there are none, all go
    /// to the log.
    pub dirty_bytes_max: u64,
    /// How long a flush waits at most for merges that lag behind: memory must be released even if merges fail.
    pub merges_wait_max: Duration,
    /// Data that stays unreadable this long counts as damaged: a device may recover before.
    pub unreadable_max: Duration,
    /// The reserve of disk space.
    pub reserve: Reserve,
    /// Of the data directory, kept until the threads have ended.
    pub hold: Option<Arc<Hold>>,
}

impl Default for LocalAggregatesOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            spare_segments_max: 1,
            recent_bytes_max: 256 << 20,
            dirty_bytes_max: 32 << 20,
            merges_wait_max: Duration::from_secs(10),
            unreadable_max: UNREADABLE_MAX,
            reserve: Reserve::default(),
            hold: None,
        }
    }
}

/// Counters since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateFigures {
    /// Passes written.
    pub writes: u64,
    /// Bytes written to the log and to runs.
    pub log_bytes: u64,
    pub run_bytes: u64,
    pub syncs: u64,
    pub flushes: u64,
    /// Flushes that waited for merges.
    pub flushes_waited: u64,
    pub merges: u64,
    /// Number of runs now, and their size.
    pub runs: u64,
    pub runs_size_bytes: u64,
    /// Heads and blocks in the recent layer now.
    pub recent_entries: u64,
    /// Heads that are in no file yet, and their memory in bytes.
    pub dirty_heads: u64,
    pub dirty_bytes: u64,
    /// Damaged places found, at the start and since.
    pub damaged: u64,
    /// Whether a disk failure has stopped writes.
    pub poisoned: bool,
    /// Whether a merge waits for space now, and how many have waited.
    pub merge_waits: bool,
    pub merges_waited: u64,
}

pub struct LocalAggregates {
    shared: Arc<Shared>,
    fences: Fences,
    threads: Vec<JoinHandle<()>>,
}

/// Shared by the callers and the background threads. Lock order: `merging_blocks`, syncing, log, state, segments.
struct Shared {
    disk: Arc<dyn Disk>,
    log_dir: PathBuf,
    runs_dir: PathBuf,
    options: LocalAggregatesOptions,
    log: Mutex<Log>,
    /// Bytes written to the log since the last flush began.
    recent_bytes: AtomicU64,
    state: RwLock<State>,
    segments: Arc<Segments>,
    quarantine: Arc<Quarantine>,
    poisoned: OnceLock<String>,
    /// Why the last flush failed, until one succeeds.
    stuck: Mutex<Option<StoreError>>,
    /// Locked during a sync, so that a caller with nothing to sync waits for a sync under way.
    syncing: Mutex<()>,
    /// Wakes writers that wait for a flush.
    flushed: Notify,
    /// Wakes syncs that wait for a flush, with `stuck`.
    settled: Condvar,
    work: Work,
    counters: Counters,
    reserve: Reserve,
    waiting: Waiting,
    /// Locked while runs of blocks are merged.
    merging_blocks: Mutex<()>,
}

#[allow(clippy::struct_field_names)]
struct Log {
    log: SegmentLog,
    roster: Roster,
    /// Whether anything was written since the last sync.
    is_unsynced: bool,
}

#[derive(Default)]
struct State {
    active: Layer,
    /// The layer being flushed, immutable.
    frozen: Option<Arc<Layer>>,
    /// The frozen layer's values are in segments before this one.
    frozen_before: u32,
    runs: Levels<Arc<Run>>,
}

/// Wakes the background threads.
#[derive(Default)]
struct Work {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct Wanted {
    flush: bool,
    merge: bool,
    merge_blocks: bool,
}

#[derive(Default)]
struct Counters {
    writes: AtomicU64,
    log_bytes: AtomicU64,
    run_bytes: AtomicU64,
    syncs: AtomicU64,
    flushes: AtomicU64,
    flushes_waited: AtomicU64,
    merges: AtomicU64,
}

impl LocalAggregates {
    pub fn figures(&self) -> AggregateFigures {
        let Shared { counters, quarantine, poisoned, state, .. } = &*self.shared;
        let state = state.read();
        let (merge_waits, merges_waited) = self.shared.waiting.figures();
        AggregateFigures {
            writes: counters.writes.load(Ordering::Relaxed),
            log_bytes: counters.log_bytes.load(Ordering::Relaxed),
            run_bytes: counters.run_bytes.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            flushes: counters.flushes.load(Ordering::Relaxed),
            flushes_waited: counters.flushes_waited.load(Ordering::Relaxed),
            merges: counters.merges.load(Ordering::Relaxed),
            runs: state.runs.all().count() as u64,
            runs_size_bytes: state.runs.all().map(|run| run.bytes).sum(),
            recent_entries: state.layers().map(|layer| layer.len() as u64).sum(),
            dirty_heads: state.layers().map(|layer| layer.dirty().len() as u64).sum(),
            dirty_bytes: state.dirty_bytes(),
            damaged: quarantine.found(),
            poisoned: poisoned.get().is_some(),
            merge_waits,
            merges_waited,
        }
    }

    /// Runs work that waits for the disk.
    async fn blocking(&self, work: fn(&Shared) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|error| Err(StoreError::Unavailable(stopping(error))))
    }
}

impl Drop for LocalAggregates {
    fn drop(&mut self) {
        self.shared.work.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the aggregate store panicked");
            }
        }
    }
}

/// The log's directory of the store in `dir`.
pub(crate) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// The runs' directory.
pub(crate) fn runs_dir(dir: &Path) -> PathBuf {
    dir.join("runs")
}

/// The file names of the runs in `runs_dir`.
pub(crate) fn run_files(runs_dir: &Path) -> std::io::Result<BTreeSet<String>> {
    Ok(LocalDisk.list(runs_dir)?.into_iter().filter(|name| RunName::of_file(name).is_some()).collect())
}

impl Work {
    fn want(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.wanted.lock());
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Take the lock, so that no thread is between its check and its wait.
        drop(self.wanted.lock());
        self.changed.notify_all();
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until `take` returns true; false on stop.
    fn wait(&self, take: impl Fn(&mut Wanted) -> bool) -> bool {
        let mut wanted = self.wanted.lock();
        while !self.stopped() {
            if take(&mut wanted) {
                return true;
            }
            self.changed.wait(&mut wanted);
        }
        false
    }

    /// Like [`Work::wait`], but at most for `time`; false only on stop.
    fn wait_at_most(&self, time: Duration, take: impl Fn(&mut Wanted) -> bool) -> bool {
        let deadline = std::time::Instant::now() + time;
        let mut wanted = self.wanted.lock();
        while !self.stopped() && !take(&mut wanted) {
            if self.changed.wait_until(&mut wanted, deadline).timed_out() {
                break;
            }
        }
        !self.stopped()
    }

    /// Sleeps for `time`, or until stop.
    fn pause(&self, time: Duration) {
        self.wait_at_most(time, |_| false);
    }
}

impl Shared {
    /// Waits while log or memory exceed twice their limit, until a flush succeeds or fails.
    async fn wait_for_room(&self) -> Result<(), StoreError> {
        loop {
            let flushed = self.flushed.notified();
            tokio::pin!(flushed);
            flushed.as_mut().enable();
            let waits = self.is_full();
            match self.stuck.lock().clone() {
                _ if !waits => return Ok(()),
                Some(error) => return Err(error),
                None => {}
            }
            // A sync may have filled the log.
            self.flush_if_due();
            flushed.await;
        }
    }

    /// Applies writes; one result per write, in order. A head without blocks stays in memory.
    fn write(&self, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let is_logged = |write: &MetricWrite| {
            let is_alone = write.blocks.is_empty() && write.expired.is_empty();
            !is_alone || write.head.len() > HEAD_BYTES_MAX || self.options.dirty_bytes_max == 0
        };
        let logged: Vec<bool> = writes.iter().map(is_logged).collect();
        let (with_blocks, heads): (Vec<_>, Vec<_>) = writes.into_iter().partition(is_logged);
        let in_memory = self.write_heads(heads);
        let frames: Vec<_> = with_blocks.iter().map(recent::encode_write).collect();
        // Without blocks do not wait for the log.
        let appended = if frames.is_empty() { Vec::new() } else { self.append(frames, Claim::New) };
        let mut appended = appended.into_iter();
        let answer = |logged| {
            if logged { appended.next().expect("one answer per frame") } else { in_memory.clone() }
        };
        logged.into_iter().map(answer).collect()
    }

    fn write_heads(&self, writes: Vec<MetricWrite>) -> Result<(), StoreError> {
        self.check_writable()?;
        let count = writes.len() as u64;
        {
            let mut state = self.state.write();
            for MetricWrite { metric, head, .. } in writes {
                state.active.write_head(metric, &head);
            }
        }
        self.counters.writes.fetch_add(count, Ordering::Relaxed);
        self.flush_if_due();
        Ok(())
    }

    /// Appends frames and adds them to the recent layer; one result per frame.
    fn append(&self, prepared: Vec<(Frame, Written)>, claim: Claim) -> Vec<Result<(), StoreError>> {
        let count = prepared.len();
        let (mut frames, written): (Vec<Frame>, Vec<Written>) = prepared.into_iter().unzip();
        let mut log = self.log.lock();
        let mut done = 0;
        let mut answers = Vec::with_capacity(count);
        while done < count {
            match self.append_some(&mut log, &mut frames[done..], &written[done..], claim) {
                Ok(some) => {
                    answers.extend((0..some).map(|_| Ok(())));
                    done += some;
                }
                Err(error) => {
                    answers.extend((done..count).map(|_| Err(error.clone())));
                    break;
                }
            }
        }
        self.counters.writes.fetch_add(done as u64, Ordering::Relaxed);
        self.flush_if_due();
        answers
    }

    /// Appends as many frames as the active segment has room for, at least one; returns their number.
    fn append_some(
        &self,
        log: &mut Log,
        frames: &mut [Frame],
        written: &[Written],
        claim: Claim,
    ) -> Result<usize, StoreError> {
        self.check_writable()?;
        if frames[0].len() > FRAME_BYTES_MAX {
            return Err(StoreError::Io(format!("a write of {} bytes is too large", frames[0].len())));
        }
        let mut room = log.log.make_room(frames[0].len(), claim).map_err(|error| self.fail(error))?;
        let fits = |frame: &&Frame| {
            let fits = frame.len() <= room;
            room = room.saturating_sub(frame.len());
            fits
        };
        let count = frames.iter().take_while(fits).count();
        let locations = log.log.write(&mut frames[..count]).map_err(|error| self.fail(error))?;
        let bytes: u64 = frames[..count].iter().map(|frame| frame.len() as u64).sum();
        self.recent_bytes.fetch_add(bytes, Ordering::Relaxed);
        log.is_unsynced = true;
        self.counters.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Still holding the log's lock: both keep the same order.
        let mut state = self.state.write();
        for (at, written) in locations.into_iter().zip(written) {
            state.active.apply(at, written);
            log.roster.add(written.listed(at));
        }
        Ok(count)
    }

    /// Whether a flush must end before more is written.
    fn is_full(&self) -> bool {
        let state = self.state.read();
        state.dirty_bytes() >= 2 * self.options.dirty_bytes_max.max(1)
            || self.recent_bytes.load(Ordering::Relaxed) >= 2 * self.options.recent_bytes_max
            || self.is_due(&state) && (state.frozen.is_some() || self.merges_lag(&state))
    }

    /// Whether the active layer should be flushed.
    fn is_due(&self, state: &State) -> bool {
        let Self { options, .. } = self;
        self.recent_bytes.load(Ordering::Relaxed) >= options.recent_bytes_max
            || state.active.len() >= RECENT_ENTRIES_MAX
            || state.active.dirty().memory_bytes() >= options.dirty_bytes_max.max(1)
    }

    fn flush_if_due(&self) {
        let is_due = self.is_due(&self.state.read());
        if is_due {
            self.work.want(|wanted| wanted.flush = true);
        }
    }

    /// Fails once a failure has left the disk's content unknown.
    fn check_writable(&self) -> Result<(), StoreError> {
        self.poisoned.get().map_or(Ok(()), |reason| Err(out_of_order(reason)))
    }

    /// Converts the error. After a failure that leaves the disk's content unknown, all further writes are
    /// refused.
    fn fail(&self, error: WriteError) -> StoreError {
        match error {
            WriteError::NoSpace(error) => StoreError::NoSpace(error.to_string()),
            WriteError::Shortage(error) => StoreError::Io(error.to_string()),
            WriteError::Broken(error) => {
                let reason = self.poisoned.get_or_init(|| {
                    tracing::error!("writing aggregates failed, none are written until a restart: {error}");
                    error.to_string()
                });
                out_of_order(reason)
            }
        }
    }

    /// Makes all that was written before durable.
    fn sync(&self) -> Result<(), StoreError> {
        self.write_back()?;
        // A flush may have frozen some of the heads meanwhile.
        self.wait_for_flush()?;
        self.sync_log()
    }

    /// Writes the active layer's dirty heads to the log, many to a frame.
    fn write_back(&self) -> Result<(), StoreError> {
        const FRAME_HEADS: usize = 256;
        // By metric: meanwhile a head may move to another place, and a flush may begin another layer.
        let metrics = self.state.read().active.dirty().metrics();
        for metrics in metrics.chunks(FRAME_HEADS) {
            // Release the log in between: passes wait for it.
            let mut log = self.log.lock();
            let (frame, written) = {
                let state = self.state.read();
                let dirty = |metric: &MetricId| Some((*metric, state.active.dirty_head(*metric)?));
                let heads: Vec<(MetricId, &[u8])> = metrics.iter().filter_map(dirty).collect();
                if heads.is_empty() {
                    continue;
                }
                recent::encode_heads(&heads)
            };
            // The log of measures gives back more in the end.
            self.append_some(&mut log, &mut [frame], &[written], Claim::Relief)?;
        }
        Ok(())
    }

    /// Makes what the log has durable.
    pub(super) fn sync_log(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.syncing.lock();
        let (point, listed) = {
            let mut log = self.log.lock();
            self.check_writable()?;
            if !std::mem::take(&mut log.is_unsynced) {
                return Ok(());
            }
            (log.log.sync_point(), log.roster.take())
        };
        // Release the log's lock, so that writes go on meanwhile.
        point.segment.sync().map_err(|error| self.fail(WriteError::Broken(error)))?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let mut log = self.log.lock();
        // Linux reports a write-back error to one fsync only; the sync of a full segment may have consumed
        // it. That sync kept the log locked until `poisoned` was set.
        self.check_writable()?;
        log.log.synced(&point);
        log.roster.write(&listed);
        match log.log.mark() {
            // The mark only helps to distinguish damage from a torn end.
            Ok(()) | Err(WriteError::NoSpace(_) | WriteError::Shortage(_)) => Ok(()),
            Err(error) => Err(self.fail(error)),
        }
    }
}

fn out_of_order(reason: &str) -> StoreError {
    StoreError::Io(format!("the aggregate store is out of order: {reason}"))
}

#[async_trait]
impl AggregateStore for LocalAggregates {
    fn fault(&self) -> Option<Fault> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            return Some(Fault::Ended("a background thread of the aggregate store"));
        }
        let reason = self.shared.poisoned.get()?;
        Some(Fault::OutOfOrder(format!("no aggregates are written: {reason}")))
    }

    fn damaged(&self) -> u64 {
        self.shared.quarantine.found()
    }

    fn heads_exceed_memory(&self) -> bool {
        let max = self.shared.options.dirty_bytes_max;
        // While space is short the log of measures must be trimmed.
        max > 0 && self.shared.state.read().dirty_bytes() >= max / 2 && !self.shared.reserve.is_short()
    }

    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        self.shared.read_heads(metrics)
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        self.shared.read_blocks(ranges)
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        self.shared.list_blocks(ranges)
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        self.fences.raise(fence).map_err(|held| StoreError::refused(fence, held))
    }

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        if let Err(held) = self.fences.check(fence) {
            return vec![Err(StoreError::refused(fence, held)); writes.len()];
        }
        if let Err(error) = self.shared.wait_for_room().await {
            return vec![Err(error); writes.len()];
        }
        self.shared.write(writes)
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        if let Err(held) = self.fences.check(fence) {
            return vec![Err(StoreError::refused(fence, held)); metrics.len()];
        }
        match self.shared.wait_for_room().await {
            // Deletions free space.
            Ok(()) | Err(StoreError::NoSpace(_)) => {}
            Err(error) => return vec![Err(error); metrics.len()],
        }
        let frames = metrics.iter().copied().map(recent::encode_deletion).collect();
        let deleted = self.shared.append(frames, Claim::Relief);
        let synced = self.blocking(Shared::sync_log).await;
        deleted.into_iter().map(|deleted| deleted.and(synced.clone())).collect()
    }

    async fn sync(&self) -> Result<(), StoreError> {
        // It may write many heads; callers include requests that change a policy.
        self.blocking(Shared::sync).await
    }
}
