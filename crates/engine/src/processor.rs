//! A pass over a sack: reads its backlog, folds it metric by metric (`folding`), writes heads and blocks,
//! acknowledges. While heads do not fit in memory, a pass defers what it has read (`deferred`), and acknowledges: it is
//! folded later, with more measures of its metrics.
//!
//! Order of folding: read heads -> convert those of metrics with another policy (`conversion`) -> fold, merge
//! late points (`late`) -> write blocks and heads, each head with its applied position -> revoke the ends of
//! measured resources -> acknowledge. A crash anywhere replays the records, and heads ignore those already
//! applied. `metricd` decides when a pass runs.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
    time::Instant,
};

use gnudi_drivers::{
    aggregates::{AggregateStore, BlockKey, BlockRange, Fence, MetricWrite, StoreError},
    incoming::{Consume, Pending, Position, Record},
};
use gnudi_indexer::{Indexer, IndexerError, MeasuredResources, revive_measured};
use gnudi_model::{ArchivePolicy, Measure, Metric, MetricId, Sack, Text, Timestamp};
use gnudi_series::{
    head::{FoldOutcome, Head, Layout},
    raw, removal,
};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::{
    EngineError, Result,
    damage::StoredHead,
    deferral::Patience,
    figures::Figures,
    folding::{Folded, Work, Writing},
    units::{Progress, Unit, Units},
};

/// How much of a sack one pass reads: limits the memory of a pass.
const PASS_BYTES_MAX: usize = 8 << 20;
/// How many heads a pass holds at once, and all passes together for each worker. With granularities of a second a head
/// has up to 32 KiB.
pub(crate) const PASS_HEADS_MAX: usize = 2048;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassOutcome {
    pub measures: u64,
    /// Whether more records may follow.
    pub more: bool,
}

pub struct Processor {
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) incoming: Arc<dyn Consume>,
    pub(crate) store: Arc<dyn AggregateStore>,
    pub(crate) units: Arc<Units>,
    /// Permits for the heads that all passes hold.
    heads: Semaphore,
    pub(crate) figures: Figures,
    /// Of readers that wait for passes.
    pub(crate) patience: Patience,
    clock: fn() -> Timestamp,
    /// Set by tests.
    pub(crate) fold: OnceLock<Fold>,
}

/// Folds a request's points into a head: [`Head::fold`], unless a test replaces it.
pub type Fold = fn(&mut Head, &Layout, u64, &mut Vec<Measure>) -> FoldOutcome;

/// The records of one metric in a pass.
pub(crate) struct Group {
    pub(crate) metric: MetricId,
    pub(crate) resource_id: Option<Uuid>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) records: Range<usize>,
}

/// What a pass must know of a metric.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) resource_id: Option<Uuid>,
    /// The index of its policy's name.
    policy: usize,
}

/// The names of the policies of a pass's metrics: few.
#[derive(Default)]
pub(crate) struct Policies(Vec<Text>);

impl Policies {
    fn known(&mut self, metric: &Metric) -> Known {
        let name = &metric.archive_policy_name;
        let policy = self.0.iter().position(|known| Text::ptr_eq(known, name) || known == name);
        let policy = policy.unwrap_or_else(|| {
            self.0.push(name.clone());
            self.0.len() - 1
        });
        Known { resource_id: metric.resource_id, policy }
    }
}

impl Processor {
    pub(crate) fn new(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Consume>,
        store: Arc<dyn AggregateStore>,
        units: Arc<Units>,
        clock: fn() -> Timestamp,
    ) -> Self {
        // For requests that refresh; `allow_workers` adds the workers' share.
        let heads = Semaphore::new(PASS_HEADS_MAX);
        Processor {
            indexer,
            incoming,
            store,
            units,
            heads,
            figures: Figures::default(),
            patience: Patience::default(),
            clock,
            fold: OnceLock::new(),
        }
    }

