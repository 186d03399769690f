//! Several processes' engines over stores in memory, in one program.

use std::{collections::BTreeMap, num::NonZeroU16, sync::Arc, time::Duration};

use gnudi_drivers::{
    aggregates::{AggregateStore, memory::MemoryAggregates},
    coordination::{Coordinator, memory::MemoryCoordinator},
    incoming::{Batch, Incoming, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, Measures, MeasuresQuery, MetricdOptions};
use gnudi_indexer::{
    ArchivePolicies as _, Indexer, MemoryIndexer, Metrics as _, NewMetric, create_default_archive_policies,
};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, Measure, MetricId, SackCount, Statistic, Timespan, Timestamp,
};

pub fn metric(number: u128) -> MetricId {
    MetricId(uuid::Uuid::from_u128(number + 1))
}

pub fn sacks(count: u16) -> SackCount {
    SackCount(NonZeroU16::new(count).unwrap())
}

/// An index with so many metrics of a policy.
pub async fn indexer(metrics: u128, policy: &str) -> Arc<MemoryIndexer> {
    let indexer = Arc::new(MemoryIndexer::default());
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let new = (0..metrics).map(|number| NewMetric {
        id: metric(number),
        creator: "admin".into(),
        name: None,
        unit: None,
        archive_policy_name: policy.into(),
        resource_id: None,
        created_at: Timestamp::EPOCH,
    });
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
    indexer
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
        lease,
        clock: || Timestamp::EPOCH,
    }
}

/// What processes share.
pub struct Cluster {
    pub indexer: Arc<MemoryIndexer>,
    pub incoming: Arc<MemoryIncoming>,
    pub store: Arc<MemoryAggregates>,
    pub coordinator: Arc<MemoryCoordinator>,
}

impl Cluster {
    pub async fn new(metrics: u128, count: u16) -> Self {
        Cluster {
            indexer: indexer(metrics, "low").await,
            incoming: Arc::new(MemoryIncoming::new(sacks(count), u64::MAX)),
            store: Arc::new(MemoryAggregates::default()),
            coordinator: Arc::new(MemoryCoordinator::by_machine_clock()),
        }
    }

    /// Another process.
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

    /// All points of a metric, counted by the five minutes.
    pub async fn counts(&self, engine: &Engine, number: u128) -> BTreeMap<Timestamp, f64> {
        let policy = self.indexer.archive_policy("low").await.unwrap().unwrap();
        let count = AggregationMethod::new(Statistic::Count);
        let aggregation = policy.aggregation(count, Timespan::from_secs(300)).unwrap();
        let query =
            MeasuresQuery { aggregations: vec![aggregation], start: None, stop: None, resample: None };
        let Measures { timestamps, values, .. } =
            engine.measures(metric(number), &policy, &query).await.unwrap().remove(0);
        timestamps.into_iter().zip(values).collect()
    }
}

/// A measure at a second for each of the metrics.
pub fn batch(metrics: impl IntoIterator<Item = u128>, second: i64) -> Batch {
    let mut batch = Batch::default();
    for number in metrics {
        let point = Measure { timestamp: Timestamp::from_secs(second), value: 1.0 };
        batch.push(metric(number), 1, |out| gnudi_series::points::encode(&[point], out));
    }
    batch
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let holding = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), holding).await.unwrap_or_else(|_| panic!("never: {what}"));
}
