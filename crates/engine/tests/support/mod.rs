//! Shared by the engine's tests: metrics, measures, options, and the engines of several processes over stores
//! in memory.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod incoming;
pub mod store;
#[path = "../../../drivers/tests/support/wait.rs"]
pub mod wait;

use std::{collections::BTreeMap, num::NonZeroU16, sync::Arc, time::Duration};

use gnudi_drivers::{
    aggregates::{AggregateStore, memory::MemoryAggregates},
    coordination::{Coordinator, memory::MemoryCoordinator},
    incoming::{Batch, Incoming, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, EngineError, Measures, MeasuresQuery, MetricdOptions, ReadRange};
use gnudi_indexer::{
    ArchivePolicies as _, Indexer, MemoryIndexer, Metrics as _, NewMetric, conformance::new_metric,
    create_default_archive_policies,
};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, MetricId, SackCount, Statistic, Timespan,
    Timestamp,
};
use gnudi_series::points;
use store::Tapped;

pub fn metric(number: u128) -> MetricId {
    MetricId(uuid::Uuid::from_u128(number + 1))
}

pub fn sacks(count: u16) -> SackCount {
    SackCount(NonZeroU16::new(count).unwrap())
}

/// An index with this many metrics of a policy: a default one, or `patient`, which accepts late points.
pub async fn indexer(metrics: u128, policy: &str) -> Arc<MemoryIndexer> {
    let indexer = Arc::new(MemoryIndexer::default());
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let medium = indexer.archive_policy("medium").await.unwrap().unwrap();
    let patient = ArchivePolicy {
        name: "patient".to_owned(),
        aggregation_methods: [Statistic::Sum, Statistic::Count].map(AggregationMethod::new).into(),
        recomputes_late: true,
        ..(*medium).clone()
    };
    indexer.create_archive_policy(patient).await.unwrap();
    create_metrics(&indexer, metrics, policy).await;
    indexer
}

/// An index with this many metrics that keep `points` sums by the second.
pub async fn indexer_of_sums(metrics: u128, points: u64) -> (Arc<MemoryIndexer>, ArchivePolicy) {
    let indexer = Arc::new(MemoryIndexer::default());
    let definition = vec![ArchivePolicyItem::new(Some(Timespan::from_secs(1)), Some(points), None).unwrap()];
    let sum = [AggregationMethod::new(Statistic::Sum)].into();
    let policy = ArchivePolicy::new("sums".to_owned(), 0, definition, sum).unwrap();
    indexer.create_archive_policy(policy.clone()).await.unwrap();
    create_metrics(&indexer, metrics, &policy.name).await;
    (indexer, policy)
}

async fn create_metrics(indexer: &MemoryIndexer, metrics: u128, policy: &str) {
    let new = (0..metrics).map(|number| NewMetric {
        id: metric(number),
        archive_policy_name: policy.into(),
        created_at: Timestamp::EPOCH,
        ..new_metric(number)
    });
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
}

pub fn options(name: &str, lease: Duration) -> MetricdOptions {
    let never = Duration::from_hours(1);
    MetricdOptions {
        name: name.to_owned(),
        workers: 2,
        greedy: true,
        processing_delay: never,
        gather: Duration::from_millis(1),
        checkpoint_delay: lease,
        reporting_delay: None,
        cleanup_delay: never,
        cleanup_batch_metrics: 2,
        metric_inactive_after: None,
        resource_cleanup_after: None,
        resource_history_retention: None,
        caches_lag_max: Duration::ZERO,
        lease,
        clock: || Timestamp::EPOCH,
    }
}

/// A process that alone uses its stores, of two sacks.
pub struct Process {
    pub engine: Engine,
    pub incoming: Arc<MemoryIncoming>,
    pub policy: Arc<ArchivePolicy>,
    pub metrics: Vec<MetricId>,
}

impl Process {
    pub async fn start(metrics: usize, policy: &str, store: Tapped) -> Self {
        let indexer = indexer(metrics as u128, policy).await;
        let policy = indexer.archive_policy(policy).await.unwrap().unwrap();
        let incoming = Arc::new(MemoryIncoming::new(sacks(2), u64::MAX));
        let engine = Engine::new(indexer, incoming.clone(), Arc::new(store), || Timestamp::EPOCH);
        Process { engine, incoming, policy, metrics: (0..metrics as u128).map(metric).collect() }
    }