    /// Allows that many passes of [`PASS_HEADS_MAX`] heads at once, or more smaller ones.
    pub(crate) fn allow_workers(&self, workers: usize) {
        self.heads.add_permits(workers * PASS_HEADS_MAX);
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Processes the unit until everything accepted before the call is folded or deferred; false if this process
    /// does not own it, or the sacks are renumbered.
    pub async fn process_all(&self, unit: Sack) -> Result<bool> {
        let numbering = self.incoming.numbering();
        let unit = self.units.get(unit).filter(|unit| unit.fence.sack.count == numbering.units());
        let Some(unit) = unit else { return Ok(false) };
        let sacks = numbering.sacks_of_unit(unit.fence.sack.id);
        let newest = self.incoming.positions(&sacks).await?;
        for (sack, positions) in sacks.into_iter().zip(newest) {
            // While the unit drains, its old sack was sealed before its newest position was read.
            loop {
                {
                    let Some(mut progress) = unit.lock().await else { return Ok(false) };
                    if self.taken(sack, &mut progress).await? >= positions.newest {
                        break;
                    }
                }
                // Readers get their turn between passes.
                let passed = match self.lock_for_pass(&unit).await {
                    Ok(Some(mut progress)) => self.pass(&unit, sack, &mut progress).await,
                    Ok(None) => return Ok(false),
                    Err(error) => Err(error),
                };
                match passed {
                    Ok(outcome) if outcome.more => {}
                    Ok(_) => break,
                    Err(EngineError::Store(error)) if error.is_refusal() => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// One pass over the unit, once no other runs; does nothing if this process does not own it.
    pub async fn process(&self, unit: &Arc<Unit>) -> Result<PassOutcome> {
        let mut outcome = PassOutcome::default();
        let Some(mut progress) = self.lock_for_pass(unit).await? else { return Ok(outcome) };
        // Before reading: once the numbering is known to drain, the old sack gets no more records.
        let numbering = self.incoming.numbering();
        let own = unit.fence.sack;
        if numbering.units() != own.count {
            return Ok(outcome);
        }
        for sack in numbering.sacks_of_unit(own.id) {
            if progress.drained.contains(&sack) {
                continue;
            }
            let passed = self.pass(unit, sack, &mut progress).await?;
            outcome.measures += passed.measures;
            outcome.more = passed.more;
            if outcome.more {
                break;
            }
            if numbering.draining && sack == own {
                if !self.incoming.positions(&[sack]).await?[0].is_idle() {
                    outcome.more = true;
                    break;
                }
                progress.drained.insert(sack);
            }
        }
        if outcome.measures == 0 {
            // An acknowledgement in a drained sack may have been lost since: the next pass looks at it, too.
            progress.drained.clear();
        }
        Ok(outcome)
    }

    async fn taken(&self, sack: Sack, progress: &mut Progress) -> Result<Position> {
        if let Some(position) = progress.taken.get(&sack) {
            return Ok(*position);
        }
        let acknowledged = self.incoming.positions(&[sack]).await?[0].acknowledged;
        progress.taken.insert(sack, acknowledged);
        Ok(acknowledged)
    }

    async fn pass(&self, unit: &Arc<Unit>, sack: Sack, progress: &mut Progress) -> Result<PassOutcome> {
        let started = Instant::now();
        let after = self.taken(sack, progress).await?;
        let Pending { mut records, more } = self.incoming.pending(sack, after, PASS_BYTES_MAX).await?;
        let Some(up_to) = records.last().map(|record| record.position) else {
            // Otherwise the sack would not be idle before its next record, and a split never, since an old sack gets no more.
            self.incoming.acknowledge_again(sack, after).await?;
            return Ok(PassOutcome::default());
        };
        let measures = records.iter().map(|record| u64::from(record.measures)).sum();
        // Stable: keeps the order of a metric's records.
        records.sort_by_key(|record| record.metric.0.as_u128());
        let defers = self.defers(progress);
        let done = if defers {
            self.defer(unit.fence, records, &mut progress.deferred).await
        } else {
            self.apply_and_revive(unit.fence, &records).await
        };
        Figures::add(&self.figures.pass_time_us, started.elapsed().as_micros() as u64);
        if let Err(error) = done {
            self.pass_failed(unit, &error);
            return Err(error);
        }
        Figures::add(&self.figures.passes, 1);
        if defers {
            // Before anything fails: they must not be deferred twice.
            progress.taken.insert(sack, up_to);
        }
        self.incoming.acknowledge(sack, up_to).await?;
        progress.taken.insert(sack, up_to);
        Ok(PassOutcome { measures, more })
    }

    /// Counts a failed pass, and closes the unit if another process has it.
    pub(crate) fn pass_failed(&self, unit: &Arc<Unit>, error: &EngineError) {
        Figures::add(&self.figures.passes_failed, 1);
        if matches!(error, EngineError::Store(error) if error.is_refusal()) {
            self.units.lose(unit);
        }
    }

    /// Applies records sorted by metric, and revokes the ends of measured resources.
    async fn apply_and_revive(&self, fence: Fence, records: &[Record]) -> Result<()> {
        let seen = self.apply_in_rounds(fence, records).await?;
        // Before acknowledging: a failure replays the records.
        self.revive(seen).await
    }

    pub(crate) async fn revive(&self, seen: MeasuredResources) -> Result<()> {
        let revived = revive_measured(&*self.indexer, seen, self.now()).await?;
        Figures::add(&self.figures.resources_revived, revived);
        Ok(())
    }

    /// Applies records sorted by metric. A removal is a round of its own, since it changes stored blocks.
    pub(crate) async fn apply_in_rounds(
        &self,
        fence: Fence,
        records: &[Record],
    ) -> Result<MeasuredResources> {
        if !records.iter().any(|record| removal::is_removal(&record.points)) {
            return self.apply(fence, records).await;
        }
        let mut seen = MeasuredResources::new();
        for round in rounds(records) {
            let (removals, points): (Vec<Record>, Vec<Record>) =
                round.into_iter().partition(|record| removal::is_removal(&record.points));
            self.apply_removals(fence, &removals).await?;
            seen.extend(self.apply(fence, &points).await?);
        }
        Ok(seen)
    }

    async fn apply_removals(&self, fence: Fence, removals: &[Record]) -> Result<()> {
        let groups = self.groups(removals).await?;
        for group in groups {
            let record = &removals[group.records.start];
            if let Some(write) = self.remove_measures(fence, group, record).await? {
                self.write(fence, vec![write]).await?;
            }
        }
        Ok(())
    }

    /// Folds records sorted by metric into heads, and writes those; returns what resources were measured.
    pub(crate) async fn apply(&self, fence: Fence, records: &[Record]) -> Result<MeasuredResources> {
        let mut seen = MeasuredResources::new();
        for groups in self.groups(records).await?.chunks(PASS_HEADS_MAX) {
            seen.extend(self.apply_groups(fence, records, groups).await?);
        }
        Ok(seen)
    }

    async fn apply_groups(
        &self,
        fence: Fence,
        records: &[Record],
        groups: &[Group],
    ) -> Result<MeasuredResources> {
        let ids: Vec<MetricId> = groups.iter().map(|group| group.metric).collect();
        let _permits = self.heads.acquire_many(ids.len() as u32).await.expect("never closed");
        let heads = self.store.read_own_heads(fence, &ids).await;
        let outdated = self.outdated(groups, &heads).await?;
        let mut converted = Vec::new();
        let mut folding = Folding::default();
        let mut points = Vec::new();
        let mut others = Vec::new();
        for (group, head) in groups.iter().zip(&heads) {
            let records = &records[group.records.clone()];
            // A request without points requests a check for another policy, which the cache may not have yet.
            let asks = records.iter().any(|record| record.measures == 0);
            let is_outdated = matches!(head, Ok(None)) && is_among(&group.layout, &outdated);
            if asks
                || is_outdated
                || !folding.take(group, self.fold_group(group, head, records, &mut points)?)
            {
                others.push((group, head));
            }
        }
        for (group, head) in others {
            converted.extend(self.convert(fence, group, head).await?);
        }
        for (group, head) in &converted {
            let records = &records[group.records.clone()];
            let is_taken = folding.take(group, self.fold_group(group, head, records, &mut points)?);
            debug_assert!(is_taken, "a converted head fits");
        }
        let Folding { mut writes, mut overdue, seen, late } = folding;
        for Writing { write, overdue: more } in self.merge_late(late).await? {
            writes.push(write);
            overdue.extend(more);
        }
        writes.sort_by_key(|write| write.metric);
        self.add_expired(&mut writes, &overdue).await?;
        Figures::add(&self.figures.heads_written, writes.len() as u64);
        Figures::add(&self.figures.blocks_sealed, writes.iter().map(|write| write.blocks.len() as u64).sum());
        self.write(fence, writes).await?;
        Ok(seen)
    }

    /// The layouts of metrics without a head that are not those of their policies: another process may have deleted a
    /// policy and created one of the same name, while the cache has the former. A head that fits no longer is converted,
    /// but a first head made for the former policy would lack what the new one has. One metric of a layout is enough,
    /// since its policy cannot be deleted while it exists.
    async fn outdated(&self, groups: &[Group], heads: &[StoredHead]) -> Result<Vec<Arc<Layout>>> {
        let (mut current, mut outdated) = (Vec::<Arc<Layout>>::new(), Vec::<Arc<Layout>>::new());
        for (group, head) in groups.iter().zip(heads) {
            let layout = &group.layout;
            if !matches!(head, Ok(None)) || is_among(layout, &current) || is_among(layout, &outdated) {
                continue;
            }
            let found = match self.indexer.current_metric(group.metric).await {
                Err(IndexerError::DamagedMetric { .. } | IndexerError::DamagedItem { .. }) => None,
                found => found?,
            };
            if let Some((_, policy)) = found {
                let list = if Layout::of(&policy) == **layout { &mut current } else { &mut outdated };
                list.push(layout.clone());
            }
        }
        Ok(outdated)
    }

    /// Attempts all writes; a failure fails the pass, which is then replayed: the written heads ignore it.
    pub(crate) async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Result<()> {
        let failures = self.store.write(fence, writes).await.into_iter().filter_map(Result::err);
        // A lost unit is the more important error.
        let worst = failures.max_by_key(StoreError::is_refusal);
        Ok(worst.map_or(Ok(()), Err)?)
    }

    /// Groups sorted records by metric and finds each metric's policy; drops those of deleted metrics.
    async fn groups(&self, records: &[Record]) -> Result<Vec<Group>> {
        let ranges = ranges(records);
        let ids: Vec<MetricId> = ranges.iter().map(|(metric, _)| *metric).collect();
        let (known, policies) = self.known(&ids).await?;
        let mut layouts = Vec::with_capacity(policies.0.len());
        for name in &policies.0 {
            layouts.push(Arc::new(Layout::of(&*self.policy(name).await?)));
        }
        let mut groups = Vec::with_capacity(ranges.len());
        for ((metric, range), known) in ranges.into_iter().zip(known) {
            let Some(Known { resource_id, policy }) = known else {
                let orphaned = records[range].iter().map(|record| u64::from(record.measures)).sum();
                Figures::add(&self.figures.measures_orphaned, orphaned);
                continue;
            };
            groups.push(Group { metric, resource_id, layout: layouts[policy].clone(), records: range });
        }
        Ok(groups)
    }

    /// What a pass must know of the metrics; `None` for those that are deleted, or damaged in the index.
    pub(crate) async fn known(&self, ids: &[MetricId]) -> Result<(Vec<Option<Known>>, Policies)> {
        let mut policies = Policies::default();
        let mut known = vec![None; ids.len()];
        self.indexer.visit_cached_metrics(ids, &mut |index, metric| {
            known[index] = Some(policies.known(metric));
        });
        let mut missing: Vec<usize> = (0..ids.len()).filter(|index| known[*index].is_none()).collect();
        while !missing.is_empty() {
            let wanted: Vec<MetricId> = missing.iter().map(|index| ids[*index]).collect();
            match self.indexer.metrics(&wanted).await {
                Err(IndexerError::DamagedMetric { id, reason }) => {
                    report_damaged(id, &reason);
                    missing.retain(|index| ids[*index] != id);
                }
                found => {
                    for (index, metric) in missing.drain(..).zip(found?) {
                        known[index] = metric.map(|metric| policies.known(&metric));
                    }
                }
            }
        }
        Ok((known, policies))
    }

    async fn policy(&self, name: &str) -> Result<Arc<ArchivePolicy>> {
        self.indexer.archive_policy(name).await?.ok_or_else(|| {
            // A policy in use cannot be deleted, so the index was changed by other means.
            IndexerError::NoSuchArchivePolicy(name.to_string()).into()
        })
    }

    /// Adds the removal of these ranges' blocks to the writes, which are sorted by metric: at most one call
    /// to the store.
    async fn add_expired(&self, writes: &mut [MetricWrite], overdue: &[BlockRange]) -> Result<()> {
        if overdue.is_empty() {
            return Ok(());
        }
        for (range, keys) in overdue.iter().zip(self.store.list_blocks(overdue).await) {
            let mut keys: Vec<BlockKey> = keys?.into_iter().filter(|key| key.last <= range.to).collect();
            if range.granularity == raw::GRANULARITY {
                // It has the point before the oldest kept one.
                keys.pop();
            }
            let place = writes.binary_search_by_key(&range.metric, |write| write.metric);
            writes[place.expect("a range belongs to a write")].expired.extend(keys);
        }
        Ok(())
    }
}

/// The results of folding so far.
#[derive(Default)]
struct Folding<'a> {
    writes: Vec<MetricWrite>,
    overdue: Vec<BlockRange>,
    seen: MeasuredResources,
    late: Vec<(&'a Group, Head)>,
}

impl<'a> Folding<'a> {
    /// Takes a metric's result, if any; false if its head must be converted first.
    fn take(&mut self, group: &'a Group, folded: Option<Folded>) -> bool {
        let Some(Folded { work, latest }) = folded else { return true };
        match work {
            Work::Write(writing) => {
                self.writes.push(writing.write);
                self.overdue.extend(writing.overdue);
            }
            Work::MergeLate(head) => self.late.push((group, *head)),
            Work::Convert => return false,
        }
        self.seen.extend(group.resource_id.zip(latest));
        true
    }
}

/// Layouts of a pass are the same if their policies are.
fn is_among(layout: &Arc<Layout>, layouts: &[Arc<Layout>]) -> bool {
    layouts.iter().any(|known| Arc::ptr_eq(known, layout))
}

/// A metric that is damaged in the index must not stop the others of its sack.
pub(crate) fn report_damaged(metric: MetricId, reason: &str) {
    tracing::error!(%metric, reason, "waiting measures are dropped: the metric is damaged in the index");
}

/// The range of each metric in records that are sorted by metric.
pub(crate) fn ranges(records: &[Record]) -> Vec<(MetricId, Range<usize>)> {
    let mut ranges: Vec<(MetricId, Range<usize>)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        match ranges.last_mut() {
            Some((metric, range)) if *metric == record.metric => range.end = index + 1,
            _ => ranges.push((record.metric, index..index + 1)),
        }
    }
    ranges
}

/// Splits records sorted by metric into rounds: in a round each metric has either one removal or only points,
/// and a metric's rounds are in the order of its records.
fn rounds(records: &[Record]) -> Vec<Vec<Record>> {
    let mut rounds: Vec<Vec<Record>> = Vec::new();
    for of_metric in records.chunk_by(|a, b| a.metric == b.metric) {
        let is_points = |record: &Record| !removal::is_removal(&record.points);
        let parts = of_metric.chunk_by(|a, b| is_points(a) && is_points(b));
        for (round, part) in parts.enumerate() {
            if rounds.len() == round {
                rounds.push(Vec::new());
            }
            rounds[round].extend_from_slice(part);
        }
    }
    rounds
}
