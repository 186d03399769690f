//! Resource types in the index.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, ResourceType, Text};

use crate::IndexerError;

/// What happens to the attributes of a type; the names are distinct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceTypeChange {
    /// New attributes. Resources that are there already have `fill` from now on; none of them is written for that.
    pub add: Vec<(Text, Attribute)>,
    /// Attributes that are there, whose kind stays but for its bounds. A `fill` is given to resources whose value is null.
    pub update: Vec<(Text, Attribute)>,
    /// Gone for every reader at once, also from the history; an attribute that is added under this name later begins afresh.
    pub delete: Vec<Text>,
}

#[async_trait]
pub trait ResourceTypes {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<(), IndexerError>;

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError>;

    /// All of them, by name; `generic` is always there.
    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError>;

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError>;

    /// Refused while resources have the type, or had it in their history; and for `generic`.
    async fn delete_resource_type(&self, name: &str) -> Result<(), IndexerError>;
}
