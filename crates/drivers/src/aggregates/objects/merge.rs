//! Merges runs, so that reads touch few tables and superseded values are dropped.
//!
//! A merge does not change what readers see, so it needs no fence, and any process that has written to a shard may do
//! it: if two merge the same runs, the chain of manifests accepts the first. In memory are a stretch of each input
//! table, and the tables being written.

use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;

use super::{
    chain::{Change, Effect, Shard},
    manifest::{Garbage, Level, Manifest, Run},
    requests::Requests,
    table::Stop,
    write::{RunWriter, check_floor},
};
use crate::aggregates::{
    Result,
    table::{
        entry::Kind,
        merge::{Lost, Merge, Step, choose},
    },
};

/// How much of a table is read at once.
const STRETCH_BYTES: u64 = 4 << 20;

/// Runs of one level, one after another.
struct ToMerge {
    level: Level,
    /// Oldest first.
    runs: Vec<Run>,
    /// The levels of the output, each with whether no older run is there.
    outputs: Vec<(Level, bool)>,
}

/// The change that replaces the merged runs.
struct Merged<'a> {
    merge: &'a ToMerge,
    /// The new run of each output; it may have no tables.
    runs: &'a [Run],
    now_ms: u64,
}

impl Change for Merged<'_> {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        let ToMerge { level, runs: old, outputs } = self.merge;
        // If the old runs are gone, this process or another has merged them.
        let place = draft.runs(*level).windows(old.len()).position(|runs| runs == old);
        let Some(at) = place else { return Ok(Effect::IsThere) };
        draft.runs_mut(*level).drain(at..at + old.len());
        for ((output, _), run) in outputs.iter().zip(self.runs).filter(|(_, run)| !run.tables.is_empty()) {
            check_floor(run, draft)?;
            let runs = draft.runs_mut(*output);
            // A run that changes its level is the newest there.
            runs.insert(if output == level { at } else { runs.len() }, run.clone());
        }
        let garbage = old.iter().flat_map(|run| &run.tables);
        let garbage = garbage.map(|table| Garbage { name: table.name.clone(), since_ms: self.now_ms });
        draft.garbage.extend(garbage.collect::<Vec<_>>());
        Ok(Effect::Changed)
    }
}

impl Requests {
    /// Performs the next merge, if one is due; returns whether it was.
    pub async fn merge(&self, shard: &Shard) -> Result<bool> {
        let _lock = shard.merging.lock().await;
        let Some(manifest) = shard.known() else { return Ok(false) };
        let due = |level: &Level| self.to_merge(shard, &manifest, *level);
        let Some(merge) = Level::ALL.iter().find_map(due) else { return Ok(false) };
        let mut merged = self.merged(shard, &merge, false).await;
        if matches!(merged, Err(Stop::Gone)) {
            shard.invalidate();
            if self.newest(shard).await?.id != manifest.id {
                // Another process has merged them, and the old tables were removed.
                return Ok(false);
            }
            // A table is lost: merge the others without it.
            merged = self.merged(shard, &merge, true).await;
        }
        let runs = match merged {
            Ok(runs) => runs,
            Err(Stop::Gone) => return Ok(false),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let Some(runs) = runs else { return Ok(true) };
        let names: Vec<String> =
            runs.iter().flat_map(|run| &run.tables).map(|table| table.name.clone()).collect();
        let change = Merged { merge: &merge, runs: &runs, now_ms: self.now().wall_ms };
        let manifest = self.commit(shard, &change).await?;
        if !names.iter().all(|name| manifest.knows(name)) {
            // Another process was first. These tables were never named.
            names.iter().for_each(|name| self.cache.remove(name));
            self.remove(&names).await?;
            return Ok(true);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.counters.merged_bytes.fetch_add(runs.iter().map(Run::bytes).sum(), Ordering::Relaxed);
        merge.runs.iter().flat_map(|run| &run.tables).for_each(|table| self.cache.remove(&table.name));
        Ok(true)
    }

    /// The next merge of a level. New runs are separated into heads and blocks.
    fn to_merge(&self, shard: &Shard, manifest: &Manifest, level: Level) -> Option<ToMerge> {
        // A run with lost entries stays as it is, and separates older runs from newer ones, which must stay behind it.
        let damaged = shard.damaged.lock();
        let has_lost = |run: &Run| run.tables.iter().any(|table| damaged.contains(&table.name));
        let all = manifest.runs(level);
        let start = all.iter().rposition(has_lost).map_or(0, |at| at + 1);
        let runs = &all[start..];
        let sizes: Vec<u64> = runs.iter().map(Run::bytes).collect();
        let is_separated = level == Level::New && start == 0;
        let count = match is_separated {
            true if runs.len() >= self.options.merged_runs_min => runs.len(),
            true => 0,
            false => choose(&sizes, self.options.merged_runs_min, self.options.runs_max).min(runs.len()),
        };
        let outputs = match is_separated {
            true => {
                vec![(Level::Heads, manifest.heads.is_empty()), (Level::Blocks, manifest.blocks.is_empty())]
            }
            false => vec![(level, level != Level::New && count == all.len())],
        };
        (count > 1).then(|| ToMerge { level, runs: runs[runs.len() - count..].to_vec(), outputs })
    }

    /// Writes the tables of the merged runs, one run for each output; `None` if a merge would lose something. `last`: a
    /// missing table counts as lost.
    async fn merged(&self, shard: &Shard, merge: &ToMerge, last: bool) -> Result<Option<Vec<Run>>, Stop> {
        let tables =
            merge.runs.iter().map(|run| try_join_all(run.tables.iter().map(|table| self.table(table, last))));
        let runs = try_join_all(tables).await?;
        let note_lost = || {
            let lost = runs.iter().flatten().filter(|table| table.has_gaps());
            let names: Vec<String> = lost.map(|table| table.site.object.name.clone()).collect();
            let any = !names.is_empty();
            shard.damaged.lock().extend(names);
            any
        };
        if note_lost() {
            return Ok(None);
        }
        let mut outputs: Vec<_> =
            merge.outputs.iter().map(|output| (*output, RunWriter::new(self, shard))).collect();
        let mut merging = Merge::new(runs.clone(), STRETCH_BYTES);
        loop {
            match merging.step() {
                Ok(Step::Read { run, table, first, last }) => {
                    let pages = self.read_pages(&table, first, last).await?;
                    merging.feed(run, pages);
                }
                Ok(Step::Entry(key, kind, value)) => {
                    for ((level, is_oldest), writer) in &mut outputs {
                        let is_theirs = match level {
                            Level::New => true,
                            Level::Heads => key.is_head() || key.is_deletion(),
                            Level::Blocks => !key.is_head(),
                        };
                        // There is nothing older to hide. Damaged entries stay: they differ from absent ones.
                        if is_theirs && !(kind == Kind::Tombstone && *is_oldest) {
                            writer.push(key, kind, &value).await?;
                        }
                    }
                }
                Ok(Step::Done) => break,
                Err(Lost) => {
                    note_lost();
                    return Ok(None);
                }
            }
        }
        let finished = outputs.into_iter().map(|(_, writer)| writer.finish());
        Ok(Some(try_join_all(finished).await?))
    }
}
