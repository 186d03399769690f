//! Takes over what a Gnocchi holds: archive policies, rules, resource types, resources with their revisions, metrics with their ids, the
//! aggregates, the points of the back window, and the measures that wait.
//!
//! `index` reads Gnocchi's database, `source` its storage and its incoming, `carbonara` the bytes of its series; `gnudi_series` makes heads
//! of them. Nothing is changed there. An import is made of rounds, each of which brings the target up to date with what Gnocchi has at
//! that time: what is new is added, what has changed is changed, what was deleted is deleted. So an import that was cut short is run
//! again, and rounds follow a Gnocchi that goes on.

pub mod carbonara;
mod definitions;
pub mod export;
pub mod index;
mod resources;
mod round;
mod series;
pub mod source;
mod target;
pub mod verify;

use std::sync::Arc;

use gnudi_drivers::aggregates::StoreError;
use gnudi_indexer::IndexerError;
use gnudi_sql::ServerOptions;

use index::IndexError;
use source::{Incoming, SourceError, Storage};

pub use round::Import;
pub use target::Target;

/// Where the import reads.
pub struct Source {
    pub index: ServerOptions,
    pub storage: Arc<dyn Storage>,
    pub incoming: Arc<dyn Incoming>,
}

/// What an import has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub archive_policies: u64,
    pub archive_policy_rules: u64,
    pub resource_types: u64,
    pub resources: u64,
    pub revisions: u64,
    /// Of those that Gnocchi has.
    pub metrics: u64,
    /// How many metrics Gnocchi has.
    pub metrics_total: u64,
    /// Imported before, and the same since.
    pub metrics_unchanged: u64,
    /// Imported before, and brought up to date.
    pub metrics_continued: u64,
    /// Imported before, and deleted in Gnocchi since, as were those of deleted resources.
    pub metrics_deleted: u64,
    pub resources_deleted: u64,
    pub buckets: u64,
    /// That waited, or that have come since an earlier import.
    pub measures: u64,
    /// Buckets inside the back window that later points do not change any more ([`gnudi_series::head::ImportOutcome`]).
    pub buckets_finalised: u64,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// Why an import stopped. What was imported before stays, and the same import goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("reading Gnocchi's storage: {0}")]
    Storage(#[from] SourceError),
    #[error("reading Gnocchi's incoming measures: {0}")]
    Incoming(SourceError),
    #[error("the archive policy {0} is there already, and is another one: import into an empty store")]
    OtherArchivePolicy(String),
    #[error("the resource type {0} is there already, and is another one: import into an empty store")]
    OtherResourceType(String),
    #[error(
        "{0} metrics kept changing while they were read: is something other than Gnocchi writing to its storage?"
    )]
    InMotion(usize),
    #[error("the stored state of metric {metric} is damaged: {reason}")]
    Head { metric: uuid::Uuid, reason: String },
    #[error(
        "workers of gnudi have folded measures in this store already ({0}): import into one that nobody has used"
    )]
    TargetInUse(StoreError),
    #[error("writing the index: {0}")]
    Indexer(#[from] IndexerError),
    #[error("writing the aggregates: {0}")]
    Aggregates(StoreError),
}

impl ImportError {
    /// Whether Gnocchi did not answer, which a later round need not meet.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Index(IndexError::Database { .. }) | Self::Storage(_) | Self::Incoming(_))
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { .. } => ImportError::TargetInUse(error),
            error => ImportError::Aggregates(error),
        }
    }
}

/// Told what was done so far, now and then.
pub type Tell<'a> = &'a mut (dyn FnMut(&Report) + Send);
