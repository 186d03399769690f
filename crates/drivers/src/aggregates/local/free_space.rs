//! Scheduling of writes while disk space is short.
//!
//! A merge waits until its output fits beside the reserve. The sizes of the merged runs bound the output; if
//! those do not fit, a dry run of the merge finds its size. While space is short, deletions are flushed
//! early, and runs of any size are merged if that frees space. Such merges and flushes may use the reserve
//! while they last.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gnudi_model::MetricSet;
use parking_lot::Mutex;

use super::{
    Shared,
    merge::{Copied, ToMerge},
    run::{Run, RunName, RunWriter},
};
use crate::{
    aggregates::{
        StoreError,
        key::Key,
        table::{
            entry::{Kind, entry_bytes},
            levels::{Level, Levels, Output, Plan, mergeable_from},
        },
    },
    reserve::{Loan, Reserve},
};

/// A merge for space must free at least 1/`GAIN_PART` of its input.
const GAIN_PART: u64 = 16;
/// Upper bound of an entry's share of a run's index and filter: see [`super::run`].
const ENTRY_EXTRA_BYTES: u64 = 52;
/// Header, footer and the rounding up of filters.
const RUN_EXTRA_BYTES: u64 = 4096;
/// How many merges' output sizes are cached.
const OUTPUTS_MAX: usize = 64;

/// State of merges that wait for space.
#[derive(Default)]
pub(super) struct Waiting {
    /// For each level.
    now: [AtomicBool; 3],
    /// Merges that had to wait, since the start.
    waited: AtomicU64,
    /// Cached output sizes of merges, by their runs, which are immutable.
    outputs: Mutex<HashMap<Vec<RunName>, u64>>,
    /// Merges for space that gained nothing or had no room, by their oldest runs: each has all newer ones, too.
    futile: Mutex<HashMap<Vec<RunName>, Futile>>,
}

/// A merge that gained too little or had no room.
struct Futile {
    input: u64,
    output: u64,
    marks: u64,
}

impl Waiting {
    /// Whether a merge waits now, and how many have waited since the start.
    pub(super) fn figures(&self) -> (bool, u64) {
        (self.is_any(), self.waited.load(Ordering::Relaxed))
    }

    /// Whether a merge waits now.
    pub(super) fn is_any(&self) -> bool {
        self.now.iter().any(|now| now.load(Ordering::Relaxed))
    }

    /// Sets whether a merge of the level waits; returns whether one did.
    fn waits(&self, level: Level, waits: bool) -> bool {
        self.now[level as usize].swap(waits, Ordering::Relaxed)
    }
}

impl Shared {
    /// The next merge of a level, if there is room for it.
    pub(super) fn next_merge(&self, level: Level) -> Option<ToMerge> {
        let due = self.to_merge(level);
        if due.is_none() {
            self.waiting.waits(level, false);
        }
        due.filter(|plan| self.has_room_for(plan, level))
    }

