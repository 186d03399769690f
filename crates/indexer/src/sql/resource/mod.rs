//! The statements for resources and their history.

mod listing;
mod row;
mod value;

pub(super) use value::sortable;

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, Timestamp};
use uuid::Uuid;

use super::SqlIndexer;
use crate::{
    DeletedResources, Filter, IndexerError, NewResource, ResourceChange, ResourceListing, Resources,
    UpdatedResource,
};

fn not_built() -> IndexerError {
    IndexerError::Database("not built yet".to_owned())
}

#[async_trait]
impl Resources for SqlIndexer {
    async fn create_resources(
        &self,
        resources: Vec<NewResource>,
    ) -> Vec<Result<Arc<Resource>, IndexerError>> {
        resources.iter().map(|_| Err(not_built())).collect()
    }

    async fn resource(&self, _: &str, _: Uuid) -> Result<Option<Arc<Resource>>, IndexerError> {
        Err(not_built())
    }

    async fn update_resource(
        &self,
        _: &str,
        _: Uuid,
        _: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError> {
        Err(not_built())
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>, IndexerError>> {
        ids.iter().map(|_| Err(not_built())).collect()
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources, IndexerError> {
        listing::delete_matching(self, resource_type, filter, now).await
    }

    async fn resources_ended_before(&self, _: Timestamp, _: usize) -> Result<Vec<Uuid>, IndexerError> {
        Err(not_built())
    }

    async fn sweep_values(&self, _: usize) -> Result<usize, IndexerError> {
        Err(not_built())
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>, IndexerError> {
        listing::list(self, listing).await
    }
}
