//! Where aggregates lie: per metric one head, rewritten at each pass, and blocks, written once.
//!
//! The store moves bytes and never decodes them. Calls are batched, with one answer per item, in order.
//!
//! A sack's metrics are written by its owner alone. Who that is changes, and a former owner may not know it yet; so each write
//! names its [`Fence`], and the store refuses those of a lease that was followed by another.

mod entry;
mod holes;
mod key;
pub mod local;
pub mod memory;
mod movable;
pub mod objects;
pub mod redis;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Timespan, Timestamp};

pub use self::movable::{Access, Movable, StoreState};
pub use crate::fence::Fence;

/// The name of a sealed block. Blocks of one metric and granularity never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    pub metric: MetricId,
    /// 0 for raw points, whose times then stand where others have starts of buckets.
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

/// What a range has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The blocks that are whole, oldest first.
    pub whole: Vec<(BlockKey, Bytes)>,
    /// Where others are damaged, or may have been lost. It was reported and set aside.
    pub damaged: Vec<String>,
}

/// What one pass changed of one metric. Applied so that a reader never sees the head without its blocks.
#[derive(Clone, Debug)]
pub struct MetricWrite {
    pub metric: MetricId,
    /// New blocks; one that exists under the same key is replaced.
    pub blocks: Vec<(BlockKey, Bytes)>,
    /// Blocks to delete: expired by the policy's timespan, or others take their place.
    pub expired: Vec<BlockKey>,
    pub head: Bytes,
}

/// Why an item could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The stored bytes are damaged. They have been reported and set aside; their neighbours are readable.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Another owner of the sack has raised the fence: nothing was written, and whoever writes must stop.
    #[error("the lease on sack {sack} with token {token} was followed by {held}", sack = fence.sack, token = fence.token)]
    Fenced { fence: Fence, held: u64 },
    /// [`Fence::CLOSING`] was raised: nothing was written, and nothing ever will be.
    #[error(
        "the aggregates were moved from here to another engine, or are being moved: [storage] must name that one"
    )]
    Closed,
    /// A shared store does not answer, for now. Whether it has the write that met the failure is not known.
    #[error("the aggregate store does not answer: {0}")]
    Unavailable(String),
    /// No space, for now.
    #[error("no space left: {0}")]
    NoSpace(String),
    #[error("{0}")]
    Io(String),
}

impl StoreError {
    /// Of a fence against which a higher token is held.
    pub(crate) fn refused(fence: Fence, held: u64) -> Self {
        if held == Fence::CLOSING.token { StoreError::Closed } else { StoreError::Fenced { fence, held } }
    }

    /// Whether whoever writes has lost the right to.
    pub fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Fenced { .. } | StoreError::Closed)
    }
}

#[async_trait]
pub trait AggregateStore: Send + Sync + 'static {
    /// What is wrong with it, beyond single calls that fail.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// Heads, `None` where a metric has none yet. A head that is damaged, or may have been lost, is [`StoreError::Damaged`] at each
    /// read until another is written: no older one stands in for it.
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>>;

    /// The blocks of each range.
    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>>;

    /// The keys of the blocks of each range, oldest first; those of damaged ones too, where they are known.
    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>>;

    /// From now on refuses writes to metrics of the fence's sack, in this or any other process, whose token is lower; whatever
    /// was accepted before is visible to reads that follow. Refused itself where a higher fence was raised on a sack that
    /// shares metrics with it.
    async fn raise(&self, fence: Fence) -> Result<(), StoreError>;

    /// Applies each write as a whole; visible to readers once it returns, durable once [`AggregateStore::sync`] returns. All
    /// metrics lie in the fence's sack.
    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>>;

    /// Removes heads and blocks; a metric without any is no error. All metrics lie in the fence's sack.
    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<(), StoreError>>;

    /// All earlier writes survive a power cut once this returns.
    async fn sync(&self) -> Result<(), StoreError>;
}
