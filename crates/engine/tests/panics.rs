//! Defects of the program that make it panic: what they cost, and how they are told.

use std::{
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
    incoming::{Append as _, Batch, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, Metricd, MetricdOptions, metricd::LEASE_DEFAULT};
use gnudi_indexer::{MemoryIndexer, Metrics as _, NewMetric, create_default_archive_policies};
use gnudi_model::{ArchivePolicy, Fault, Measure, MetricId, SackCount, Timestamp};
use gnudi_series::{
    head::{FoldOutcome, Head, Layout},
    points,
};
use uuid::Uuid;

const BAD: f64 = 13.0;

fn fold(head: &mut Head, layout: &Layout, position: u64, points: &mut Vec<Measure>) -> FoldOutcome {
    assert!(points.iter().all(|point| point.value != BAD), "as planned");
    head.fold(layout, position, points)
}

fn metric(number: u128) -> MetricId {
    MetricId(Uuid::from_u128(number))
}

/// Reads of heads panic as often as told.
#[derive(Default)]
struct Panicking {
    store: MemoryAggregates,
    panics: AtomicU32,
}

#[async_trait]
impl AggregateStore for Panicking {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        let left = self.panics.load(Ordering::Relaxed);
        if left > 0 {
            self.panics.store(left - 1, Ordering::Relaxed);
            panic!("as planned");
        }
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

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        self.store.write(fence, writes).await
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        self.store.delete(fence, metrics).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }
}

struct House {
    engine: Arc<Engine>,
    incoming: Arc<MemoryIncoming>,
    store: Arc<Panicking>,
}

/// Three metrics in one sack.
async fn house() -> House {
    let indexer = Arc::new(MemoryIndexer::default());
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let new = (1..=3).map(|number| NewMetric {
        id: metric(number),
        creator: "admin".into(),
        name: None,
        unit: None,
        archive_policy_name: "low".into(),
        resource_id: None,
        created_at: Timestamp::EPOCH,
    });
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
    let incoming = Arc::new(MemoryIncoming::new(SackCount(NonZeroU16::MIN), u64::MAX));
    let store = Arc::new(Panicking::default());
    let engine = Engine::new(indexer, incoming.clone(), store.clone(), || Timestamp::EPOCH).folding(fold);
    House { engine: Arc::new(engine), incoming, store }
}

impl House {
    async fn append(&self, number: u128, second: i64, value: f64) {
        let mut batch = Batch::default();
        let point = [Measure { timestamp: Timestamp::from_secs(second), value }];
        batch.push(metric(number), 1, |out| points::encode(&point, out));
        self.engine.append(batch).await.unwrap();
    }

    /// The newest point that is in the metric's head.
    async fn newest(&self, number: u128) -> Option<i64> {
        let head = self.store.read_heads(&[metric(number)]).await.remove(0).unwrap()?;
        Head::decode(&head).unwrap().last().map(Timestamp::secs)
    }

    async fn worked_off(&self) {
        let worked_off = async {
            while self.incoming.backlog().await.unwrap().measures > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), worked_off).await.expect("the sack is stuck");
    }
}

fn options() -> MetricdOptions {
    let never = Duration::from_hours(1);
    MetricdOptions {
        name: "test".to_owned(),
        workers: 1,
        greedy: true,
        processing_delay: never,
        gather: Duration::from_millis(1),
        checkpoint_delay: never,
        reporting_delay: None,
        cleanup_delay: never,
        cleanup_batch_metrics: 2,
        metric_inactive_after: None,
        resource_cleanup_after: None,
        lease: LEASE_DEFAULT,
        clock: || Timestamp::EPOCH,
    }
}

#[tokio::test]
async fn a_request_whose_fold_panics_costs_no_other() {
    let house = house().await;
    for (number, second, value) in
        [(1, 10, 1.0), (2, 10, 1.0), (2, 20, BAD), (3, 10, 1.0), (1, 30, 1.0), (2, 30, 1.0)]
    {
        house.append(number, second, value).await;
    }
    let metricd = Metricd::start(house.engine.clone(), &options());
    house.worked_off().await;
    for number in 1..=3 {
        assert_eq!(house.newest(number).await, Some(if number == 3 { 10 } else { 30 }), "metric {number}");
    }
    let figures = house.engine.figures();
    assert_eq!(figures.measures_set_aside.load(Ordering::Relaxed), 1);
    assert_eq!(figures.measures_folded.load(Ordering::Relaxed), 5);
    // Also where nothing of the metric is left.
    house.append(3, 40, BAD).await;
    house.append(1, 40, 1.0).await;
    house.worked_off().await;
    assert_eq!((house.newest(1).await, house.newest(3).await), (Some(40), Some(10)));
    assert_eq!(figures.measures_set_aside.load(Ordering::Relaxed), 2);
    assert_eq!(house.engine.cluster().await.unwrap().measures_set_aside, 2, "for the operator");
    assert_eq!(house.engine.faults(), []);
    metricd.stop().await;
}

#[tokio::test]
async fn a_worker_outlives_a_pass_that_panics() {
    let house = house().await;
    house.store.panics.store(1, Ordering::Relaxed);
    house.append(1, 10, 1.0).await;
    let metricd = Metricd::start(house.engine.clone(), &options());
    house.worked_off().await;
    assert_eq!(house.newest(1).await, Some(10));
    assert_eq!(house.engine.faults(), []);
    metricd.stop().await;
}

#[tokio::test]
async fn a_task_that_ends_is_told() {
    fn clock() -> Timestamp {
        panic!("as planned")
    }
    let house = house().await;
    // The janitor asks for the time.
    let janitor = MetricdOptions {
        cleanup_delay: Duration::from_millis(1),
        resource_cleanup_after: Some(gnudi_model::Timespan::from_secs(1)),
        clock,
        ..options()
    };
    let metricd = Metricd::start(house.engine.clone(), &janitor);
    let ended = async {
        while house.engine.faults().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("nobody notices");
    assert_eq!(house.engine.faults(), [Fault::Ended("a task of the workers")]);
    metricd.stop().await;
    assert_eq!(house.engine.faults(), [], "it was told to stop");
}
