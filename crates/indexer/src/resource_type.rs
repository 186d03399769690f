//! Resource types in the index.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, ResourceType, Text};

use crate::{IndexerError, Result};

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
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<()>;

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>>;

    /// All of them, by name; `generic` is always there.
    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>>;

    /// Changes all that is asked for, or nothing where something is refused; `generic` stays as it is.
    ///
    /// # Errors
    /// [`IndexerError::NoSuchAttribute`] and [`IndexerError::AttributeAlreadyExists`] where the type is not as the caller
    /// thinks.
    async fn update_resource_type(&self, name: &str, change: ResourceTypeChange)
    -> Result<Arc<ResourceType>>;

    /// Refused while resources have the type, or had it in their history; and for `generic`.
    async fn delete_resource_type(&self, name: &str) -> Result<()>;
}

/// Refuses a change of attributes that are not there, or not of the kind, and a new one where its name is taken: the type may
/// have changed since the change was thought of.
pub(crate) fn check_change(resource_type: &ResourceType, change: &ResourceTypeChange) -> Result<()> {
    let ResourceTypeChange { add, update, delete } = change;
    let refused = |attribute: &Text| IndexerError::NoSuchAttribute {
        resource_type: resource_type.name.to_string(),
        attribute: attribute.to_string(),
    };
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

/// The type as the change leaves it. Nobody is shown a fill.
pub(crate) fn changed(resource_type: &ResourceType, change: &ResourceTypeChange) -> ResourceType {
    let ResourceTypeChange { add, update, delete } = change;
    let mut attributes = resource_type.attributes.clone();
    attributes.retain(|name, _| !delete.contains(name));
    for (name, attribute) in add.iter().chain(update) {
        attributes.insert(name.clone(), Attribute { fill: None, ..attribute.clone() });
    }
    ResourceType { name: resource_type.name.clone(), attributes }
}
