//! [`Engine`]: holds the index and the stores, and is what the API calls. The other modules do the work.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use gnudi_drivers::{
    aggregates::{AggregateStore, Fence, StoreError},
    coordination::{CoordinationError, Coordinator},
    incoming::{Batch, Incoming, IncomingError, TrimNeed},
};
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{Fault, MetricId, Numbering, Sack, SackId, Timestamp};
use gnudi_series::points;
use tokio::time::Instant;

use crate::{
    cross::Bulk,
    damage::OnDamage,
    figures::Figures,
    metricd::scheduler::SackQueue,
    outage::Outage,
    processor::{Fold, Processor},
    reader::ReadStore,
    refresh::Watcher,
    status::{ProcessingStatus, StatusCache},
    tasks::Tasks,
    units::Units,
};

pub type Result<T, E = EngineError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Indexer(#[from] IndexerError),
    #[error(transparent)]
    Coordination(#[from] CoordinationError),
    /// A stored head or block does not decode; its neighbours are readable.
    #[error("metric {metric}: {reason}")]
    Damaged { metric: MetricId, reason: String },
    /// A bug in the program: the pass is retried.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The query's resampling is meaningless, such as a rate over calendar months (400).
    #[error("{0}")]
    Resample(String),
    /// A metric has more points in the range than a read may have (413).
    #[error("metric {0} has too many points to be read at once: request a shorter range")]
    TooManyPoints(MetricId),
    /// Waiting measures were not folded within the operation timeout (503).
    #[error("Unable to refresh metric: {0}. Metric is locked. Please try again.")]
    RefreshTimeout(MetricId),
}

impl EngineError {
    /// Whether something that many passes need does not respond, or cannot be read, for now.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            EngineError::Incoming(IncomingError::Unavailable(_))
                | EngineError::Store(StoreError::Unavailable(_))
                | EngineError::Indexer(
                    IndexerError::Unavailable(_)
                        | IndexerError::Contended(_)
                        | IndexerError::Database(_)
                        | IndexerError::DamagedItem { .. }
                )
                | EngineError::Coordination(CoordinationError::Unavailable(_))
        )
    }
}

/// Combines the index, the incoming store and the aggregate store. Share it in an `Arc`.
pub struct Engine {
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) incoming: Arc<dyn Incoming>,
    pub(crate) store: Arc<dyn AggregateStore>,
    pub(crate) processor: Arc<Processor>,
    /// The units that this process may process.
    pub(crate) units: Arc<Units>,
    /// If processes share the stores.
    pub(crate) coordinator: Option<Arc<dyn Coordinator>>,
    pub(crate) outage: Outage,
    watcher: Arc<Watcher>,
    pub(crate) bulk: Bulk,
    status: StatusCache,
    /// The name of this process's workers, once they run.
    pub(crate) workers: OnceLock<String>,
    /// Tasks that must not end before the process.
    pub(crate) tasks: Tasks,
    /// The workers' queue.
    pub(crate) waiting: OnceLock<Arc<SackQueue>>,
}

impl Engine {
    /// For stores of this process alone: it owns all sacks without a coordinator. `clock`: the current time.
    pub fn new(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self::with(indexer, incoming, store, None, clock)
    }

    /// For shared stores. Owns no sacks, unless a [`Metricd`](crate::Metricd) is started on it.
    pub fn shared(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        coordinator: Arc<dyn Coordinator>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self::with(indexer, incoming, store, Some(coordinator), clock)
    }

    /// Of shared stores.
    pub fn coordinator(&self) -> Option<&Arc<dyn Coordinator>> {
        self.coordinator.as_ref()
    }

