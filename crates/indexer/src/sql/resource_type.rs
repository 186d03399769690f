//! The statements for resource types.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::ResourceType;

use super::SqlIndexer;
use crate::{IndexerError, ResourceTypeChange, ResourceTypes};

fn not_built() -> IndexerError {
    IndexerError::Database("not built yet".to_owned())
}

#[async_trait]
impl ResourceTypes for SqlIndexer {
    async fn create_resource_type(&self, _: ResourceType) -> Result<(), IndexerError> {
        Err(not_built())
    }

    async fn resource_type(&self, _: &str) -> Result<Option<Arc<ResourceType>>, IndexerError> {
        Err(not_built())
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError> {
        Err(not_built())
    }

    async fn update_resource_type(
        &self,
        _: &str,
        _: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError> {
        Err(not_built())
    }

    async fn delete_resource_type(&self, _: &str) -> Result<(), IndexerError> {
        Err(not_built())
    }
}
