//! Merges runs, so that reads touch few tables and superseded values are dropped.
//!
//! A merge does not change what readers see, so it needs no fence, and any process that has written to a shard may do
//! it: if two merge the same runs, the chain of manifests accepts the first. In memory are a stretch of each input
//! table, and the tables being written; so large merges are few at a time.

use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;

use super::{
    chain::{Change, Effect, Shard},
    manifest::{Garbage, Manifest, Run},
    requests::Requests,
    table::{STRETCH_BYTES, Stop},
    write::{RunWriter, check_floor},
};
use crate::aggregates::{
    Result,
    table::{
        levels::{Level, Levels, Limits, Plan},
        merge::{Lost, Merge, Step},
    },
};

/// See [`Limits::size_ratio`]: requests matter more than space.
const SIZE_RATIO: u64 = 2;

/// The change that replaces the merged runs.
struct Replacement<'a> {
    plan: &'a Plan<Run>,
    /// The new run of each output; it may have no tables.
    runs: &'a [Run],
    now_ms: u64,
}

impl Change for Replacement<'_> {
    fn apply(&self, draft: &mut Manifest) -> Result<Effect> {
        let runs = self.runs.iter().map(|run| Some(run.clone()).filter(|run| !run.tables.is_empty()));
        if !draft.runs.replace(self.plan, runs) {
            // This process or another has merged them.
            return Ok(Effect::IsThere);
        }
        self.runs.iter().try_for_each(|run| check_floor(run, draft.floor_ms))?;
        let garbage = self.plan.runs.all().flat_map(|run| &run.tables);
        let garbage = garbage.map(|table| Garbage {
            name: table.name.clone(),
            version: table.version,
            since_ms: self.now_ms,
        });
        draft.garbage.extend(garbage);
        Ok(Effect::Changed)
    }
}

impl Requests {
    /// Performs the next merge, if one is due; returns whether it was. A large one that finds others running is due again
    /// after the next write.
    pub async fn merge(&self, shard: &Shard) -> Result<bool> {
        let _lock = shard.merging.lock().await;
        let Some(manifest) = shard.known() else { return Ok(false) };
        let Some(plan) = self.to_merge(shard, &manifest) else { return Ok(false) };
        let is_large = plan.runs.all().map(Run::bytes).sum::<u64>() > self.options.table_bytes_max / 8;
        let permits = u32::from(is_large);
        let _room = match self.large_merges.try_acquire_many(permits) {
            Ok(room) => room,
            Err(_) if plan.runs.new.is_empty() => return Ok(false),
            // Writers wait for merges of new runs.
            Err(_) => self.large_merges.acquire_many(permits).await.expect("never closed"),
        };
        let mut merged = self.merged(shard, &plan, false).await;
        if matches!(merged, Err(Stop::Gone)) {
            shard.invalidate();
            if self.newest(shard).await?.id != manifest.id {
                // Another process has merged them, and the old tables were removed.
                return Ok(false);
            }
            // A table is lost: merge the others without it.
            merged = self.merged(shard, &plan, true).await;
        }
        let runs = match merged {
            Ok(runs) => runs,
            Err(Stop::Gone) => return Ok(false),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let Some(runs) = runs else { return Ok(true) };
        let change = Replacement { plan: &plan, runs: &runs, now_ms: self.now().wall_ms };
        let manifest = self.commit(shard, &change).await?;
        let names = runs.iter().flat_map(|run| &run.tables).map(|table| &table.name);
        let unnamed: Vec<String> = names.filter(|name| !manifest.knows(name)).cloned().collect();
        if !unnamed.is_empty() {
            // Another process was first: these tables were never named. Or this one was suspended after its
            // commit, and they were merged since; others may be valid.
            for name in &unnamed {
                self.cache.remove(name);
            }
            self.remove(&unnamed).await?;
            return Ok(true);
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.counters.merged_bytes.fetch_add(runs.iter().map(Run::bytes).sum(), Ordering::Relaxed);
        for table in plan.runs.all().flat_map(|run| &run.tables) {
            self.cache.remove(&table.name);
        }
        Ok(true)
    }

    /// The next merge, of the first level that needs one.
    fn to_merge(&self, shard: &Shard, manifest: &Manifest) -> Option<Plan<Run>> {
        let damaged = shard.damaged.lock();
        let has_lost = |run: &Run| run.tables.iter().any(|table| damaged.contains(&table.name));
        let limits = Limits {
            merged_min: self.options.merged_runs_min,
            runs_max: self.options.runs_max,
            size_ratio: SIZE_RATIO,
        };
        let due = |level| manifest.runs.to_merge(level, limits, Run::bytes, has_lost);
        Level::ALL.into_iter().find_map(due)
    }

    /// Writes the tables of the merged runs, one run for each output; `None` if a merge would lose something. `last`: a
    /// missing table counts as lost.
    async fn merged(&self, shard: &Shard, plan: &Plan<Run>, last: bool) -> Result<Option<Vec<Run>>, Stop> {
        let tables = |runs: &Vec<Run>| {
            let run = |run: Run| async move {
                try_join_all(run.tables.iter().map(|table| self.table(table, last))).await
            };
            try_join_all(runs.iter().cloned().map(run))
        };
        let Levels { new, heads, blocks } = &plan.runs;
        let (new, heads, blocks) = tokio::try_join!(tables(new), tables(heads), tables(blocks))?;
        let runs = Levels { new, heads, blocks };
        let note_lost = || {
            let lost = runs.all().flatten().filter(|table| table.has_gaps());
            let names: Vec<String> = lost.map(|table| table.site.object.name.clone()).collect();
            let any = !names.is_empty();
            shard.damaged.lock().extend(names);
            any
        };
        if note_lost() {
            return Ok(None);
        }
        let mut outputs: Vec<_> =
            plan.outputs.iter().map(|output| (*output, RunWriter::new(self, shard))).collect();
        let mut merging = Merge::new(runs.clone(), STRETCH_BYTES);
        loop {
            match merging.step() {
                Ok(Step::Read { run, table, first, last }) => {
                    let pages = self.read_pages(&table, first, last).await?;
                    merging.feed(run, pages);
                }
                Ok(Step::Entry(entry)) => {
                    for (_, writer) in outputs.iter_mut().filter(|(output, _)| entry.belongs_to(*output)) {
                        writer.push(entry.key, entry.kind, &entry.value).await?;
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
