//! Resource types in memory: a change is applied to every resource immediately.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, AttributeValue, ResourceType, resource_type::GENERIC};

use super::{MemoryIndexer, Tables};
use crate::{
    IndexerError, ResourceTypeChange, ResourceTypes, Result,
    resource_type::{changed, check_change},
};

#[async_trait]
impl ResourceTypes for MemoryIndexer {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<()> {
        let mut tables = self.tables.lock();
        if tables.resource_type(&resource_type.name).is_ok() {
            return Err(IndexerError::ResourceTypeAlreadyExists(resource_type.name.to_string()));
        }
        let mut shown = resource_type;
        shown.attributes.values_mut().for_each(|attribute| attribute.fill = None);
        tables.types.insert(shown.name.to_string(), Arc::new(shown));
        Ok(())
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>> {
        Ok(self.tables.lock().resource_type(name).ok())
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>> {
        let mut types: Vec<_> = self.tables.lock().types.values().cloned().collect();
        types.push(generic());
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(types)
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>> {
        let mut tables = self.tables.lock();
        if name == GENERIC {
            return Err(IndexerError::ResourceTypeInUse(name.to_owned()));
        }
        let current = tables.resource_type(name)?;
        check_change(&current, &change)?;
        let ResourceTypeChange { add, update, delete } = &change;
        let tables = &mut *tables;
        let resources = tables.resources.values_mut().chain(tables.history.values_mut());
        for resource in resources.filter(|resource| resource.resource_type == name) {
            for attribute in delete {
                resource.attributes.remove(attribute);
            }
            for (attribute, Attribute { fill, .. }) in add.iter().chain(update) {
                let value = resource.attributes.entry(attribute.clone()).or_insert(AttributeValue::Null);
                if *value == AttributeValue::Null {
                    *value = fill.clone().unwrap_or(AttributeValue::Null);
                }
            }
        }
        let changed = Arc::new(changed(&current, &change));
        tables.types.insert(name.to_owned(), changed.clone());
        Ok(changed)
    }

    async fn delete_resource_type(&self, name: &str) -> Result<()> {
        let mut tables = self.tables.lock();
        tables.resource_type(name)?;
        if name == GENERIC || tables.resources.values().any(|resource| resource.resource_type == name) {
            return Err(IndexerError::ResourceTypeInUse(name.to_owned()));
        }
        tables.types.remove(name);
        Ok(())
    }
}

fn generic() -> Arc<ResourceType> {
    Arc::new(ResourceType { name: GENERIC.into(), attributes: [].into() })
}

impl Tables {
    pub(super) fn resource_type(&self, name: &str) -> Result<Arc<ResourceType>> {
        if name == GENERIC {
            return Ok(generic());
        }
        self.types.get(name).cloned().ok_or_else(|| IndexerError::NoSuchResourceType(name.to_owned()))
    }
}