    /// Whether a merge fits beside the reserve. Logs once that one waits.
    fn has_room_for(&self, plan: &ToMerge, level: Level) -> bool {
        let bytes = input_bytes(plan);
        let fits = self.reserve.has_room_beside(bytes)
            || self.output_bytes(plan).is_ok_and(|output| self.reserve.has_room_beside(output));
        let was_waiting = self.waiting.waits(level, !fits);
        if !fits && !was_waiting {
            self.waiting.waited.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "merging {} files of aggregates waits for space: they have {bytes} bytes, and {} are free",
                plan.runs.all().count(),
                self.reserve.figures().free_bytes
            );
        }
        fits
    }

    /// While space is short: flushes deletions, and merges runs if that frees space.
    pub(super) fn make_room(&self) {
        let is_stuck = matches!(*self.stuck.lock(), Some(StoreError::NoSpace(_)));
        if !is_stuck && !self.reserve.is_short() && !self.waiting.is_any() {
            return;
        }
        let has_deletions = {
            let state = self.state.read();
            state.frozen.is_none() && !state.active.deleted().is_empty()
        };
        if has_deletions {
            // The flush wakes this thread again.
            self.work.want(|wanted| wanted.flush = true);
            return;
        }
        match self.merge_for_room() {
            Ok(()) => {}
            Err(error) => tracing::warn!("merging could not free space, retrying: {error}"),
        }
    }

    fn merge_for_room(&self) -> io::Result<()> {
        let _lock = self.merging_blocks.lock();
        for plan in &self.plans_for_room() {
            if self.stays_futile(plan) {
                continue;
            }
            let (input, output) = (input_bytes(plan), self.output_bytes(plan)?);
            if self.work.stopped() {
                return Ok(());
            }
            if gains(input, output) && self.reserve.has_room_within(output) {
                let _loan = self.room_for(output).map_err(|error| io::Error::other(error.to_string()))?;
                if matches!(self.merge(plan, MayUse::Reserve)?, Copied::Everything) {
                    tracing::info!(
                        "{} files of aggregates with {input} bytes were merged to free space: {output} are left",
                        plan.runs.all().count()
                    );
                    return Ok(());
                }
            }
            let mut futile = self.waiting.futile.lock();
            if futile.len() >= OUTPUTS_MAX {
                futile.clear();
            }
            futile.insert(oldest(plan), Futile { input, output, marks: marks(plan) });
        }
        Ok(())
    }

    /// Whether a merge was futile, and still is: each flush adds a run to it, and to find its output all input is read. It
    /// is tried again after deletions, once it has grown by what it must gain, and once it has room.
    fn stays_futile(&self, plan: &ToMerge) -> bool {
        self.waiting.futile.lock().get(&oldest(plan)).is_some_and(|found| {
            let Futile { input, output, marks: before } = *found;
            let lacks_room = || !self.reserve.has_room_within(output);
            marks(plan) <= before
                && input_bytes(plan) < input + input / GAIN_PART
                && (!gains(input, output) || lacks_room())
        })
    }

    /// Merges that may free space, the widest first: all runs from some run on, if a newer one has deletions. New runs
    /// join the heads and blocks that they void.
    fn plans_for_room(&self) -> Vec<ToMerge> {
        let runs = &self.state.read().runs;
        let first = |level| mergeable_from(runs.get(level), |run: &Arc<Run>| run.table.has_gaps());
        let is_separable = first(Level::New) == 0;
        let new = if is_separable { &runs.new[..] } else { &[] };
        let mut plans = Vec::new();
        let (heads, blocks) = (first(Level::Heads), first(Level::Blocks));
        let widest = (runs.heads.len() - heads).max(runs.blocks.len() - blocks);
        for skipped in 0..=widest {
            let from = |level: Level, first: usize| {
                let (first, count) = (first + skipped, runs.get(level).len());
                // A run alone would be written under its own name.
                if new.is_empty() && first + 1 == count { count } else { first.min(count) }
            };
            let (heads, blocks) = (from(Level::Heads, heads), from(Level::Blocks, blocks));
            let merged = Levels {
                new: new.to_vec(),
                heads: runs.heads[heads..].to_vec(),
                blocks: runs.blocks[blocks..].to_vec(),
            };
            let output = |(level, first)| {
                let has_input = !merged.new.is_empty() || !merged.get(level).is_empty();
                has_input.then_some(Output { level, is_oldest: first == 0 })
            };
            let outputs =
                [(Level::Blocks, blocks), (Level::Heads, heads)].into_iter().filter_map(output).collect();
            plans.push(Plan { runs: merged, outputs });
        }
        if !is_separable {
            let first = first(Level::New);
            plans.extend((first..runs.new.len()).map(|first| runs.plan(Level::New, first)));
        }
        plans.retain(|plan| plan.runs.all().count() > 1 && marks(plan) > 0);
        plans
    }

    /// Upper bound of a merge's output in bytes. If the merge is impossible because a run has lost entries, the bound is
    /// the size of the input. Reads all input, the first time.
    fn output_bytes(&self, plan: &ToMerge) -> io::Result<u64> {
        let names: Vec<RunName> = plan.runs.all().map(|run| run.name).collect();
        if let Some(bytes) = self.waiting.outputs.lock().get(&names) {
            return Ok(*bytes);
        }
        let mut bytes = RUN_EXTRA_BYTES * plan.outputs.len() as u64;
        let copied = self.copy(plan, &mut |_, _, _, value| {
            bytes += entry_bytes(value.len()) as u64 + ENTRY_EXTRA_BYTES;
            Ok(())
        })?;
        let bytes = match copied {
            Copied::Everything => bytes,
            Copied::Aborted => input_bytes(plan),
        };
        if !self.work.stopped() {
            let mut outputs = self.waiting.outputs.lock();
            if outputs.len() >= OUTPUTS_MAX {
                outputs.clear();
            }
            outputs.insert(names, bytes);
        }
        Ok(bytes)
    }

    /// Makes room for a run of `bytes` that frees space in the end. Uses the reserve, while the loan is held,
    /// if there is no room beside it.
    pub(super) fn room_for(&self, bytes: u64) -> Result<Option<Loan>, StoreError> {
        if self.reserve.has_room_beside(bytes) {
            return Ok(None);
        }
        // Remove spare files first.
        self.log.lock().log.drop_spares(0).map_err(|error| StoreError::Io(error.to_string()))?;
        if self.reserve.has_room_beside(bytes) {
            return Ok(None);
        }
        if self.reserve.has_room_within(bytes) {
            return Ok(Some(self.reserve.lend()));
        }
        let refusal = self.reserve.refusal(io::ErrorKind::StorageFull.into());
        Err(StoreError::NoSpace(format!("a run needs {bytes} bytes; {refusal}")))
    }

    /// The metrics deleted since the layer being flushed was frozen. Their entries need not be written once
    /// the deletions are durable.
    pub(super) fn deleted_since(&self) -> Result<MetricSet, StoreError> {
        let deleted = self.state.read().active.deleted().clone();
        if !deleted.is_empty() {
            self.sync_log()?;
        }
        Ok(deleted)
    }
}

