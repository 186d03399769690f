//! The statements that search resources.

use std::sync::Arc;

use gnudi_model::{Resource, Timestamp};

use super::super::SqlIndexer;
use crate::{DeletedResources, Filter, IndexerError, ResourceListing};

fn not_built() -> IndexerError {
    IndexerError::Database("not built yet".to_owned())
}

#[allow(clippy::unused_async)]
pub(super) async fn delete_matching(
    _indexer: &SqlIndexer,
    _resource_type: &str,
    _filter: &Filter,
    _now: Timestamp,
) -> Result<DeletedResources, IndexerError> {
    Err(not_built())
}

#[allow(clippy::unused_async)]
pub(super) async fn list(
    _indexer: &SqlIndexer,
    _listing: &ResourceListing,
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    Err(not_built())
}
