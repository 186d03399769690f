//! Aggregates in memory behind a hook that sees each call before it is executed.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError, memory::MemoryAggregates,
};
use gnudi_model::MetricId;

/// Gets a call and its writes; returns how many of the writes succeed (all if larger).
type Tap = Box<dyn Fn(&'static str, &[MetricWrite]) -> usize + Send + Sync>;

pub struct Tapped {
    store: MemoryAggregates,
    tap: Tap,
    /// Metrics whose deletion fails.
    undeletable: Vec<MetricId>,
    /// The duration of a write.
    delay: Duration,
    /// The duration of a raise of a fence.
    raise_delay: Duration,
    /// Whether passes should defer measures.
    defers: bool,
    writing: AtomicUsize,
    /// The most writes at once so far.
    pub most_writing: AtomicUsize,
}

impl Tapped {
    pub fn new(tap: impl Fn(&'static str, &[MetricWrite]) -> usize + Send + Sync + 'static) -> Self {
        let (store, undeletable, delay, raise_delay, defers, writing, most_writing) = Default::default();
        Tapped { store, tap: Box::new(tap), undeletable, delay, raise_delay, defers, writing, most_writing }
    }

    #[must_use]
    pub fn deferring(self, defers: bool) -> Self {
        Tapped { defers, ..self }
    }

    pub fn slow(delay: Duration) -> Self {
        Tapped { delay, ..Tapped::new(|_, writes| writes.len()) }
    }

    pub fn raising_slowly(raise_delay: Duration) -> Self {
        Tapped { raise_delay, ..Tapped::new(|_, writes| writes.len()) }
    }

    pub fn keeping(undeletable: Vec<MetricId>) -> Self {
        Tapped { undeletable, ..Tapped::new(|_, writes| writes.len()) }
    }

    /// `failures[n]` says whether the nth write fails. A failed write has written half of its items.
    pub fn failing(failures: Vec<bool>) -> Self {
        let writes_seen = AtomicUsize::new(0);
        Tapped::new(move |call, writes| {
            let fails = || failures.get(writes_seen.fetch_add(1, Ordering::Relaxed)).copied();
            if call == "write" && fails().unwrap_or(false) { writes.len() / 2 } else { writes.len() }
        })
    }
}

#[async_trait]
impl AggregateStore for Tapped {
    fn heads_exceed_memory(&self) -> bool {
        self.defers
    }

    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        (self.tap)("read_heads", &[]);
        self.store.read_heads(metrics).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        (self.tap)("read_blocks", &[]);
        self.store.read_blocks(ranges).await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        (self.tap)("list_blocks", &[]);
        self.store.list_blocks(ranges).await
    }

    async fn raise(&self, fence: Fence) -> Result<(), StoreError> {
        if !self.raise_delay.is_zero() {
            tokio::time::sleep(self.raise_delay).await;
        }
        self.store.raise(fence).await
    }

    async fn write(&self, fence: Fence, mut writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let writing = self.writing.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_writing.fetch_max(writing, Ordering::Relaxed);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        self.writing.fetch_sub(1, Ordering::Relaxed);
        let taken = (self.tap)("write", &writes).min(writes.len());
        let refused = writes.split_off(taken).len();
        let mut answers = self.store.write(fence, writes).await;
        answers.extend((0..refused).map(|_| Err(StoreError::NoSpace("by the test".into()))));
        answers
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        let answers = self.store.delete(fence, metrics).await;
        let kept = |metric| self.undeletable.contains(metric).then(|| StoreError::Io("by the test".into()));
        metrics.iter().zip(answers).map(|(metric, answer)| kept(metric).map_or(answer, Err)).collect()
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }
}
