//! How often a pass goes to the engines: as often for 1,000 metrics as for 10, sealing and expiry included.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU16,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
        memory::MemoryAggregates,
    },
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Topology,
        memory::MemoryIncoming,
    },
};
use gnudi_engine::Engine;
use gnudi_indexer::{ArchivePolicies as _, Indexer, MemoryIndexer, Metrics as _, NewMetric};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, MetricId, Numbering, Sack, SackCount,
    Statistic, Timespan, Timestamp,
};
use parking_lot::Mutex;

fn metric(number: u128) -> MetricId {
    MetricId(uuid::Uuid::from_u128(number + 1))
}

/// How often each call was made.
#[derive(Default)]
struct Calls(Mutex<BTreeMap<&'static str, usize>>);

impl Calls {
    fn count(&self, call: &'static str) {
        *self.0.lock().entry(call).or_default() += 1;
    }

    fn take(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.0.lock())
    }
}

struct Counted<D> {
    driver: D,
    calls: Arc<Calls>,
}

impl Incoming for Counted<MemoryIncoming> {
    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for Counted<MemoryIncoming> {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
        self.driver.append(batch).await
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        self.driver.backlog().await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        self.driver.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for Counted<MemoryIncoming> {
    fn numbering(&self) -> Numbering {
        self.driver.numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        self.calls.count("pending");
        self.driver.pending(sack, after, bytes_max).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        self.calls.count("acknowledge");
        self.driver.acknowledge(sack, up_to).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        self.driver.trim(up_to).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        self.calls.count("positions");
        self.driver.positions(sacks).await
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.driver.arrivals().await
    }
}

#[async_trait]
impl Topology for Counted<MemoryIncoming> {
    async fn split(&self) -> Result<Numbering, IncomingError> {
        self.driver.split().await
    }

    async fn settle(&self) -> Result<Numbering, IncomingError> {
        self.driver.settle().await
    }
}

#[async_trait]
impl AggregateStore for Counted<MemoryAggregates> {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        self.calls.count("read_heads");
        self.driver.read_heads(metrics).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        self.calls.count("read_blocks");
        self.driver.read_blocks(ranges).await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        self.calls.count("list_blocks");
        self.driver.list_blocks(ranges).await
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        self.driver.raise(fence).await
    }

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        self.calls.count("write");
        if writes.iter().any(|write| !write.blocks.is_empty()) {
            self.calls.count("write: blocks sealed");
        }
        if writes.iter().any(|write| !write.expired.is_empty()) {
            self.calls.count("write: blocks expired");
        }
        self.driver.write(fence, writes).await
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        self.driver.delete(fence, metrics).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.driver.sync().await
    }
}

/// The calls of each of several passes over one sack with so many metrics: each brings enough to seal blocks, the last ones make the
/// first blocks expire.
async fn passes(metrics: u128) -> Vec<BTreeMap<&'static str, usize>> {
    let indexer = Arc::new(MemoryIndexer::default());
    let second = Timespan::from_secs(1);
    let policy = ArchivePolicy {
        name: "short".to_owned(),
        back_window: 0,
        aggregation_methods: [AggregationMethod::new(Statistic::Sum)].into(),
        definition: vec![ArchivePolicyItem::new(Some(second), Some(3600), None).unwrap()],
    };
    indexer.create_archive_policy(policy).await.unwrap();
    let new = (0..metrics).map(|number| NewMetric {
        id: metric(number),
        creator: "admin".into(),
        name: None,
        unit: None,
        archive_policy_name: "short".into(),
        resource_id: None,
        created_at: Timestamp::EPOCH,
    });
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
    let calls = Arc::new(Calls::default());
    let incoming =
        Counted { driver: MemoryIncoming::new(SackCount(NonZeroU16::MIN), u64::MAX), calls: calls.clone() };
    let store = Counted { driver: MemoryAggregates::default(), calls: calls.clone() };
    let indexer: Arc<dyn Indexer> = indexer;
    let engine = Engine::new(indexer, Arc::new(incoming), Arc::new(store), || Timestamp::EPOCH);
    let mut counted = Vec::new();
    for pass in 0..5 {
        let mut batch = Batch::default();
        for number in 0..metrics {
            // An hour apart, some points at each end.
            let points: Vec<Measure> = (0..130)
                .map(|point| Measure { timestamp: Timestamp::from_secs(pass * 3600 + point), value: 1.0 })
                .collect();
            batch.push(metric(number), 130, |out| gnudi_series::points::encode(&points, out));
        }
        engine.append(batch).await.unwrap();
        calls.take();
        engine.refresh(&[metric(0)], Duration::from_mins(1)).await.unwrap();
        counted.push(calls.take());
    }
    counted
}

#[tokio::test]
async fn a_pass_makes_as_many_calls_for_many_metrics_as_for_few() {
    let few = passes(10).await;
    assert_eq!(few, passes(1000).await);
    let total = |call| few.iter().filter_map(|pass| pass.get(call)).sum::<usize>();
    assert!(total("write: blocks sealed") > 0, "{few:?}");
    assert!(total("write: blocks expired") > 0, "{few:?}");
    for pass in &few {
        for call in ["pending", "read_heads", "write", "acknowledge"] {
            assert_eq!(pass.get(call), Some(&1), "{few:?}");
        }
        assert!(pass.get("list_blocks").is_none_or(|calls| *calls == 1), "{few:?}");
    }
}
