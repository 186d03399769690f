//! Imports a Gnocchi: archive policies, rules, resource types, resources with their revisions, metrics with their ids,
//! the aggregates, the points of the back window, and the backlog.
//!
//! `index` reads Gnocchi's database, `source` its storage and incoming storage, `carbonara` its encoding of series, of
//! which `gnudi_series` makes heads. Nothing is changed in Gnocchi. An import consists of rounds, each of which updates
//! the target to Gnocchi's current state: new data is added, changed data updated, deleted data deleted. So an
//! interrupted import can be repeated, and rounds can follow a running Gnocchi.

pub mod carbonara;
mod definitions;
pub mod export;
mod groups;
pub mod index;
mod merge;
mod resources;
mod round;
mod series;
pub mod source;
mod target;
pub mod verify;

use std::{path::Path, sync::Arc};

use gnudi_drivers::aggregates::StoreError;
use gnudi_indexer::IndexerError;
use gnudi_sql::{Host, Server, ServerOptions};

use index::IndexError;
use source::{Incoming, SourceError, Storage};

pub use round::Import;
pub use target::Target;

/// The Gnocchi to import from.
pub struct Source {
    pub index: ServerOptions,
    pub storage: Arc<dyn Storage>,
    pub incoming: Arc<dyn Incoming>,
}

/// Whether a store that was marked with this place is an import of the Gnocchi with this index.
pub fn is_place_of(place: &str, index: &ServerOptions) -> bool {
    const POSTGRES_SOCKETS: &str = "/var/run/postgresql";
    // A URL of PostgreSQL without a host means this socket; for earlier versions it meant localhost.
    let earlier = match &index.host {
        Host::Socket(folder, port)
            if index.server == Server::Postgres && folder == Path::new(POSTGRES_SOCKETS) =>
        {
            Some(ServerOptions { host: Host::Tcp("localhost".to_owned(), *port), ..index.clone() })
        }
        _ => None,
    };
    place == index.place() || earlier.is_some_and(|earlier| place == earlier.place())
}

/// Counters of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub archive_policies: u64,
    pub archive_policy_rules: u64,
    pub resource_types: u64,
    pub resources: u64,
    pub revisions: u64,
    /// Metrics processed.
    pub metrics: u64,
    /// Metrics in Gnocchi.
    pub metrics_total: u64,
    /// Imported before, and unchanged since.
    pub metrics_unchanged: u64,
    /// Imported before, and updated.
    pub metrics_continued: u64,
    /// Imported before, and deleted in Gnocchi since, including those of deleted resources.
    pub metrics_deleted: u64,
    pub resources_deleted: u64,
    pub buckets: u64,
    /// From the backlog, or added since an earlier import.
    pub measures: u64,
    /// Buckets in the back window that later points no longer change ([`gnudi_series::head::ImportOutcome`]).
    pub buckets_finalised: u64,
    /// What was skipped, and why.
    pub skipped: Vec<String>,
    /// Where Gnocchi's storage lacks the series of a metric, if it has none of any metric whose measures do not all wait.
    pub empty_storage: Option<String>,
}

/// Why an import stopped. Imported data stays, and a repeated import continues there.
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
        "workers of gnudi have already processed measures in this store ({0}): import into an unused store"
    )]
    TargetInUse(StoreError),
    #[error(
        "a server of gnudi has opened the store during the import, which ends here: what the server got may be lost; import \
         into an empty store"
    )]
    TargetOpened,
    #[error("another import into this store is running: wait for its end, or end it")]
    TargetTaken,
    #[error("the coordinator does not answer, so that another import into this store may have begun")]
    TargetInDoubt,
    #[error("writing the index: {0}")]
    Indexer(#[from] IndexerError),
    #[error("writing the aggregates: {0}")]
    Aggregates(StoreError),
}

impl ImportError {
    /// Whether Gnocchi, or an engine of the target, did not respond: a later round may succeed.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Index(IndexError::Database { .. })
                | Self::Storage(_)
                | Self::Incoming(_)
                | Self::Indexer(IndexerError::Unavailable(_) | IndexerError::Contended(_))
                | Self::Aggregates(StoreError::Unavailable(_))
                | Self::TargetInDoubt
        )
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

/// Called with the counters from time to time.
pub type Tell<'a> = &'a mut (dyn FnMut(&Report) + Send);

#[cfg(test)]
mod tests {
    use gnudi_sql::DatabaseOptions;

    use super::*;

    #[test]
    fn an_import_that_an_earlier_version_began_is_known() {
        for (url, place, expected) in [
            ("postgresql://me@h/d", "postgresql://me@h:5432/d", true),
            ("postgresql://me@h/d", "postgresql://me@localhost:5432/d", false),
            ("postgresql://me@/d", "postgresql://me@/d by /var/run/postgresql", true),
            ("postgresql://me@/d", "postgresql://me@localhost:5432/d", true),
            ("postgresql://me@:5433/d", "postgresql://me@localhost:5433/d", true),
            ("postgresql://me@:5433/d", "postgresql://me@localhost:5432/d", false),
            ("postgresql://me@/other", "postgresql://me@localhost:5432/d", false),
            ("postgresql://me@/d?host=/run/other", "postgresql://me@localhost:5432/d", false),
            ("mysql+pymysql://me@h/d?unix_socket=/run/s", "mysql://me@localhost:0/d", false),
        ] {
            let DatabaseOptions::Server(index) = DatabaseOptions::from_url(url).unwrap() else {
                panic!("a server's URL")
            };
            assert_eq!(is_place_of(place, &index), expected, "{url} {place}");
        }
    }
}
