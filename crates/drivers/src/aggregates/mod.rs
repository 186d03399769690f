//! The aggregate store: one head per metric, rewritten by each pass, and blocks, written once.
//!
//! The store moves bytes and never decodes them. Calls are batched, with one result per item, in order.
//!
//! Only its owner writes a sack's metrics. Ownership changes, and a former owner may not know it yet: so each
//! write carries its [`Fence`], and the store refuses writes under a superseded lease.

mod holes;
mod key;
pub mod local;
pub mod memory;
mod movable;
pub mod objects;
pub mod redis;
pub(crate) mod table;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Timespan, Timestamp};

pub use self::movable::{Access, Movable, StoreState};
use crate::Figure;
pub use crate::fence::Fence;

/// The name of a sealed block. Blocks of one metric and granularity never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    pub metric: MetricId,
    /// 0 for raw points: then `first` and `last` are times of points instead of starts of buckets.
    pub granularity: Timespan,
    /// The first bucket's start.
    pub first: Timestamp,
    /// The last bucket's start.
    pub last: Timestamp,
}

/// Selects the blocks of a metric and granularity that hold a bucket starting in `from..=to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    pub metric: MetricId,
    pub granularity: Timespan,
    pub from: Timestamp,
    pub to: Timestamp,
}

impl BlockRange {
    /// All blocks of a metric and granularity.
    pub fn all(metric: MetricId, granularity: Timespan) -> Self {
        Self { metric, granularity, from: Timestamp(i64::MIN), to: Timestamp::MAX }
    }
}

/// The blocks in a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The undamaged blocks, oldest first.
    pub whole: Vec<(BlockKey, Bytes)>,
    /// Where other blocks are damaged or may have been lost. Already reported and quarantined.
    pub damaged: Vec<String>,
}

impl Blocks {
    /// A store's answer; a range that is damaged as a whole is one damaged place.
    pub fn of_answer(answer: Result<Self>) -> Result<Self> {
        match answer {
            Err(StoreError::Damaged(place)) => Ok(Blocks { whole: Vec::new(), damaged: vec![place] }),
            answer => answer,
        }
    }
}

/// One pass's changes to one metric. Applied atomically: no reader sees the head without its blocks.
#[derive(Clone, Debug)]
pub struct MetricWrite {
    pub metric: MetricId,
    /// New blocks; each replaces an existing one of the same key.
    pub blocks: Vec<(BlockKey, Bytes)>,
    /// Blocks to delete: expired by the policy's timespan, or superseded.
    pub expired: Vec<BlockKey>,
    pub head: Bytes,
}

impl MetricWrite {
    /// A head without blocks.
    pub fn of_head(metric: MetricId, head: impl Into<Bytes>) -> Self {
        Self { metric, blocks: Vec::new(), expired: Vec::new(), head: head.into() }
    }
}

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why an item could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The stored bytes are damaged; already reported and quarantined. Their neighbours are readable.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A later owner of the sack raised the fence: nothing was written, and the caller must stop writing.
    #[error("the lease on sack {sack} with token {token} was followed by {held}", sack = fence.sack, token = fence.token)]
    Fenced { fence: Fence, held: u64 },
    /// [`Fence::CLOSING`] was raised: nothing was written, and nothing ever will be.
    #[error(
        "the aggregates were moved from here to another engine, or are being moved: [storage] must name that one"
    )]
    Closed,
    /// A shared store does not respond, for now. A failed write may or may not have been applied.
    #[error("the aggregate store does not answer: {0}")]
    Unavailable(String),
    /// No disk space, for now.
    #[error("no space left: {0}")]
    NoSpace(String),
    #[error("{0}")]
    Io(String),
}

impl StoreError {
    /// For a fence below the token `held`.
    pub(crate) fn refused(fence: Fence, held: u64) -> Self {
        if held == Fence::CLOSING.token { StoreError::Closed } else { StoreError::Fenced { fence, held } }
    }

    /// Whether the writer has lost its right to write.
    pub fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Fenced { .. } | StoreError::Closed)
    }
}

#[async_trait]
pub trait AggregateStore: Send + Sync + 'static {
    /// A fault of the store itself, beyond single failed calls.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// Number of damaged places found since the start.
    fn damaged(&self) -> u64 {
        0
    }

    /// Figures of a shared store, for `/metrics`.
    fn shared_figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Whether the changing heads do not fit in memory, so that each written head soon goes to a file. Then the caller
    /// should defer measures, and write a head once for several of them. Only for a store of one process.
    fn heads_exceed_memory(&self) -> bool {
        false
    }

    /// Heads; `None` if a metric has none yet. A head that is damaged or may be lost is
    /// [`StoreError::Damaged`] at each read until it is rewritten; an older one is never returned instead.
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>>;

    /// Like [`AggregateStore::read_heads`], by the process that has raised this fence: nobody else writes these metrics'
    /// heads, so the store need not look for others' writes. An earlier write of this process whose result is unknown is
    /// either in the heads or will never take effect. Under a superseded fence the read may return old heads or fail, and
    /// writes are refused. All metrics must belong to the fence's sack.
    async fn read_own_heads(&self, _fence: Fence, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        self.read_heads(metrics).await
    }

    /// The blocks of each range.
    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks>>;

    /// The keys of the blocks of each range, oldest first, including those of damaged ones if known.
    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>>>;

    /// From now on refuses writes with a lower token to metrics of the fence's sack, in every process. All
    /// writes accepted before are visible to later reads. Fails if a higher fence was raised on a sack that
    /// shares metrics with it.
    async fn raise(&self, fence: Fence) -> Result<()>;

    /// Applies each write atomically; visible to readers once it returns, durable once
    /// [`AggregateStore::sync`] returns. Until then a crash may take back the last writes of some metrics and not
    /// those of others. All metrics must belong to the fence's sack, each with one write at most.
    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<()>>;

    /// Removes heads and blocks; metrics without any are no error. All must belong to the fence's sack. Survives a power
    /// loss once it returns: the index forgets the metrics next, and what came back would never be removed.
    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<()>>;

    /// All earlier writes survive a power loss once this returns.
    async fn sync(&self) -> Result<()>;
}
