//! What is written when, while disk space is short.
//!
//! A merge waits until its output fits beside the reserve. How long that is, the sizes of the merged runs bound; where those do
//! not fit, it is found by merging without writing. While space is short, deletions are flushed early, and runs are merged
//! whatever their sizes if that gives space back. Such merges, and flushes, may use the reserve while they last.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use gnudi_model::MetricId;
use parking_lot::Mutex;

use super::{
    Shared,
    merge::{Sink, ToMerge},
    run::{Range, RunWriter},
};
use crate::{
    aggregates::{
        StoreError,
        entry::{self, Kind},
        key::Key,
    },
    reserve::{Loan, Reserve},
};

/// What a merge gives back at least, as a part of its input.
const GAIN_PART: u64 = 16;
/// What the index and the filter of a run take for an entry, at most: [`super::run`].
const ENTRY_EXTRA_BYTES: u64 = 52;
/// Header, footer and what filters are rounded up by.
const RUN_EXTRA_BYTES: u64 = 4096;
/// Of how many merges the output is remembered.
const OUTPUTS_MAX: usize = 64;

/// Merges that wait for space: whether one does now.
#[derive(Default)]
pub(super) struct Waiting {
    now: AtomicBool,
    /// Merges that had to wait, since the start.
    waited: AtomicU64,
    /// How long the output of merges is, by the runs: runs do not change.
    outputs: Mutex<HashMap<Vec<Range>, u64>>,
}

impl Waiting {
    /// Whether a merge waits now, and how many have waited since the start.
    pub(super) fn figures(&self) -> (bool, u64) {
        (self.now.load(Ordering::Relaxed), self.waited.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// The merge that is due, if there is room for it.
    pub(super) fn next_merge(&self) -> Option<ToMerge> {
        let due = self.to_merge();
        if due.is_none() {
            self.waiting.now.store(false, Ordering::Relaxed);
        }
        due.filter(|merged| self.has_room_for(merged))
    }

    /// Whether there is room for a merge beside the reserve. Says once in the log that one waits.
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

    /// While space is short: has deletions flushed, and merges runs that give space back.
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
            // It wakes this thread again.
            self.work.want(|wanted| wanted.flush = true);
            return;
        }
        match self.merge_for_room() {
            Ok(()) => {}
            Err(error) => tracing::warn!("no space could be given back by merging, trying again: {error}"),
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

    /// The merges that may give space back, widest first: all runs from some run on, where a newer one deletes.
    fn suffixes(&self) -> Vec<ToMerge> {
        let runs = &self.state.read().runs;
        let start = super::merge::mergeable_from(runs);
        (start..runs.len().saturating_sub(1))
            .filter(|first| runs[first + 1..].iter().any(|run| run.marks > 0))
            .map(|first| ToMerge { runs: runs[first..].to_vec(), is_oldest: first == 0 })
            .collect()
    }

    /// How long the run that a merge makes will be, at most. Reads all that is merged, the first time.
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

    /// Room for a run of so many bytes that gives space back in the end: from the reserve, for as long as the answer is kept, where
    /// there is none beside it.
    pub(super) fn room_for(&self, bytes: u64) -> Result<Option<Loan>, StoreError> {
        if self.reserve.has_room_beside(bytes) {
            return Ok(None);
        }
        // Files that only wait to be written again come first.
        self.log.lock().log.drop_spares(0).map_err(|error| StoreError::Io(error.to_string()))?;
        if self.reserve.has_room_beside(bytes) {
            return Ok(None);
        }
        if self.reserve.has_room_within(bytes) {
            return Ok(Some(self.reserve.lend()));
        }
        let refusal = self.reserve.refusal(io::ErrorKind::StorageFull.into());
        Err(StoreError::NoSpace(format!("a run takes {bytes} bytes; {refusal}")))
    }

    /// The metrics that were deleted since the layer that is being flushed was set apart. Nothing of them need be written, once
    /// their deletions are durable.
    pub(super) fn deleted_since(&self) -> Result<HashSet<MetricId>, StoreError> {
        let deleted = self.state.read().active.deleted().clone();
        if !deleted.is_empty() {
            self.sync()?;
        }
        Ok(deleted)
    }
}

impl ToMerge {
    fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

/// What space a run is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayUse {
    /// What is free beside the reserve.
    Free,
    /// The reserve, too.
    Reserve,
}

/// Writes a run for as long as there is space for it: not when the reserve is given up for others.
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

/// Takes the entries of a run and only counts their bytes, with those of the index and the filter.
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
