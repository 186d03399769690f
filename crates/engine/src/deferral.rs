//! Defers measures while heads do not fit in memory ([`crate::deferred`]), and folds them: when a unit has too many, at
//! checkpoints, and of single metrics when they are read.
//!
//! 1. A pass over a unit defers if the store asks for it, or if the unit has deferred measures already: those of a
//!    metric are folded in the order of their positions. Only if this process alone has the unit.
//! 2. Requests other than for points are applied at once, after what is deferred of their metrics.
//! 3. A deferred measure is acknowledged, and readers see it: before a head is read, its metric's deferred measures are
//!    folded.
//! 4. A sack is trimmed only to a position that was read before its deferred measures were folded, and synced. A start
//!    after a crash finds the others in the log.

use std::{collections::HashSet, ops::Range, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use gnudi_drivers::{aggregates::Fence, incoming::Record};
use gnudi_indexer::MeasuredResources;
use gnudi_model::{MetricId, Sack, SackId};
use gnudi_series::points;
use parking_lot::Mutex;
use tokio::{
    sync::MutexGuard,
    time::{Instant, timeout_at},
};
use uuid::Uuid;

use crate::{
    EngineError, Result,
    deferred::Deferred,
    figures::Figures,
    folding::panic_text,
    processor::{PASS_HEADS_MAX, Processor, ranges},
    units::{Progress, Unit},
};

/// How long a reader waits for passes over the units of its metrics.
const READER_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long readers wait soon after one has waited in vain. A query across many metrics has many readers, whose waits
/// would add up.
const READER_WAIT_SHORT: Duration = Duration::from_millis(100);

/// So many measures of a metric in one pass are folded at once.
const FOLDED_AT_ONCE: u64 = 4;

/// Remembers when a reader last waited in vain.
#[derive(Debug, Default)]
pub(crate) struct Patience(Mutex<Option<Instant>>);

impl Patience {
    /// How long a reader that begins now may wait.
    fn wait(&self, now: Instant) -> Duration {
        let is_recent = self.0.lock().is_some_and(|gave_up| now < gave_up + READER_WAIT_MAX);
        if is_recent { READER_WAIT_SHORT } else { READER_WAIT_MAX }
    }

    /// Records that a reader has given up after waiting for `waited`.
    fn gave_up(&self, waited: Duration) {
        // Short waits are not recorded, so that another reader tries a long one soon.
        if waited == READER_WAIT_MAX {
            *self.0.lock() = Some(Instant::now());
        }
    }
}

impl Processor {
    /// Whether a pass over the unit defers.
    pub(crate) fn defers(&self, progress: &Progress) -> bool {
        // Another owner of a unit would not know what this process has deferred.
        !self.units.are_leased() && (self.store.heads_exceed_memory() || !progress.deferred.is_empty())
    }

    /// Locks a unit for a pass, with room for what the pass defers; `None` if the unit was closed. While what is
    /// deferred is folded to make room, readers get their turn.
    pub(crate) async fn lock_for_pass<'a>(
        &self,
        unit: &'a Arc<Unit>,
    ) -> Result<Option<MutexGuard<'a, Progress>>> {
        let Some(progress) = unit.lock().await else { return Ok(None) };
        if !progress.deferred.is_full(self.units.len(), self.units.deferred_size().bytes) {
            return Ok(Some(progress));
        }
        drop(progress);
        if let Err(error) = self.fold_deferred(unit).await {
            self.pass_failed(unit, &error);
            return Err(error);
        }
        Ok(unit.lock().await)
    }

    /// Defers records, which are sorted by metric. Metrics with many records, or with requests other than for points, are
    /// not deferred: their records are applied at once, after those deferred before.
    pub(crate) async fn defer(
        &self,
        fence: Fence,
        mut records: Vec<Record>,
        deferred: &mut Deferred,
    ) -> Result<()> {
        self.drop_orphans(&mut records).await?;
        let by_metric = records.chunk_by(|a, b| a.metric == b.metric);
        let urgent: Vec<MetricId> =
            by_metric.filter(|records| !may_wait(records)).map(|records| records[0].metric).collect();
        let is_urgent = |record: &Record| urgent.binary_search(&record.metric).is_ok();
        let (mut now, later): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_urgent);
        if !now.is_empty() {
            let mut all = deferred.of(&urgent);
            all.append(&mut now);
            // Stable: keeps the order of a metric's records.
            all.sort_by_key(|record| record.metric);
            self.apply_in_rounds(fence, &all).await?;
            deferred.remove(&urgent);
        }
        deferred.add(&later);
        Ok(())
    }

    /// Drops the records of deleted metrics, and revokes the ends of resources for which the other records have measures.
    /// This is not deferred: an end that is set later must not be revoked by an earlier measure.
    async fn drop_orphans(&self, records: &mut Vec<Record>) -> Result<()> {
        let ranges = ranges(records);
        let ids: Vec<MetricId> = ranges.iter().map(|(metric, _)| *metric).collect();
        let (known, _) = self.known(&ids).await?;
        let resources: Vec<_> = known.iter().map(|known| known.and_then(|known| known.resource_id)).collect();
        self.revive_measured(records, &ranges, &resources).await?;
        if known.iter().all(Option::is_some) {
            return Ok(());
        }
        let gone: HashSet<MetricId> =
            ids.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(metric, _)| *metric).collect();
        records.retain(|record| {
            let is_gone = gone.contains(&record.metric);
            if is_gone {
                Figures::add(&self.figures.measures_orphaned, record.measures.into());
            }
            !is_gone
        });
        Ok(())
    }

    /// Revokes the ends of resources that the records of metrics, in these ranges, revoke.
    async fn revive_measured(
        &self,
        records: &[Record],
        ranges: &[(MetricId, Range<usize>)],
        resources: &[Option<Uuid>],
    ) -> Result<()> {
        let mut ids: Vec<Uuid> = resources.iter().flatten().copied().collect();
        if ids.is_empty() {
            return Ok(());
        }
        ids.sort_unstable();
        ids.dedup();
        let ends = self.indexer.ends(&ids).await?;
        let ended: HashSet<Uuid> =
            ids.into_iter().zip(ends).filter(|(_, end)| end.flatten().is_some()).map(|(id, _)| id).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let (mut seen, mut points) = (MeasuredResources::new(), Vec::new());
        for ((_, range), resource) in ranges.iter().zip(resources) {
            if resource.is_none_or(|resource| !ended.contains(&resource)) {
                continue;
            }
            points.clear();
            for record in &records[range.clone()] {
                // Folding reports what does not decode.
                let _ = points::decode(&record.points, &mut points);
            }
            seen.extend(resource.zip(points.iter().map(|point| point.timestamp).max()));
        }
        self.revive(seen).await
    }

    /// Folds all that a unit has deferred at the call. The unit is locked for some thousand heads at a time.
    ///
    /// # Errors
    /// What is not folded stays deferred.
    pub(crate) async fn fold_deferred(&self, unit: &Unit) -> Result<()> {
        let mut is_sealed = false;
        while unit.deferred_size.get().bytes > 0 {
            let Some(mut progress) = unit.lock().await else { return Ok(()) };
            if !is_sealed {
                progress.deferred.seal();
                is_sealed = true;
            }
            let records = progress.deferred.next(PASS_HEADS_MAX);
            if records.is_empty() {
                break;
            }
            self.apply_deferred(unit.fence, &mut progress.deferred, &records).await?;
        }
        Ok(())
    }

    /// Folds what is deferred of these metrics.
    ///
    /// # Errors
    /// The first one, after all other units' metrics; what is not folded stays deferred.
    pub(crate) async fn fold_deferred_of(&self, metrics: &[MetricId]) -> Result<()> {
        let units = self.incoming.numbering().units();
        let mut metrics: Vec<(SackId, MetricId)> =
            metrics.iter().map(|metric| (units.sack_of(*metric), *metric)).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let mut outcome = Ok(());
        for of_unit in metrics.chunk_by(|(a, _), (b, _)| a == b) {
            let unit = self.units.get(Sack { count: units, id: of_unit[0].0 });
            let Some(unit) = unit.filter(|unit| unit.deferred_size.get().bytes > 0) else { continue };
            let Some(mut progress) = unit.lock().await else { continue };
            let metrics: Vec<MetricId> = of_unit.iter().map(|(_, metric)| *metric).collect();
            let records = progress.deferred.of(&metrics);
            outcome = outcome.and(self.apply_deferred(unit.fence, &mut progress.deferred, &records).await);
        }
        outcome
    }

    /// Like [`Processor::fold_deferred_of`], for a reader, who goes on without the latest measures while passes or the
    /// store stop it for long, as on a full disk.
    pub(crate) async fn fold_for_reader(&self, metrics: &[MetricId]) {
        if self.units.deferred_size().bytes == 0 {
            return;
        }
        let now = Instant::now();
        let wait = self.patience.wait(now);
        match timeout_at(now + wait, self.fold_deferred_of(metrics)).await {
            Ok(Ok(())) => {}
            // A checkpoint reports it.
            Ok(Err(error)) => tracing::debug!(%error, "metrics are read without their latest measures"),
            Err(_) => self.patience.gave_up(wait),
        }
    }

    /// Folds deferred records: all of their metrics.
    async fn apply_deferred(&self, fence: Fence, deferred: &mut Deferred, records: &[Record]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        // Readers and the checkpoint call it, which a panic must not end.
        let folded = AssertUnwindSafe(self.apply(fence, records)).catch_unwind().await;
        Figures::add(&self.figures.pass_time_us, started.elapsed().as_micros() as u64);
        // The pass that deferred them has revoked ends.
        folded.unwrap_or_else(|panic| Err(EngineError::Panicked(panic_text(&*panic))))?;
        let mut metrics: Vec<MetricId> = records.iter().map(|record| record.metric).collect();
        metrics.dedup();
        deferred.remove(&metrics);
        Ok(())
    }
}

/// Whether records of one metric may be deferred: requests for few points.
fn may_wait(records: &[Record]) -> bool {
    let measures: u64 = records.iter().map(|record| u64::from(record.measures)).sum();
    measures < FOLDED_AT_ONCE && records.iter().all(|record| record.measures > 0)
}
