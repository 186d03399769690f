//! Where measures wait between the API's 202 and the worker that folds them.
//!
//! A batch is what one request brought: it becomes durable and visible as a whole or not at all. Within a sack,
//! records keep the order in which they were accepted; a [`Position`] numbers them.

pub mod log;
pub mod memory;

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{MetricId, SackCount, SackId};

/// The place of a record in its sack's order. Grows from record to record, across restarts too; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The measures of one request, encoded, grouped by metric.
#[derive(Debug, Default)]
pub struct Batch {
    /// Entries in the request's order, each with the range of its points in `bytes`.
    pub entries: Vec<Entry>,
    /// The encoded points of all entries, one behind the other.
    pub bytes: Vec<u8>,
}

/// One metric's part of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub metric: MetricId,
    /// How many measures `bytes[start..end]` encodes.
    pub measures: u32,
    pub start: usize,
    pub end: usize,
}

impl Batch {
    /// Adds a metric's points: `encode` appends them to the buffer.
    pub fn push(&mut self, metric: MetricId, measures: u32, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.entries.push(Entry { metric, measures, start, end: self.bytes.len() });
    }

    pub fn measures(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.measures)).sum()
    }
}

/// One metric's part of a batch, as a worker reads it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the batch within the sack: all records of one batch in one sack share it.
    pub position: Position,
    pub metric: MetricId,
    pub measures: u32,
    pub points: Bytes,
}

/// What waits to be processed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub measures: u64,
    /// Stored bytes, the figure that `backlog_bytes_max` limits.
    pub bytes: u64,
}

/// Why measures were not taken or not given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncomingError {
    /// The backlog's limit is reached: the client should come back later (429).
    #[error("the backlog is full: {bytes} bytes wait, the limit is {limit}")]
    BacklogFull { bytes: u64, limit: u64 },
    /// No space, for now: nothing of the batch was kept, and a later append may succeed (503).
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The store can no longer promise durability and takes no more writes in this process (503). Whether the batch
    /// that met the failure is there after a restart, the disk decides.
    #[error("the incoming store is out of order: {0}")]
    Poisoned(String),
    /// Reading back failed.
    #[error("{0}")]
    Io(String),
}

#[async_trait]
pub trait Incoming: Send + Sync + 'static {
    fn sack_count(&self) -> SackCount;

    /// Takes a request's measures. `Ok` means durable, as far as the configured durability says; an error means that
    /// none of them will ever be seen by a worker ([`IncomingError::Poisoned`] aside). A call that is dropped
    /// before it answers may have taken them or not.
    async fn append(&self, batch: Batch) -> Result<(), IncomingError>;

    /// The records of a sack behind `after`, oldest first, whole batches, about `bytes_max` of them and at least one
    /// batch where any waits. Damaged records are reported, quarantined and left out.
    async fn pending(
        &self,
        sack: SackId,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<Record>, IncomingError>;

    /// Up to here the sack's records are in the aggregates: they no longer count as backlog and `pending` need not
    /// return them. They may come back after a restart, until they are trimmed. Never ahead of the newest record.
    async fn acknowledge(&self, sack: SackId, up_to: Position) -> Result<(), IncomingError>;

    /// Up to these positions the aggregates are durable: the space of the records may be reused. Called from time to time, for
    /// all sacks at once; never ahead of `acknowledge`.
    async fn trim(&self, up_to: &[(SackId, Position)]) -> Result<(), IncomingError>;

    /// Where the sack's acknowledged records end and its newest record stands.
    async fn positions(&self, sack: SackId) -> (Position, Position);

    /// Waits until some sack has records that no earlier call has named, and names those sacks, each once.
    async fn arrivals(&self) -> Vec<SackId>;

    async fn backlog(&self) -> Backlog;

    /// Measures that wait, by metric: reads the whole backlog.
    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError>;
}
