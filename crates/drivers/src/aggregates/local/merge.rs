//! Merges runs of similar size, so that their number stays small and superseded values are dropped.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Shared,
    free_space::{Guarded, MayUse},
    run::{Range, Run, RunName, RunWriter, STRETCH_BYTES},
};
use crate::{
    aggregates::{
        key::Key,
        table::{
            entry::Kind,
            levels::{Level, Levels, Limits, Output, Plan},
            merge::{Lost, Merge, Step},
        },
    },
    disk::if_there,
};

/// The minimum number of runs in a merge.
const RUNS_MERGED_MIN: usize = 4;
/// At this many runs the newest are merged, whatever their sizes.
const RUNS_MAX: usize = 12;
/// See [`Limits::size_ratio`]. Heads are written more often than blocks, and superseded by the next. Of blocks most of the
/// space is at stake: `examples/expired_blocks.rs` measures it.
const SIZE_RATIO: u64 = 2;
const BLOCKS_SIZE_RATIO: u64 = 4;
/// Delay before a failed merge is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How often the free space is checked again.
const SPACE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that merges new runs, and heads.
pub(super) fn run(shared: &Shared) {
    while shared.work.wait_at_most(SPACE_POLL_INTERVAL, |wanted| std::mem::take(&mut wanted.merge)) {
        shared.merge_due(&[Level::New, Level::Heads]);
        shared.make_room();
    }
}

/// The thread that merges blocks: these merges take long, and reads of heads do not need them.
pub(super) fn run_blocks(shared: &Shared) {
    while shared.work.wait_at_most(SPACE_POLL_INTERVAL, |wanted| std::mem::take(&mut wanted.merge_blocks)) {
        shared.merge_due(&[Level::Blocks]);
    }
}

/// Takes an entry for an output, which is given by its number in the plan.
pub(super) type Push<'a> = &'a mut dyn FnMut(usize, Key, Kind, &[u8]) -> io::Result<()>;

/// A merge of runs.
pub(super) type ToMerge = Plan<Arc<Run>>;

impl Shared {
    fn merge_due(&self, levels: &[Level]) {
        while !self.work.stopped() {
            // Before the choice: a merge for room removes runs of blocks, too.
            let lock = levels.contains(&Level::Blocks).then(|| self.merging_blocks.lock());
            let Some(plan) = levels.iter().find_map(|level| self.next_merge(*level)) else { return };
            let merged = self.merge(&plan, MayUse::Free);
            drop(lock);
            if let Err(error) = merged {
                tracing::warn!("runs could not be merged, trying again: {error}");
                self.work.pause(RETRY_PAUSE);
            }
        }
    }

    /// The next merge of a level.
    pub(super) fn to_merge(&self, level: Level) -> Option<ToMerge> {
        let size_ratio = if level == Level::Blocks { BLOCKS_SIZE_RATIO } else { SIZE_RATIO };
        let limits = Limits { merged_min: RUNS_MERGED_MIN, runs_max: RUNS_MAX, size_ratio };
        self.state.read().runs.to_merge(level, limits, |run| run.bytes, |run| run.table.has_gaps())
    }

