//! Passes over sacks: whatever cuts, failures and replays they meet, each accepted measure counts once.

use std::{
    collections::HashMap,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
        memory::MemoryAggregates,
    },
    incoming::{Append, Batch, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, MeasuresQuery};
use gnudi_indexer::{Indexer, MemoryIndexer, NewMetric, create_default_archive_policies};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, Measure, MetricId, SackCount, Statistic, Timespan, Timestamp,
};
use proptest::prelude::*;

/// A store whose writes fail as told: `failures[n]` for the nth call. A failed call has written some of its items.
#[derive(Default)]
struct Flaky {
    store: MemoryAggregates,
    failures: Vec<bool>,
    calls: AtomicU32,
}

#[async_trait]
impl AggregateStore for Flaky {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        self.store.read_heads(metrics).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        self.store.read_blocks(ranges).await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        self.store.list_blocks(ranges).await
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        self.store.raise(fence).await
    }

    async fn write(&self, fence: Fence, mut writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) as usize;
        if !self.failures.get(call).copied().unwrap_or(false) {
            return self.store.write(fence, writes).await;
        }
        let failing = writes.split_off(writes.len() / 2);
        let mut answers = self.store.write(fence, writes).await;
        answers.extend(failing.iter().map(|_| Err(StoreError::NoSpace("by the test".into()))));
        answers
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        self.store.delete(fence, metrics).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }
}

const METRICS: usize = 3;

struct House {
    engine: Arc<Engine>,
    incoming: Arc<MemoryIncoming>,
    policy: Arc<ArchivePolicy>,
    metrics: Vec<MetricId>,
}

async fn house(failures: Vec<bool>) -> House {
    let indexer = Arc::new(MemoryIndexer::default());
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let metrics: Vec<MetricId> =
        (0..METRICS).map(|n| MetricId(uuid::Uuid::from_u128(n as u128 * 7 + 1))).collect();
    let new = metrics.iter().map(|&id| NewMetric {
        id,
        creator: "admin".into(),
        name: None,
        unit: None,
        archive_policy_name: "medium".into(),
        resource_id: None,
        created_at: Timestamp::EPOCH,
    });
    for created in gnudi_indexer::Metrics::create_metrics(&*indexer, new.collect()).await {
        created.unwrap();
    }
    let policy = gnudi_indexer::ArchivePolicies::archive_policy(&*indexer, "medium").await.unwrap().unwrap();
    let incoming = Arc::new(MemoryIncoming::new(SackCount(NonZeroU16::new(2).unwrap()), u64::MAX));
    let store = Arc::new(Flaky { failures, ..Flaky::default() });
    let indexer: Arc<dyn Indexer> = indexer;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    House { engine, incoming, policy, metrics }
}

impl House {
    async fn append(&self, metric: usize, points: &[Measure]) {
        let mut batch = Batch::default();
        batch
            .push(self.metrics[metric], points.len() as u32, |out| gnudi_series::points::encode(points, out));
        self.engine.append(batch).await.unwrap();
    }

    async fn refresh(&self) -> Result<(), gnudi_engine::EngineError> {
        self.engine.refresh(&self.metrics, Duration::from_secs(10)).await
    }

    async fn read(&self, metric: usize, method: Statistic) -> HashMap<Timestamp, f64> {
        let minute = Timespan::from_secs(60);
        let aggregation = self.policy.aggregation(AggregationMethod::new(method), minute).unwrap();
        let query =
            MeasuresQuery { aggregations: vec![aggregation], start: None, stop: None, resample: None };
        let answer =
            self.engine.measures(self.metrics[metric], &self.policy, &query).await.unwrap().remove(0);
        answer.timestamps.into_iter().zip(answer.values).collect()
    }
}

fn point(second: i64, value: f64) -> Measure {
    Measure { timestamp: Timestamp::from_secs(second), value }
}

#[derive(Clone, Debug)]
enum Step {
    Append { metric: usize, minutes: Vec<u8> },
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..METRICS, proptest::collection::vec(0u8..120, 1..6))
        .prop_map(|(metric, minutes)| Step::Append { metric, minutes });
    proptest::collection::vec(prop_oneof![4 => append, 1 => Just(Step::Refresh)], 1..40)
}

/// Applies the steps and returns what can be read of each metric. Each append has seconds of its own, so that nothing is
/// replaced; times grow from append to append, so that nothing is late.
async fn play(
    steps: &[Step],
    failures: Vec<bool>,
    refresh_between: bool,
) -> Vec<[HashMap<Timestamp, f64>; 2]> {
    let house = house(failures).await;
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Append { metric, minutes } => {
                let start = index as i64 * 7200;
                let points: Vec<Measure> = minutes
                    .iter()
                    .enumerate()
                    .map(|(second, minute)| {
                        point(start + i64::from(*minute) * 60 + second as i64, f64::from(*minute))
                    })
                    .collect();
                house.append(*metric, &points).await;
            }
            Step::Refresh if refresh_between => drop(house.refresh().await),
            Step::Refresh => {}
        }
    }
    // Failures end: the list is finite.
    while house.refresh().await.is_err() {}
    assert_eq!(house.incoming.backlog().await.unwrap().measures, 0);
    let mut readable = Vec::new();
    for metric in 0..METRICS {
        readable.push([house.read(metric, Statistic::Count).await, house.read(metric, Statistic::Sum).await]);
    }
    readable
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn cuts_and_failures_change_nothing(
        steps in steps(),
        failures in proptest::collection::vec(any::<bool>(), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let expected = runtime.block_on(play(&steps, Vec::new(), false));
        let counted: f64 = expected.iter().flat_map(|[count, _]| count.values()).sum();
        let appended: usize = steps.iter().map(|step| match step {
            Step::Append { minutes, .. } => minutes.len(),
            Step::Refresh => 0,
        }).sum();
        prop_assert_eq!(counted, appended as f64);
        prop_assert_eq!(runtime.block_on(play(&steps, failures, true)), expected);
    }
}

#[tokio::test]
async fn measures_of_a_deleted_metric_are_dropped_and_its_data_goes() {
    let house = house(Vec::new()).await;
    house.append(0, &[point(0, 1.0)]).await;
    house.append(1, &[point(0, 1.0)]).await;
    house.refresh().await.unwrap();
    house.append(0, &[point(60, 1.0)]).await;
    for deleted in house.engine.indexer().delete_metrics(&house.metrics[..1]).await {
        deleted.unwrap();
    }
    house.refresh().await.unwrap();
    assert_eq!(house.engine.figures().measures_orphaned.load(Ordering::Relaxed), 1);
    assert_eq!(house.engine.expunge(10, || true).await.unwrap(), 1);
    assert_eq!(house.engine.expunge(10, || true).await.unwrap(), 0);
    assert!(house.read(0, Statistic::Count).await.is_empty());
    assert_eq!(house.read(1, Statistic::Count).await.len(), 1);
}

#[tokio::test]
async fn status_counts_what_waits() {
    let house = house(Vec::new()).await;
    house.append(0, &[point(0, 1.0), point(60, 1.0)]).await;
    house.append(1, &[point(0, 1.0)]).await;
    let status = house.engine.status(true).await.unwrap();
    assert_eq!((status.metrics_waiting, status.measures_waiting), (2, 3));
    assert_eq!(status.by_metric.unwrap()[&house.metrics[0]], 2);
    house.refresh().await.unwrap();
    let status = house.engine.status(false).await.unwrap();
    assert_eq!((status.metrics_waiting, status.measures_waiting), (0, 0));
}