    /// Sets how damaged metrics are read.
    #[must_use]
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.bulk.store.on_damage = on_damage;
        self
    }

    fn with(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        coordinator: Option<Arc<dyn Coordinator>>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let count = incoming.numbering().units();
        let units = if coordinator.is_some() { Units::nothing(count) } else { Units::everything(count) };
        let units = Arc::new(units);
        let processor =
            Arc::new(Processor::new(indexer.clone(), incoming.clone(), store.clone(), units.clone(), clock));
        Engine {
            bulk: Bulk::new(ReadStore::new(processor.clone()), count),
            watcher: Watcher::new(incoming.clone()),
            indexer,
            incoming,
            store,
            processor,
            units,
            coordinator,
            outage: Outage::new("the stores"),
            status: StatusCache::default(),
            workers: OnceLock::new(),
            tasks: Tasks::default(),
            waiting: OnceLock::new(),
        }
    }

    /// For tests of bugs in folding: replaces the fold function.
    #[doc(hidden)]
    #[must_use]
    pub fn folding(self, fold: Fold) -> Self {
        let _ = self.processor.fold.set(fold);
        self
    }

    pub fn indexer(&self) -> &dyn Indexer {
        &*self.indexer
    }

    /// Counters of this process's workers.
    pub fn figures(&self) -> &Figures {
        &self.processor.figures
    }

    /// Number of damaged places found since the start, in the stores and the index. Passes count most of those that the
    /// stores count, too: the larger number counts.
    pub(crate) fn damaged(&self) -> u64 {
        let in_stores = self.incoming.damaged() + self.store.damaged();
        in_stores.max(self.figures().damaged.load(Ordering::Relaxed)) + self.indexer.damaged()
    }

    /// Accepts measures; `Ok` means durable.
    pub async fn append(&self, batch: Batch) -> Result<()> {
        Ok(self.incoming.append(batch).await?)
    }

    /// Folds what passes have deferred, and makes it durable with all that was folded before. Call it before a policy
    /// changes: otherwise measures that could be read with the former policy are folded with the new one, now or by a
    /// start after a crash.
    pub async fn sync_aggregates(&self) -> Result<()> {
        if let Some((_, error)) = self.fold_deferred().await.into_iter().next() {
            return Err(error);
        }
        Ok(self.store.sync().await?)
    }

    /// Folds what passes have deferred, and returns what remains deferred because of a failure, with its reason.
    pub(crate) async fn fold_deferred(&self) -> Vec<(Sack, EngineError)> {
        let mut failed = Vec::new();
        for unit in self.units.open() {
            if let Err(error) = self.processor.fold_deferred(&unit).await {
                failed.push((unit.fence.sack, error));
            }
        }
        failed
    }

    /// Like [`Engine::sync_aggregates`], before one metric's policy changes.
    pub async fn sync_metric(&self, metric: MetricId) -> Result<()> {
        self.processor.fold_deferred_of(&[metric]).await?;
        Ok(self.store.sync().await?)
    }

    /// The store as readers use it.
    pub(crate) fn readers(&self) -> &ReadStore {
        &self.bulk.store
    }

    /// The memory of measures that are folded later.
    pub fn deferred_bytes(&self) -> usize {
        self.units.deferred_size().bytes
    }

    /// Whether a checkpoint is due before its time: it would free space in the incoming store, and folding what is
    /// deferred now is worth it, or the space is needed.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        match self.incoming.trim_need() {
            TrimNeed::None => false,
            TrimNeed::Useful => self.units.deferred_size().is_worth_folding(),
            TrimNeed::Urgent => true,
        }
    }

    /// Triggers the conversion of metrics whose policy is another one, or has other methods, which measures would trigger
    /// anyway.
    pub async fn append_conversions(&self, metrics: &[MetricId]) -> Result<()> {
        let mut batch = Batch::default();
        for metric in metrics {
            batch.push(*metric, 0, |out| points::encode(&[], out));
        }
        self.append(batch).await
    }

    /// Folds the metrics' backlog now, or waits until the owners of their sacks have.
    pub async fn refresh(&self, metrics: &[MetricId], timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut done: HashSet<Sack> = HashSet::new();
        for &metric in metrics {
            // A split may end while it waits for others.
            let unit = Sack::of(metric, self.incoming.numbering().units());
            if !done.insert(unit) {
                continue;
            }
            tokio::time::timeout_at(deadline, self.refresh_unit(unit))
                .await
                .map_err(|_| EngineError::RefreshTimeout(metric))??;
        }
        let Some(&first) = metrics.first() else { return Ok(()) };
        tokio::time::timeout_at(deadline, self.processor.fold_deferred_of(metrics))
            .await
            .map_err(|_| EngineError::RefreshTimeout(first))?
    }

    async fn refresh_unit(&self, unit: Sack) -> Result<()> {
        loop {
            let numbering = self.incoming.numbering();
            if !self.processor.process_all(unit).await? {
                // A unit of an earlier, lower count has the metrics of both its halves.
                let units = numbering.units().get();
                let units = (unit.id.0 % units..units).step_by(unit.count.get().into());
                let sacks = units.flat_map(|unit| numbering.sacks_of_unit(SackId(unit)));
                self.watcher.processed(sacks.collect()).await?;
            }
            // Of a split this process may have learned just now: what was accepted before may be in the new sacks.
            if self.incoming.numbering().count == numbering.count {
                return Ok(());
            }
        }
    }

    /// Doubles the sack count during operation. The workers drain the old sacks.
    pub async fn split_sacks(&self) -> Result<Numbering> {
        let alone = "the sacks of an embedded store cannot be split: one process owns them all";
        let topology = self.incoming.topology().filter(|_| self.coordinator.is_some());
        let topology = topology.ok_or_else(|| IncomingError::NoSplit(alone.to_owned()))?;
        Ok(topology.split().await?)
    }

    /// The current sack count.
    pub fn numbering(&self) -> Numbering {
        self.incoming.numbering()
    }

    /// The fences of the units that this process may process now.
    pub fn owned(&self) -> Vec<Fence> {
        self.units.open().iter().map(|unit| unit.fence).collect()
    }

    /// Whether this process may process the unit.
    pub(crate) fn owns(&self, unit: Sack) -> bool {
        self.coordinator.is_none() || self.units.get(unit).is_some()
    }

    /// Whether this process owns the first unit: it does the tasks of which one process does all.
    pub(crate) fn owns_first(&self) -> bool {
        self.owns(Sack { count: self.incoming.numbering().units(), id: SackId(0) })
    }

    /// The number of processors, as it was at the start.
    pub fn processor_count(&self) -> usize {
        self.bulk.processors
    }

    /// Faults of this process: parts that refuse work, tasks that ended.
    pub fn faults(&self) -> Vec<Fault> {
        let coordinator = self.coordinator.as_ref().and_then(|coordinator| coordinator.fault());
        let stores = [self.incoming.fault(), self.store.fault(), self.indexer.fault(), coordinator];
        stores.into_iter().flatten().chain(self.tasks.fault()).collect()
    }

    /// The name of this process's workers, if they run.
    pub fn workers(&self) -> Option<&str> {
        self.workers.get().map(String::as_str)
    }

    /// The longest time that a sack has waited for a worker of this process.
    pub fn oldest_waiting(&self) -> Duration {
        self.waiting.get().map_or(Duration::ZERO, |queue| queue.oldest_age())
    }

    /// The backlog; with `details` by metric.
    pub async fn status(&self, details: bool) -> Result<ProcessingStatus> {
        self.status.status(self.incoming.clone(), details).await
    }

    /// Waiting measures and bytes; cheap.
    pub async fn backlog(&self) -> Result<gnudi_drivers::incoming::Backlog> {
        Ok(self.incoming.backlog().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_does_not_respond_is_an_outage() {
        let is_outage = |error: IndexerError| EngineError::from(error).is_outage();
        assert!(is_outage(IndexerError::Unavailable("no answer within 10 ms".to_owned())));
        assert!(!is_outage(IndexerError::NoSuchResourceType("x".to_owned())));
    }
}
