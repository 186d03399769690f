//! Searches among resources in memory.

use std::sync::Arc;

use gnudi_model::{Resource, Timestamp};

use super::MemoryIndexer;
use crate::{DeletedResources, Filter, IndexerError, ResourceListing};

fn not_built() -> IndexerError {
    IndexerError::Database("not built yet".to_owned())
}

#[allow(clippy::unused_async)]
pub(super) async fn delete_matching(
    _indexer: &MemoryIndexer,
    _resource_type: &str,
    _filter: &Filter,
    _now: Timestamp,
) -> Result<DeletedResources, IndexerError> {
    Err(not_built())
}

#[allow(clippy::unused_async)]
pub(super) async fn list(
    _indexer: &MemoryIndexer,
    _listing: &ResourceListing,
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    Err(not_built())
}