fn input_bytes(plan: &ToMerge) -> u64 {
    plan.runs.all().map(|run| run.bytes).sum()
}

/// Whether a merge frees enough space.
fn gains(input: u64, output: u64) -> bool {
    output + input / GAIN_PART <= input
}

/// The number of deletions in the merged runs.
fn marks(plan: &ToMerge) -> u64 {
    plan.runs.all().map(|run| run.table.index.marks).sum()
}

/// The oldest heads and blocks of a merge, or the oldest new run if it has neither.
fn oldest(plan: &ToMerge) -> Vec<RunName> {
    let Levels { new, heads, blocks } = &plan.runs;
    let mut oldest: Vec<RunName> =
        [heads, blocks].iter().filter_map(|runs| Some(runs.first()?.name)).collect();
    if oldest.is_empty() {
        oldest.extend(new.first().map(|run| run.name));
    }
    oldest
}

/// The space that a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayUse {
    /// Only what is free beside the reserve.
    Free,
    /// Also the reserve.
    Reserve,
}

/// Writes a run; fails once the reserve is released for others.
pub(super) struct Guarded<'a> {
    pub(super) writer: &'a mut RunWriter,
    pub(super) reserve: &'a Reserve,
    pub(super) may_use: MayUse,
}

impl Guarded<'_> {
    pub(super) fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()> {
        if self.may_use == MayUse::Free && !self.reserve.is_held() {
            return Err(self.reserve.refusal(io::ErrorKind::StorageFull.into()));
        }
        self.writer.push(key, kind, value)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gnudi_model::{MetricId, Timespan, Timestamp};
    use uuid::Uuid;

    use super::{
        super::{LocalAggregates, LocalAggregatesOptions, run::Range, runs_dir},
        *,
    };
    use crate::{
        aggregates::{AggregateStore as _, BlockKey, Fence, MetricWrite},
        disk::LocalDisk,
    };

    fn metric(id: u128) -> MetricId {
        MetricId(Uuid::from_u128(id + 1))
    }

    const BLOCKS: RunName = RunName { level: Level::Blocks, range: Range { low: 1, high: 4 } };

    /// Of ten metrics eight were deleted.
    fn write_runs(dir: &Path) {
        let runs = runs_dir(dir);
        std::fs::create_dir_all(&runs).unwrap();
        let block = |id| {
            let (first, last) = (Timestamp::from_secs(0), Timestamp::from_secs(59));
            Key::block(&BlockKey { metric: metric(id), granularity: Timespan::from_secs(1), first, last })
        };
        let put = |name, kind, keys: Vec<Key>, value: &[u8]| {
            let mut writer = RunWriter::create(Arc::new(LocalDisk), &runs, name).unwrap();
            for key in keys {
                writer.push(key, kind, value).unwrap();
            }
            writer.finish().unwrap();
        };
        let heads = (8..10).map(|id| Key::head(metric(id))).collect();
        put(RunName { level: Level::Heads, range: Range { low: 1, high: 8 } }, Kind::Value, heads, b"head");
        put(BLOCKS, Kind::Value, (0..10).map(block).collect(), &vec![7; 20_000]);
        let marks = (0..8).map(|id| Key::deletion(metric(id))).collect();
        put(RunName { range: Range { low: 5, high: 8 }, ..BLOCKS }, Kind::Tombstone, marks, b"");
    }

    fn open(dir: &Path) -> Arc<LocalAggregates> {
        let options = LocalAggregatesOptions { segment_bytes: 1 << 16, ..LocalAggregatesOptions::default() };
        LocalAggregates::open(dir, &options).unwrap()
    }

    /// While runs of blocks are merged, a run of heads alone stays as it is.
    #[tokio::test]
    async fn a_run_that_is_alone_in_its_level_stays() {
        let dir = tempfile::tempdir().unwrap();
        write_runs(dir.path());
        let store = open(dir.path());
        store.shared.merge_for_room().unwrap();
        let figures = store.figures();
        assert_eq!((figures.merges, figures.runs), (1, 2));
        drop(store);
        for head in open(dir.path()).read_heads(&[metric(8), metric(9)]).await {
            assert_eq!(head.unwrap().as_deref(), Some(&b"head"[..]));
        }
    }

    /// A flush changes all merges.
    #[tokio::test]
    async fn what_frees_no_space_is_read_again_after_deletions() {
        let dir = tempfile::tempdir().unwrap();
        write_runs(dir.path());
        let store = open(dir.path());
        let delete = async |id| {
            for answer in store.delete(Fence::EVERYTHING, &[metric(id)]).await {
                answer.unwrap();
            }
            store.shared.flush().unwrap();
        };
        let seek = || {
            store.shared.merge_for_room().unwrap();
            (store.figures().merges, store.shared.waiting.outputs.lock().len())
        };
        let (merges, read) = seek();
        // It has nothing.
        delete(20).await;
        let found = seek();
        assert!(merges == 1 && found.0 == 1 && found.1 > read, "{found:?}");
        let head = MetricWrite::of_head(metric(8), "head");
        store.write(Fence::EVERYTHING, vec![head]).await.remove(0).unwrap();
        store.shared.flush().unwrap();
        assert_eq!(seek(), (1, found.1 + 1), "only the new runs are read");
        delete(9).await;
        assert_eq!(seek().0, 2);
    }

    /// The entries in a gap are unknown, so the output cannot be assumed to be smaller than the input.
    #[tokio::test]
    async fn a_merge_with_lost_entries_frees_no_space() {
        let dir = tempfile::tempdir().unwrap();
        write_runs(dir.path());
        let path = runs_dir(dir.path()).join(BLOCKS.file());
        let mut bytes = std::fs::read(&path).unwrap();
        let third = bytes.len() / 3;
        bytes[third..2 * third].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        let store = open(dir.path());
        let plan = store.shared.plans_for_room().remove(0);
        assert_eq!(store.shared.output_bytes(&plan).unwrap(), input_bytes(&plan));
        store.shared.merge_for_room().unwrap();
        let figures = store.figures();
        assert_eq!((figures.merges, figures.runs), (0, 3));
    }
}