    pub async fn append(&self, metric: usize, points: &[Measure]) {
        self.engine.append(batch_of([(self.metrics[metric], points)])).await.unwrap();
    }

    /// The counts and sums of a metric, by the minute.
    pub async fn read(&self, metric: usize) -> [BTreeMap<Timestamp, f64>; 2] {
        let read = |statistic| read(&self.engine, &self.policy, self.metrics[metric], statistic, 60, None);
        [read(Statistic::Count).await.unwrap(), read(Statistic::Sum).await.unwrap()]
    }
}

/// The stores shared by processes. Leases go by the clock of the test's runtime.
pub struct Cluster {
    pub indexer: Arc<MemoryIndexer>,
    pub incoming: Arc<MemoryIncoming>,
    pub store: Arc<MemoryAggregates>,
    pub coordinator: Arc<MemoryCoordinator>,
}

impl Cluster {
    pub async fn new(metrics: u128, count: u16) -> Self {
        let began = tokio::time::Instant::now();
        Cluster {
            indexer: indexer(metrics, "low").await,
            incoming: Arc::new(MemoryIncoming::new(sacks(count), u64::MAX)),
            store: Arc::new(MemoryAggregates::default()),
            coordinator: Arc::new(MemoryCoordinator::new(move || began.elapsed())),
        }
    }

    /// The engine of another process.
    pub fn engine(&self) -> Arc<Engine> {
        self.engine_on(self.incoming.clone(), self.store.clone(), self.coordinator.clone())
    }

    pub fn engine_on(
        &self,
        incoming: Arc<dyn Incoming>,
        store: Arc<dyn AggregateStore>,
        coordinator: Arc<dyn Coordinator>,
    ) -> Arc<Engine> {
        let indexer: Arc<dyn Indexer> = self.indexer.clone();
        Arc::new(Engine::shared(indexer, incoming, store, coordinator, || Timestamp::EPOCH))
    }

    /// The counts of a metric's points, by five minutes.
    pub async fn counts(&self, engine: &Engine, number: u128) -> BTreeMap<Timestamp, f64> {
        let policy = self.indexer.archive_policy("low").await.unwrap().unwrap();
        read(engine, &policy, metric(number), Statistic::Count, 300, None).await.unwrap()
    }
}

/// The aggregates of a metric at a granularity in seconds, from a time on.
pub async fn read(
    engine: &Engine,
    policy: &ArchivePolicy,
    metric: MetricId,
    statistic: Statistic,
    granularity_s: i64,
    start: Option<Timestamp>,
) -> Result<BTreeMap<Timestamp, f64>, EngineError> {
    let method = AggregationMethod::new(statistic);
    let aggregation = policy.aggregation(method, Timespan::from_secs(granularity_s)).unwrap();
    let range = ReadRange { start, ..ReadRange::default() };
    let query = MeasuresQuery { aggregations: vec![aggregation], range };
    let Measures { timestamps, values, .. } = engine.measures(metric, policy, &query).await?.remove(0);
    Ok(timestamps.into_iter().zip(values).collect())
}

pub fn point(second: i64, value: f64) -> Measure {
    Measure { timestamp: Timestamp::from_secs(second), value }
}

/// Points at some minutes after a second, each at a second of its own and with its minute as value.
pub fn points_at(start: i64, minutes: &[u8]) -> Vec<Measure> {
    let at =
        |(minute, second): (&u8, i64)| point(start + i64::from(*minute) * 60 + second, f64::from(*minute));
    minutes.iter().zip(0..).map(at).collect()
}

/// A batch of points by metric.
pub fn batch_of<'a>(entries: impl IntoIterator<Item = (MetricId, &'a [Measure])>) -> Batch {
    let mut batch = Batch::default();
    for (metric, points) in entries {
        batch.push(metric, points.len() as u32, |out| points::encode(points, out));
    }
    batch
}

/// One measure at a second for each of the metrics.
pub fn batch(metrics: impl IntoIterator<Item = u128>, second: i64) -> Batch {
    let points = [point(second, 1.0)];
    batch_of(metrics.into_iter().map(|number| (metric(number), &points[..])))
}

/// Deletes metrics from the index.
pub async fn delete(engine: &Engine, metrics: &[MetricId]) {
    for deleted in engine.indexer().delete_metrics(metrics).await {
        deleted.unwrap();
    }
}