    pub(super) fn merge(&self, plan: &ToMerge, may_use: MayUse) -> io::Result<Copied> {
        let writer = |output: &Output| {
            let name = RunName { level: output.level, range: range_of(plan, output.level) };
            // The merged runs are removed by their names.
            assert!(plan.runs.all().all(|run| run.name != name), "a merge writes wider runs than it reads");
            Ok((*output, RunWriter::create(Arc::clone(&self.disk), &self.runs_dir, name)?))
        };
        let mut writers = plan.outputs.iter().map(writer).collect::<io::Result<Vec<_>>>()?;
        let copied = self.copy(plan, &mut |output, key, kind, value| {
            let (_, writer) = &mut writers[output];
            Guarded { writer, reserve: &self.reserve, may_use }.push(key, kind, value)
        });
        if !matches!(copied, Ok(Copied::Everything)) {
            for (_, writer) in writers {
                writer.abandon();
            }
            return copied;
        }
        // Write them even if nothing is left: they supersede the merged runs if a crash interrupts their removal. Blocks
        // come first: see `opening`.
        let mut writers = writers.into_iter();
        let mut named = Vec::new();
        let finish = |(_, writer): (Output, RunWriter)| {
            let name = writer.name();
            named.push(self.runs_dir.join(name.file()));
            self.counters.run_bytes.fetch_add(writer.finish()?, Ordering::Relaxed);
            let run = Run::open(&*self.disk, &self.runs_dir, name, &self.quarantine);
            Ok(Some(Arc::new(run.map_err(io::Error::other)?)))
        };
        let runs: io::Result<Vec<_>> = writers.by_ref().map(finish).collect();
        if runs.is_err() {
            writers.for_each(|(_, writer)| writer.abandon());
            self.take_back(&named);
        }
        let runs = runs?;
        {
            // Flushes and separations may have added newer runs meanwhile.
            let levels = &mut self.state.write().runs;
            assert!(levels.replace(plan, runs.into_iter()), "only this thread removes these runs");
            // Otherwise the next start takes one for the other's successor.
            let are_apart = |runs: &Vec<Arc<Run>>| {
                runs.is_sorted_by(|one, next| one.name.range.high < next.name.range.low)
            };
            assert!(Level::ALL.iter().all(|level| are_apart(levels.get(*level))), "runs of a level overlap");
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.work.want(|wanted| wanted.merge_blocks = true);
        for run in plan.runs.all() {
            if let Err(error) = self.disk.remove(run.path()) {
                tracing::warn!(
                    "{} is merged, but could not be removed before the next start: {error}",
                    run.path().display()
                );
            }
        }
        Ok(Copied::Everything)
    }

    /// Removes the outputs of a failed merge, the blocks last, also after a power cut. Retries until they are gone, or the store
    /// stops: the next attempt may merge more, under other names, and its outputs would overlap what is left of these.
    fn take_back(&self, outputs: &[PathBuf]) {
        for path in outputs.iter().rev() {
            let remove = || if_there(self.disk.remove(path)).and_then(|_| self.disk.sync_dir(&self.runs_dir));
            while let Err(error) = remove() {
                if self.work.stopped() {
                    return;
                }
                tracing::warn!(
                    "{}, the output of a failed merge, could not be removed: {error}",
                    path.display()
                );
                self.work.pause(RETRY_PAUSE);
            }
        }
    }

    /// Passes the newest entry of each key to `push`, with the number of each output that needs it.
    pub(super) fn copy(&self, plan: &ToMerge, push: Push<'_>) -> io::Result<Copied> {
        let tables = |runs: &Vec<Arc<Run>>| runs.iter().map(|run| vec![Arc::clone(&run.table)]).collect();
        let Levels { new, heads, blocks } = &plan.runs;
        let runs = Levels { new: tables(new), heads: tables(heads), blocks: tables(blocks) };
        let mut merge = Merge::new(runs, STRETCH_BYTES);
        while !self.work.stopped() {
            match merge.step() {
                Ok(Step::Read { run, table, first, last }) => {
                    let pages = table.site.read_pages(&table.index, first, last).map_err(io::Error::other)?;
                    merge.feed(run, pages);
                }
                Ok(Step::Entry(entry)) => {
                    for (number, output) in plan.outputs.iter().enumerate() {
                        if entry.belongs_to(*output) {
                            push(number, entry.key, entry.kind, &entry.value)?;
                        }
                    }
                }
                Ok(Step::Done) => return Ok(Copied::Everything),
                Err(Lost) => break,
            }
        }
        Ok(Copied::Aborted)
    }
}

/// The segments that a merge's output of a level covers: those of the level's runs, and of the new ones.
fn range_of(plan: &ToMerge, level: Level) -> Range {
    let ranges = plan.runs.get(level).iter().chain(&plan.runs.new).map(|run| run.name.range);
    ranges
        .reduce(|one, next| Range { low: one.low.min(next.low), high: one.high.max(next.high) })
        .expect("there are runs")
}

/// The result of [`Shared::copy`].
pub(super) enum Copied {
    Everything,
    /// On stop, or because a run has lost entries.
    Aborted,
}
