//! The incoming store: where measures wait between the API's 202 and the worker that folds them.
//!
//! A batch holds one request's measures. Records of a sack keep the order in which they were accepted; a
//! [`Position`] numbers them.
//!
//! Many processes may share a store: API processes append, and for each sack one worker at a time reads and
//! acknowledges. An acknowledgement states that records are in the aggregates, which stays true regardless of
//! its sender and delay. So the store keeps the highest acknowledged position, and does not check who owns the
//! sack.

pub mod journal;
pub mod log;
pub mod memory;
pub mod objects;
pub mod redis;
pub mod registry;
mod write_queue;

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Numbering, Sack};

use self::journal::JournalFigures;
use crate::Figure;

/// A record's place in its sack's order. Grows with each record, across restarts and failovers, and from a
/// sack to its successors when the sack count is doubled. 0 precedes the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The measures of one request, encoded, grouped by metric.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Entries in the request's order, each with the range of its points in `bytes`.
    pub entries: Vec<Entry>,
    /// The encoded points of all entries, concatenated.
    pub bytes: Vec<u8>,
}

/// One metric's part of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub metric: MetricId,
    /// Number of measures encoded in `bytes[start..end]`.
    pub measures: u32,
    pub start: usize,
    pub end: usize,
}

impl Batch {
    /// Adds a metric's points, which `encode` appends to the buffer.
    pub fn push(&mut self, metric: MetricId, measures: u32, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.entries.push(Entry { metric, measures, start, end: self.bytes.len() });
    }

    pub fn measures(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.measures)).sum()
    }
}

/// One metric's part of a batch, as workers read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The batch's position within the sack, shared by all its records there.
    pub position: Position,
    pub metric: MetricId,
    pub measures: u32,
    pub points: Bytes,
}

/// All measures not yet acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub measures: u64,
    /// Stored bytes, limited by `backlog_bytes_max`.
    pub bytes: u64,
}

/// The result of one read of a sack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Oldest first, whole batches.
    pub records: Vec<Record>,
    /// Whether more may follow.
    pub more: bool,
}

/// How much a trim would free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimNeed {
    /// Too little.
    None,
    /// Enough for a trim, which may wait.
    Useful,
    /// So much that a trim must not wait, or space is short.
    Urgent,
}

/// How far a sack has been processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// All records up to here are in the aggregates, or the only process that passes over the sack holds them until
    /// the next trim.
    pub acknowledged: Position,
    /// The position of the newest record.
    pub newest: Position,
}

impl Positions {
    pub fn is_idle(self) -> bool {
        self.acknowledged >= self.newest
    }
}

/// The result of a call of an incoming store.
pub type Result<T, E = IncomingError> = std::result::Result<T, E>;

/// Why an append or a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncomingError {
    /// The backlog has reached its limit: the client should retry later (429).
    #[error("the backlog is full: {bytes} bytes are pending, the limit is {limit}")]
    BacklogFull { bytes: u64, limit: u64 },
    /// No disk space, for now: no part of the batch was kept, and a later append may succeed (503).
    #[error("no space left: {0}")]
    NoSpace(String),
    /// Durability is no longer guaranteed, so this process accepts no more writes (503). The failed batch may
    /// or may not exist after a restart.
    #[error("the incoming store is out of order: {0}")]
    Poisoned(String),
    /// A shared store does not respond, for now (503). A failed batch may or may not have been stored; the
    /// client retries, which is idempotent.
    #[error("the incoming store does not answer: {0}")]
    Unavailable(String),
    /// The sack count cannot be doubled; gives the reason.
    #[error("{0}")]
    NoSplit(String),
    /// A read failed, or no file could be opened for a write: no part of the batch was kept.
    #[error("{0}")]
    Io(String),
}

/// What the API uses: it appends measures and reports the backlog.
#[async_trait]
pub trait Append: Send + Sync + 'static {
    /// Appends a request's measures. `Ok` means durable, to the configured degree. With an embedded store, an
    /// error means that no worker will ever see any of them (except after [`IncomingError::Poisoned`]), and
    /// all become visible at once; a shared store guarantees this for each sack separately. A call dropped
    /// before it returns may or may not have stored them.
    async fn append(&self, batch: Batch) -> Result<()>;

    async fn backlog(&self) -> Result<Backlog>;

    /// Waiting measures by metric; reads the whole backlog.
    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>>;
}

/// What workers use, and callers that wait for them.
#[async_trait]
pub trait Consume: Send + Sync + 'static {
    /// The sack count as this process knows it; another process may just have begun to double it.
    fn numbering(&self) -> Numbering;

    /// The records of a sack after `after`, oldest first, in whole batches of about `bytes_max` bytes in
    /// total, at least one batch if any waits. Damaged records are reported, quarantined and skipped. On a
    /// shared store recent appends of other processes may be missing, but nothing that this process appended
    /// itself or has seen in `positions`.
    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending>;

    /// The sack's records up to here are in the aggregates: they no longer count as backlog, and `pending`
    /// may omit them. Until they are trimmed, they may reappear after a restart. `up_to` must not exceed the
    /// newest record. Other processes see the acknowledgement soon.
    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<()>;

    /// Repeats an acknowledgement, which the store may have lost: a failover of Redis. Unlike that one `up_to` may
    /// exceed the newest record, which may be lost, too.
    async fn acknowledge_again(&self, _sack: Sack, _up_to: Position) -> Result<()> {
        Ok(())
    }

    /// The aggregates are durable up to these positions: the records' space may be reused. Called from time
    /// to time for all sacks of this process's workers; positions must not exceed those acknowledged.
    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<()>;

    /// How much a trim would free.
    fn trim_need(&self) -> TrimNeed {
        TrimNeed::Urgent
    }

    /// The positions of each sack, in one round trip to the store or to each of its servers.
    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>>;

    /// The positions of those sacks whose server responds; fails if none does.
    async fn reachable_positions(&self, sacks: &[Sack]) -> Result<Vec<(Sack, Positions)>> {
        let positions = self.positions(sacks).await?;
        Ok(sacks.iter().copied().zip(positions).collect())
    }

    /// Waits until some sack has records that no earlier call has reported, and returns those sacks without
    /// duplicates. Valid for the process's lifetime. A shared store may omit sacks or report empty ones:
    /// workers also poll all their sacks from time to time.
    async fn arrivals(&self) -> Vec<Sack>;
}

/// Changes of the sack count, which only shared stores support.
#[async_trait]
pub trait Topology: Send + Sync + 'static {
    /// Doubles the sack count, or resumes an interrupted call. Returns once all processes append to the new
    /// sacks (the store rejects appends to the old ones, which tells the processes). Earlier records stay in
    /// the old sacks until processed: the numbering drains. Does nothing more while it drains already.
    async fn split(&self) -> Result<Numbering>;

    /// Ends the draining if all old sacks are idle, and returns the numbering. Any process may call it.
    async fn settle(&self) -> Result<Numbering>;
}

/// A whole incoming store.
pub trait Incoming: Append + Consume {
    /// A fault of the store itself, beyond single failed calls.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// `None` if the store's sack count is fixed.
    fn topology(&self) -> Option<&dyn Topology> {
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

    /// Of the journal in front of the store, if there is one.
    fn journal(&self) -> Option<JournalFigures> {
        None
    }
}

/// The error for a split beyond the maximum.
pub(crate) fn too_many(numbering: Numbering) -> IncomingError {
    IncomingError::NoSplit(format!("{} sacks cannot be doubled: there can be 65535", numbering.count.get()))
}
