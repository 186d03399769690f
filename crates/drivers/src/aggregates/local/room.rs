//! Scheduling of writes while disk space is short.
//!
//! A merge waits until its output fits beside the reserve. The sizes of the merged runs bound the output; if
//! those do not fit, a dry run of the merge finds its size. While space is short, deletions are flushed
//! early, and runs of any size are merged if that frees space. Such merges and flushes may use the reserve
//! while they last.

use std::{
    collections::HashMap,
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use gnudi_model::MetricSet;
use parking_lot::Mutex;

use super::{
    Shared,
    merge::{Sink, ToMerge},
    run::{Range, RunWriter},
};
use crate::{
    aggregates::{
        StoreError,
        key::Key,
        table::entry::{self, Kind},
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
    now: AtomicBool,
    /// Merges that had to wait, since the start.
    waited: AtomicU64,
    /// Cached output sizes of merges, by their runs, which are immutable.
    outputs: Mutex<HashMap<Vec<Range>, u64>>,
}

impl Waiting {
    /// Whether a merge waits now, and how many have waited since the start.
    pub(super) fn figures(&self) -> (bool, u64) {
        (self.now.load(Ordering::Relaxed), self.waited.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// The next merge, if there is room for it.
    pub(super) fn next_merge(&self) -> Option<ToMerge> {
        let due = self.to_merge();
        if due.is_none() {
            self.waiting.now.store(false, Ordering::Relaxed);
        }
        due.filter(|merged| self.has_room_for(merged))
    }

    /// Whether a merge fits beside the reserve. Logs once that one waits.
    fn has_room_for(&self, merged: &ToMerge) -> bool {
        let bytes = merged.bytes();
        let fits = self.reserve.has_room_beside(bytes)
            || self.output_bytes(merged).is_ok_and(|output| self.reserve.has_room_beside(output));
        let was_waiting = self.waiting.now.swap(!fits, Ordering::Relaxed);
        if !fits && !was_waiting {
            self.waiting.waited.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "merging {} files of aggregates waits for space: they have {bytes} bytes, and {} are free",
                merged.runs.len(),
                self.reserve.figures().free_bytes
            );
        }
        fits
    }

    /// While space is short: flushes deletions, and merges runs if that frees space.
    pub(super) fn make_room(&self) {
        let is_stuck = matches!(*self.stuck.lock(), Some(StoreError::NoSpace(_)));
        if !is_stuck && !self.reserve.is_short() && !self.waiting.now.load(Ordering::Relaxed) {
            return;
        }
        let has_deletions = {
            let state = self.state.read();
            state.frozen.is_none() && state.active.has_deletions()
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
        for merged in &self.suffixes() {
            let (input, output) = (merged.bytes(), self.output_bytes(merged)?);
            if self.work.stopped() {
                return Ok(());
            }
            let gains = output + input / GAIN_PART <= input;
            if gains && self.reserve.has_room_within(output) {
                let _loan = self.room_for(output).map_err(|error| io::Error::other(error.to_string()))?;
                self.merge(merged, MayUse::Reserve)?;
                tracing::info!(
                    "{} files of aggregates with {input} bytes were merged to give space back: {output} are left",
                    merged.runs.len()
                );
                return Ok(());
            }
        }
        Ok(())
    }

    /// Merges that may free space, widest first: all runs from some run on, if a newer one has deletions.
    fn suffixes(&self) -> Vec<ToMerge> {
        let runs = &self.state.read().runs;
        let start = super::merge::mergeable_from(runs);
        (start..runs.len().saturating_sub(1))
            .filter(|first| runs[first + 1..].iter().any(|run| run.table.index.marks > 0))
            .map(|first| ToMerge { runs: runs[first..].to_vec(), is_oldest: first == 0 })
            .collect()
    }

    /// Upper bound of a merge's output in bytes. Reads all input, the first time.
    fn output_bytes(&self, merged: &ToMerge) -> io::Result<u64> {
        let ranges: Vec<Range> = merged.runs.iter().map(|run| run.range).collect();
        if let Some(bytes) = self.waiting.outputs.lock().get(&ranges) {
            return Ok(*bytes);
        }
        let mut length = Length::default();
        self.copy(merged, &mut length)?;
        let bytes = length.bytes + RUN_EXTRA_BYTES;
        if !self.work.stopped() {
            let mut outputs = self.waiting.outputs.lock();
            if outputs.len() >= OUTPUTS_MAX {
                outputs.clear();
            }
            outputs.insert(ranges, bytes);
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

impl ToMerge {
    fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
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

impl Sink for Guarded<'_> {
    fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()> {
        if self.may_use == MayUse::Free && !self.reserve.is_held() {
            return Err(self.reserve.refusal(io::ErrorKind::StorageFull.into()));
        }
        self.writer.push(key, kind, value)
    }
}

/// Counts the bytes of a run's entries, index and filter without writing.
#[derive(Default)]
struct Length {
    bytes: u64,
    entry: Vec<u8>,
}

impl Sink for Length {
    fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()> {
        self.entry.clear();
        entry::put(&mut self.entry, &key, kind, value);
        self.bytes += self.entry.len() as u64 + ENTRY_EXTRA_BYTES;
        Ok(())
    }
}
