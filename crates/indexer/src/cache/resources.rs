//! Resources and their types behind the cache.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, ResourceType, Timestamp};
use uuid::Uuid;

use super::CachedIndexer;
use crate::{
    DeletedResources, Filter, Indexer, IndexerError, NewResource, ResourceChange, ResourceListing,
    ResourceTypeChange, ResourceTypes, Resources, UpdatedResource,
};

#[async_trait]
impl<I: Indexer> ResourceTypes for CachedIndexer<I> {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<(), IndexerError> {
        self.index.create_resource_type(resource_type).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError> {
        self.index.resource_type(name).await
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError> {
        self.index.resource_types().await
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError> {
        self.index.update_resource_type(name, change).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<(), IndexerError> {
        self.index.delete_resource_type(name).await
    }
}

#[async_trait]
impl<I: Indexer> Resources for CachedIndexer<I> {
    async fn create_resources(
        &self,
        resources: Vec<NewResource>,
    ) -> Vec<Result<Arc<Resource>, IndexerError>> {
        self.index.create_resources(resources).await
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>, IndexerError> {
        self.index.resource(resource_type, id).await
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError> {
        self.index.update_resource(resource_type, id, change).await
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>, IndexerError>> {
        self.index.delete_resources(ids).await
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources, IndexerError> {
        self.index.delete_matching_resources(resource_type, filter, now).await
    }

    async fn resources_ended_before(&self, time: Timestamp, limit: usize) -> Result<Vec<Uuid>, IndexerError> {
        self.index.resources_ended_before(time, limit).await
    }

    async fn sweep_values(&self, limit: usize) -> Result<usize, IndexerError> {
        self.index.sweep_values(limit).await
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>, IndexerError> {
        self.index.list_resources(listing).await
    }
}
