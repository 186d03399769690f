//! The engine: what the API calls.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use gnudi_drivers::{
    aggregates::{AggregateStore, Fence, StoreError},
    coordination::{CoordinationError, Coordinator},
    incoming::{Batch, Incoming, IncomingError},
};
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{ArchivePolicy, Fault, MetricId, Numbering, Sack, SackId, Timestamp};
use gnudi_series::{
    cross::{CrossMeasures, CrossSeries},
    points,
};
use tokio::time::Instant;

use crate::{
    cross::{self, Bulk, CrossMeasuresError, CrossMeasuresQuery, HeldPoints, MetricRead},
    damage::OnDamage,
    figures::Figures,
    metricd::scheduler::SackQueue,
    outage::Outage,
    processor::{Fold, Processor},
    reader::{self, Measures, MeasuresQuery},
    refresh::Watcher,
    sampled::{SampleQuery, SampledMetric, Samples},
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
    /// A defect of the program: the pass is tried again.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The query asks for a resampling that has no meaning, such as a rate over calendar months (400).
    #[error("{0}")]
    Resample(String),
    /// Waiting measures were not folded within the operation timeout (503).
    #[error("Unable to refresh metric: {0}. Metric is locked. Please try again.")]
    RefreshTimeout(MetricId),
}

impl EngineError {
    /// Whether something does not answer, for now.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            EngineError::Incoming(IncomingError::Unavailable(_))
                | EngineError::Store(StoreError::Unavailable(_))
                | EngineError::Indexer(IndexerError::Database(_))
                | EngineError::Coordination(CoordinationError::Unavailable(_))
        )
    }
}

/// The index, the incoming store and the aggregate store, joined. Cheap to share: hold it in an `Arc`.
pub struct Engine {
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) incoming: Arc<dyn Incoming>,
    pub(crate) store: Arc<dyn AggregateStore>,
    pub(crate) processor: Processor,
    /// What this process may process.
    pub(crate) units: Arc<Units>,
    /// Where processes share the stores.
    pub(crate) coordinator: Option<Arc<dyn Coordinator>>,
    pub(crate) outage: Outage,
    watcher: Arc<Watcher>,
    bulk: Bulk,
    status: StatusCache,
    /// The name of this process's workers, once they run.
    pub(crate) workers: OnceLock<String>,
    /// What must not end while the process lives.
    pub(crate) tasks: Tasks,
    /// Their backlog.
    pub(crate) waiting: OnceLock<Arc<SackQueue>>,
}

impl Engine {
    /// Of stores that are this process's alone: it owns all sacks, without asking anybody. `clock` tells the time.
    pub fn new(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let units = Units::everything(incoming.numbering().units());
        Self::with(indexer, incoming, store, units, None, clock)
    }

    /// Of stores that processes share. It owns no sacks, unless a [`Metricd`](crate::Metricd) is started on it.
    pub fn shared(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        coordinator: Arc<dyn Coordinator>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let units = Units::nothing(incoming.numbering().units());
        Self::with(indexer, incoming, store, units, Some(coordinator), clock)
    }

