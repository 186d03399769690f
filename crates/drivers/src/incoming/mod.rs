//! Where measures wait between the API's 202 and the worker that folds them.
//!
//! A batch is what one request brought. Within a sack, records keep the order in which they were accepted; a [`Position`]
//! numbers them.
//!
//! A store may be shared by many processes: those of the API append, and for each sack one worker at a time reads and
//! acknowledges. An acknowledgement says that the records are in the aggregates, which stays true whoever says it and
//! however late; so the store takes the highest that it is told, and needs no proof of who owns the sack.

pub mod journal;
pub mod log;
pub mod memory;
pub mod objects;
pub mod redis;
pub mod registry;

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Numbering, Sack};

use self::journal::JournalFigures;

/// The place of a record in its sack's order. Grows from record to record, across restarts and failovers too, and from a sack
/// to those that take its place when the count is doubled; 0 is before the first.
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

/// The backlog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub measures: u64,
    /// Stored bytes, the figure that `backlog_bytes_max` limits.
    pub bytes: u64,
}

/// What one read of a sack found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Oldest first, whole batches.
    pub records: Vec<Record>,
    /// Whether more may wait behind them.
    pub more: bool,
}

/// How far a sack has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Up to here its records are in the aggregates.
    pub acknowledged: Position,
    /// Of its newest record.
    pub newest: Position,
}

impl Positions {
    pub fn is_idle(self) -> bool {
        self.acknowledged >= self.newest
    }
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
    /// A shared store does not answer, for now (503). Whether it has the batch that met the failure is not known; the
    /// client sends it again, which changes nothing where it was taken.
    #[error("the incoming store does not answer: {0}")]
    Unavailable(String),
    /// The count of sacks cannot be doubled; says why.
    #[error("{0}")]
    NoSplit(String),
    /// Reading back failed.
    #[error("{0}")]
    Io(String),
}

/// What the API asks of the store: to take measures, and to report the backlog.
#[async_trait]
pub trait Append: Send + Sync + 'static {
    /// Takes a request's measures. `Ok` means durable, as far as the configured durability says. An error of an embedded store
    /// means that none of them will ever be seen by a worker ([`IncomingError::Poisoned`] aside), and they are seen all at once;
    /// a shared store keeps this promise for each sack by itself. A call that is dropped before it answers may have taken
    /// them or not.
    async fn append(&self, batch: Batch) -> Result<(), IncomingError>;

    async fn backlog(&self) -> Result<Backlog, IncomingError>;

    /// Measures that wait, by metric: reads the whole backlog.
    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError>;
}

/// What workers ask of the store, and whoever waits for them.
#[async_trait]
pub trait Consume: Send + Sync + 'static {
    /// Which sacks there are, as this process knows; another process may have begun to double their count a moment ago.
    fn numbering(&self) -> Numbering;

    /// The records of a sack behind `after`, oldest first, whole batches, about `bytes_max` of them and at least one
    /// batch where any waits. Damaged records are reported, quarantined and left out.
    /// Of a shared store, what another process appended a moment ago may be missing, but nothing that this process has seen in
    /// `positions` or appended itself.
    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError>;

    /// Up to here the sack's records are in the aggregates: they no longer count as backlog and `pending` need not
    /// return them. They may come back after a restart, until they are trimmed. Never ahead of the newest record. Other
    /// processes see it soon.
    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError>;

    /// Up to these positions the aggregates are durable: the space of the records may be reused. Called from time to time, for
    /// all sacks of this process's workers at once; never ahead of `acknowledge`.
    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError>;

    /// How far each of the sacks has come; one trip to the store, or one for each of its servers.
    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError>;

    /// Waits until some sack has records that no earlier call has named, and names those sacks, each once, as long as
    /// this process lives. A shared store may miss some, or name some in which nothing is: workers look at all of their
    /// sacks from time to time.
    async fn arrivals(&self) -> Vec<Sack>;
}

/// Changes of the count of sacks, which only stores that processes share have.
#[async_trait]
pub trait Topology: Send + Sync + 'static {
    /// Doubles the count of sacks, or goes on where an earlier call was interrupted; returns once all processes append to
    /// the new sacks (those that would not are refused by the store, and learn it). What came before stays in the old ones
    /// until it is processed: the numbering is draining. Where it drains already, that is all.
    async fn split(&self) -> Result<Numbering, IncomingError>;

    /// Ends the draining, if all the old sacks are idle; returns the numbering then. Any process may call it.
    async fn settle(&self) -> Result<Numbering, IncomingError>;
}

/// A whole incoming store.
pub trait Incoming: Append + Consume {
    /// What is wrong with it, beyond single calls that fail.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// `None` of a store whose count of sacks never changes.
    fn topology(&self) -> Option<&dyn Topology> {
        None
    }

    /// Of the journal in front of it, if there is one.
    fn journal(&self) -> Option<JournalFigures> {
        None
    }
}

/// The refusal of a split beyond what there can be.
pub(crate) fn too_many(numbering: Numbering) -> IncomingError {
    IncomingError::NoSplit(format!("{} sacks cannot be doubled: there can be 65535", numbering.count.get()))
}
