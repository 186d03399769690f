//! Merges runs of similar size, so that their number stays small and superseded values are dropped.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Shared,
    room::{Guarded, MayUse},
    run::{Range, Run, RunWriter, STRETCH_BYTES},
};
use crate::aggregates::{
    key::Key,
    table::{
        entry::Kind,
        merge::{Lost, Merge, Step, choose},
    },
};

/// The minimum number of runs in a merge.
const RUNS_MERGED_MIN: usize = 4;
/// At this many runs the newest are merged, whatever their sizes.
const RUNS_MAX: usize = 12;
/// Delay before a failed merge is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How often the free space is checked again.
const SPACE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The merging thread.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait_at_most(SPACE_POLL_INTERVAL, |wanted| std::mem::take(&mut wanted.merge)) {
        while let Some(runs) = shared.next_merge() {
            if let Err(error) = shared.merge(&runs, MayUse::Free) {
                tracing::warn!("runs could not be merged, trying again: {error}");
                shared.work.pause(RETRY_PAUSE);
            }
            if shared.work.stopped() {
                return;
            }
        }
        shared.make_room();
    }
}

/// The index of the oldest run that may be merged. A run with lost entries stays as it is, and separates
/// older runs from newer ones.
pub(super) fn mergeable_from(runs: &[Arc<Run>]) -> usize {
    runs.iter().rposition(|run| run.table.has_gaps()).map_or(0, |at| at + 1)
}

impl Shared {
    /// The next runs to merge, oldest first, and whether there are older ones.
    pub(super) fn to_merge(&self) -> Option<ToMerge> {
        let runs = &self.state.read().runs;
        let sizes: Vec<u64> = runs[mergeable_from(runs)..].iter().map(|run| run.bytes).collect();
        let count = choose(&sizes, RUNS_MERGED_MIN, RUNS_MAX);
        let first = runs.len() - count;
        (count > 0).then(|| ToMerge { runs: runs[first..].to_vec(), is_oldest: first == 0 })
    }

    pub(super) fn merge(&self, merged: &ToMerge, may_use: MayUse) -> io::Result<()> {
        let (oldest, newest) = (&merged.runs[0], &merged.runs[merged.runs.len() - 1]);
        let range = Range { low: oldest.range.low, high: newest.range.high };
        let mut writer = RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, range)?;
        let copied = self.copy(merged, &mut Guarded { writer: &mut writer, reserve: &self.reserve, may_use });
        if !matches!(copied, Ok(Copied::Everything)) {
            writer.abandon();
            return copied.map(|_| ());
        }
        // Write it even if nothing is left: it supersedes the merged runs if a crash interrupts their
        // removal.
        let bytes = writer.finish()?;
        self.counters.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        let run =
            Run::open(&*self.disk, &self.runs_dir, range, &self.quarantine).map_err(io::Error::other)?;
        {
            let runs = &mut self.state.write().runs;
            // Flushes may have added newer runs meanwhile.
            let at =
                runs.iter().position(|run| Arc::ptr_eq(run, oldest)).expect("only this thread removes runs");
            runs.splice(at..at + merged.runs.len(), [Arc::new(run)]);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        for run in &merged.runs {
            if let Err(error) = self.disk.remove(run.path()) {
                tracing::warn!(
                    "{} is merged, but could not be removed before the next start: {error}",
                    run.path().display()
                );
            }
        }
        Ok(())
    }

    /// Writes the newest entry of each key.
    pub(super) fn copy(&self, merged: &ToMerge, writer: &mut impl Sink) -> io::Result<Copied> {
        let tables = merged.runs.iter().map(|run| vec![Arc::clone(&run.table)]).collect();
        let mut merge = Merge::new(tables, STRETCH_BYTES);
        while !self.work.stopped() {
            match merge.step() {
                Ok(Step::Read { run, first, last, .. }) => {
                    let pages = merged.runs[run].read_pages(first, last).map_err(io::Error::other)?;
                    merge.feed(run, pages);
                }
                Ok(Step::Entry(_, Kind::Tombstone, _)) if merged.is_oldest => {}
                Ok(Step::Entry(key, kind, value)) => writer.push(key, kind, &value)?,
                Ok(Step::Done) => return Ok(Copied::Everything),
                Err(Lost) => break,
            }
        }
        Ok(Copied::Aborted)
    }
}

/// The result of [`Shared::copy`].
pub(super) enum Copied {
    Everything,
    /// On stop, or because a run has lost entries.
    Aborted,
}

pub(super) struct ToMerge {
    /// Oldest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// Whether there is no older run.
    pub(super) is_oldest: bool,
}

/// Receives a merge's entries in order.
pub(super) trait Sink {
    fn push(&mut self, key: Key, kind: Kind, value: &[u8]) -> io::Result<()>;
}
