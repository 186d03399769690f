//! Resource types in the index.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, ResourceType, Text};

use crate::{IndexerError, Result};

/// A change of the attributes of a type; the names are distinct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceTypeChange {
    /// New attributes. Existing resources have `fill` from now on, without being written.
    pub add: Vec<(Text, Attribute)>,
    /// Changes of existing attributes: only the bounds may change. A `fill` applies to resources whose value is null.
    pub update: Vec<(Text, Attribute)>,
    /// Invisible to all readers at once, also in the history; a new attribute with the same name starts without values.
    pub delete: Vec<Text>,
}

#[async_trait]
pub trait ResourceTypes {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<()>;

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>>;

    /// All of them, by name; `generic` is always there.
    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>>;

    /// Applies the whole change, or nothing if a part is rejected; `generic` cannot be changed.
    ///
    /// # Errors
    /// [`IndexerError::NoSuchAttribute`] and [`IndexerError::AttributeAlreadyExists`] if the type is not as the caller
    /// expects.
    async fn update_resource_type(&self, name: &str, change: ResourceTypeChange)
    -> Result<Arc<ResourceType>>;

    /// Rejected while resources have the type, or had it in their history; and for `generic`.
    async fn delete_resource_type(&self, name: &str) -> Result<()>;
}

/// The error for an attribute that the type does not have.
pub(crate) fn no_such_attribute(resource_type: &ResourceType, attribute: &str) -> IndexerError {
    let (resource_type, attribute) = (resource_type.name.to_string(), attribute.to_owned());
    IndexerError::NoSuchAttribute { resource_type, attribute }
}

/// Validates a change against the current type, which may have changed since the request: changed attributes must exist
/// with the same kind, and new names must be free.
pub(crate) fn check_change(resource_type: &ResourceType, change: &ResourceTypeChange) -> Result<()> {
    let ResourceTypeChange { add, update, delete } = change;
    let refused = |attribute: &Text| no_such_attribute(resource_type, attribute);
    let current = |name: &Text| resource_type.attributes.get(name).ok_or_else(|| refused(name));
    for name in delete {
        current(name)?;
    }
    for (name, attribute) in update {
        if current(name)?.kind.name() != attribute.kind.name() {
            return Err(refused(name));
        }
    }
    for (name, _) in add {
        if resource_type.attributes.contains_key(name) {
            return Err(IndexerError::AttributeAlreadyExists {
                resource_type: resource_type.name.to_string(),
                attribute: name.to_string(),
            });
        }
    }
    Ok(())
}

/// The changed type. Fills are not shown.
pub(crate) fn changed(resource_type: &ResourceType, change: &ResourceTypeChange) -> ResourceType {
    let ResourceTypeChange { add, update, delete } = change;
    let mut attributes = resource_type.attributes.clone();
    attributes.retain(|name, _| !delete.contains(name));
    for (name, attribute) in add.iter().chain(update) {
        attributes.insert(name.clone(), Attribute { fill: None, ..attribute.clone() });
    }
    ResourceType { name: resource_type.name.clone(), attributes }
}