    /// What is read of metrics of which something is damaged.
    #[must_use]
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.bulk.on_damage = on_damage;
        self
    }

    fn with(
        indexer: Arc<dyn Indexer>,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        units: Units,
        coordinator: Option<Arc<dyn Coordinator>>,
        clock: fn() -> Timestamp,
    ) -> Self {
        let units = Arc::new(units);
        let processor =
            Processor::new(indexer.clone(), incoming.clone(), store.clone(), units.clone(), clock);
        Engine {
            bulk: Bulk::new(store.clone(), incoming.numbering().units()),
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

    /// For tests of what a defect of the program does: folds in another way.
    #[doc(hidden)]
    #[must_use]
    pub fn folding(mut self, fold: Fold) -> Self {
        self.processor.fold = fold;
        self
    }

    pub fn indexer(&self) -> &dyn Indexer {
        &*self.indexer
    }

    /// What the workers of this process have done since it started.
    pub fn figures(&self) -> &Figures {
        self.processor.figures()
    }

    /// Takes measures; `Ok` means durable.
    pub async fn append(&self, batch: Batch) -> Result<()> {
        Ok(self.incoming.append(batch).await?)
    }

    /// Has a metric that moved to another policy converted by a pass, as one with measures does anyway.
    pub async fn append_conversion(&self, metric: MetricId) -> Result<()> {
        let mut batch = Batch::default();
        batch.push(metric, 0, |out| points::encode(&[], out));
        self.append(batch).await
    }

    /// Folds the metrics' backlog now, or waits until the owners of their sacks have; returns when it can be read.
    pub async fn refresh(&self, metrics: &[MetricId], timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let units = self.incoming.numbering().units();
        let mut done: Vec<SackId> = Vec::new();
        for &metric in metrics {
            let unit = units.sack_of(metric);
            if done.contains(&unit) {
                continue;
            }
            tokio::time::timeout_at(deadline, self.refresh_unit(unit))
                .await
                .map_err(|_| EngineError::RefreshTimeout(metric))??;
            done.push(unit);
        }
        Ok(())
    }

    async fn refresh_unit(&self, unit: SackId) -> Result<()> {
        if !self.processor.process_all(unit).await? {
            let numbering = self.incoming.numbering();
            // A unit of fewer sacks before has the metrics of its halves.
            let unit = SackId(unit.0 % numbering.units().get());
            self.watcher.processed(numbering.sacks_of_unit(unit)).await?;
        }
        Ok(())
    }

    /// Doubles the count of sacks while everything goes on. What came before drains from the old sacks, which the workers see to.
    pub async fn split_sacks(&self) -> Result<Numbering> {
        let alone = "the sacks of an embedded store cannot be split: one process owns them all";
        let topology = self.incoming.topology().filter(|_| self.coordinator.is_some());
        let topology = topology.ok_or_else(|| IncomingError::NoSplit(alone.to_owned()))?;
        Ok(topology.split().await?)
    }

    /// Which sacks there are.
    pub fn numbering(&self) -> Numbering {
        self.incoming.numbering()
    }

    /// The units that this process may process now, each with what it writes with.
    pub fn owned(&self) -> Vec<Fence> {
        self.units.open().iter().map(|unit| unit.fence).collect()
    }

    /// Whether this process may process the unit.
    pub(crate) fn owns(&self, unit: Sack) -> bool {
        self.coordinator.is_none() || self.units.get(unit).is_some()
    }

    /// Whether this process does what one of them has to do for all: the owner of the first unit.
    pub(crate) fn owns_first(&self) -> bool {
        self.owns(Sack { count: self.incoming.numbering().units(), id: SackId(0) })
    }

    /// The points of each aggregation of the query, in its order. Waiting measures are not in them: see
    /// [`Engine::refresh`].
    pub async fn measures(
        &self,
        metric: MetricId,
        policy: &ArchivePolicy,
        query: &MeasuresQuery,
    ) -> Result<Vec<Measures>> {
        reader::measures(&*self.store, self.bulk.on_damage, metric, policy, query).await
    }

    /// The raw points of a metric in `start..stop`, as far as its policy keeps them; the granularity is 0.
    pub async fn raw_points(
        &self,
        metric: MetricId,
        policy: &ArchivePolicy,
        start: Option<Timestamp>,
        stop: Option<Timestamp>,
    ) -> Result<Measures> {
        reader::raw_points(&*self.store, self.bulk.on_damage, metric, policy, start, stop).await
    }

    /// Aggregates across metrics: one answer for each granularity, coarsest first. Waiting measures are not in it.
    pub async fn cross_measures(
        &self,
        query: CrossMeasuresQuery,
    ) -> Result<Vec<CrossMeasures>, CrossMeasuresError> {
        cross::measures(&self.bulk, query).await
    }

    /// The points of each aggregation of many metrics, in their order; a metric without measures has none. At most
    /// `points_max` of them, at most [`cross::POINTS_MAX`].
    pub async fn measures_of_many(
        &self,
        reads: Vec<MetricRead>,
        start: Option<Timestamp>,
        stop: Option<Timestamp>,
        points_max: usize,
    ) -> Result<Vec<Vec<CrossSeries>>, CrossMeasuresError> {
        let (series, _) = self.bulk.read(reads, start, stop, points_max.min(cross::POINTS_MAX)).await?;
        Ok(series)
    }

    /// The samples of many metrics, in their order, and what counts them as long as they are held; at most `samples_max`. Waiting measures are
    /// not in them.
    pub async fn samples(
        &self,
        metrics: Vec<SampledMetric>,
        query: Arc<SampleQuery>,
        samples_max: usize,
    ) -> Result<(Vec<Samples>, HeldPoints), CrossMeasuresError> {
        self.bulk.samples(metrics, query, samples_max.min(cross::POINTS_MAX)).await
    }

    /// Runs what only computes, beside the threads that serve requests.
    pub async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.bulk.compute(work).await
    }

    /// What is wrong with this process: parts that refuse their work, tasks that have ended.
    pub fn faults(&self) -> Vec<Fault> {
        let stores = [self.incoming.fault(), self.store.fault(), self.indexer.fault()];
        stores.into_iter().flatten().chain(self.tasks.fault()).collect()
    }

    /// The name of the workers of this process, where they run.
    pub fn workers(&self) -> Option<&str> {
        self.workers.get().map(String::as_str)
    }

    /// How long the sack has waited for a worker of this process that waits longest.
    pub fn oldest_waiting(&self) -> Duration {
        self.waiting.get().map_or(Duration::ZERO, |queue| queue.oldest_age())
    }

    /// The backlog; with `details` by metric.
    pub async fn status(&self, details: bool) -> Result<ProcessingStatus> {
        self.status.status(&*self.incoming, details).await
    }

    /// Measures and bytes that wait; cheap.
    pub async fn backlog(&self) -> Result<gnudi_drivers::incoming::Backlog> {
        Ok(self.incoming.backlog().await?)
    }
}
