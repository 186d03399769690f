//! Resources and their types behind the cache.
//!
//! Listings always read the index. Where a change may have touched what nobody names, more is forgotten than must be.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, ResourceType, Timestamp};
use uuid::Uuid;

use super::{CachedIndexer, ends::End};
use crate::{
    DeletedResources, Filter, Indexer, IndexerError, MetricsChange, NewResource, ResourceChange,
    ResourceListing, ResourceTypeChange, ResourceTypes, Resources, UpdatedResource,
};

#[async_trait]
impl<I: Indexer> ResourceTypes for CachedIndexer<I> {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<(), IndexerError> {
        self.index.create_resource_type(resource_type).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError> {
        if let Some(resource_type) = self.types.get(name) {
            return Ok(Some(resource_type));
        }
        let epoch = self.types.epoch();
        let resource_type = self.index.resource_type(name).await?;
        self.types.keep(resource_type.as_slice(), epoch);
        Ok(resource_type)
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError> {
        let epoch = self.types.epoch();
        let types = self.index.resource_types().await?;
        self.types.keep(&types, epoch);
        Ok(types)
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError> {
        let name = name.to_owned();
        let (types, resources, forgotten) = (self.types.clone(), self.resources.clone(), name.clone());
        let write = |index: Arc<I>| async move { index.update_resource_type(&name, change).await };
        let forget = move |_: &Result<_, _>| {
            types.invalidate(&forgotten);
            resources.invalidate_all();
        };
        self.see_through(write, forget).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<(), IndexerError> {
        let name = name.to_owned();
        let (types, forgotten) = (self.types.clone(), name.clone());
        let write = |index: Arc<I>| async move { index.delete_resource_type(&name).await };
        self.see_through(write, move |_| types.invalidate(&forgotten)).await
    }
}

#[async_trait]
impl<I: Indexer> Resources for CachedIndexer<I> {
    async fn create_resources(
        &self,
        resources: Vec<NewResource>,
    ) -> Vec<Result<Arc<Resource>, IndexerError>> {
        let attached = attached(resources.iter().flat_map(|new| &new.metrics));
        let epochs = self.metrics.epochs();
        let of_resources: Vec<_> =
            resources.iter().map(|new| self.resources.epoch(&new.resource_type, new.id)).collect();
        let outcomes = if attached.is_empty() {
            self.index.create_resources(resources).await
        } else {
            let forget = self.forget_metrics(attached);
            self.see_through(
                |index| async move { index.create_resources(resources).await },
                move |_| forget(),
            )
            .await
        };
        let created = outcomes.iter().flatten().flat_map(|resource| &resource.metrics);
        self.metrics.insert_all(created, &epochs);
        for (outcome, epoch) in outcomes.iter().zip(of_resources) {
            if let Ok(resource) = outcome {
                self.resources.insert(&resource.resource_type, resource, epoch);
            }
        }
        outcomes
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>, IndexerError> {
        if let Some(resource) = self.resources.get(resource_type, id) {
            return Ok(Some(resource));
        }
        let epoch = self.resources.epoch(resource_type, id);
        let resource = self.index.resource(resource_type, id).await?;
        if let Some(resource) = &resource {
            self.resources.insert(resource_type, resource, epoch);
        }
        Ok(resource)
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError> {
        let resource_type = resource_type.to_owned();
        let (metrics, forget_resources) = (self.metrics.clone(), self.forget_resources(vec![id]));
        let forget_attached = self.forget_metrics(attached(change.metrics.iter().flatten()));
        let write = |index: Arc<I>| async move { index.update_resource(&resource_type, id, change).await };
        let forget = move |outcome: &Result<UpdatedResource, _>| {
            forget_resources();
            forget_attached();
            if let Ok(updated) = outcome {
                metrics.invalidate(&updated.detached);
            }
        };
        self.see_through(write, forget).await
    }

    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64, IndexerError> {
        let ids = ids.to_vec();
        let forget = self.forget_resources(ids.clone());
        let write = |index: Arc<I>| async move { index.end_resources(&ids, now).await };
        self.see_through(write, move |_| forget()).await
    }

    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>, IndexerError> {
        let mut found: Vec<_> = ids.iter().map(|id| self.ends.get(*id).map(|end| end.ended_at)).collect();
        let missing: Vec<usize> = (0..ids.len()).filter(|index| found[*index].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<Uuid> = missing.iter().map(|index| ids[*index]).collect();
            let epochs = self.ends.0.epochs();
            for (index, end) in missing.into_iter().zip(self.index.ends(&wanted).await?) {
                found[index] = end;
                if let Some(ended_at) = end {
                    let end = Arc::new(End { id: ids[index], ended_at });
                    self.ends.0.insert(&end, epochs.of::<End>(end.id));
                }
            }
        }
        Ok(found)
    }

    async fn revive_resources(
        &self,
        seen: &[(Uuid, Timestamp)],
        now: Timestamp,
    ) -> Result<u64, IndexerError> {
        let seen = seen.to_vec();
        let forget = self.forget_resources(seen.iter().map(|(id, _)| *id).collect());
        let write = |index: Arc<I>| async move { index.revive_resources(&seen, now).await };
        self.see_through(write, move |_| forget()).await
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>, IndexerError>> {
        let ids = ids.to_vec();
        let (metrics, forget_resources) = (self.metrics.clone(), self.forget_resources(ids.clone()));
        let write = |index: Arc<I>| async move { index.delete_resources(&ids).await };
        let forget = move |outcomes: &Vec<Result<Vec<MetricId>, _>>| {
            forget_resources();
            outcomes.iter().flatten().for_each(|deleted| metrics.invalidate(deleted));
        };
        self.see_through(write, forget).await
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources, IndexerError> {
        let (resource_type, filter) = (resource_type.to_owned(), filter.clone());
        let (metrics, resources, ends) = (self.metrics.clone(), self.resources.clone(), self.ends.clone());
        let write = |index: Arc<I>| async move {
            index.delete_matching_resources(&resource_type, &filter, now).await
        };
        let forget = move |outcome: &Result<DeletedResources, _>| {
            if let Ok(deleted) = outcome {
                resources.invalidate(deleted.ids.iter().copied());
                ends.invalidate(deleted.ids.iter().copied());
                metrics.invalidate(&deleted.metrics);
            } else {
                // Some of them may have gone.
                resources.invalidate_all();
                ends.0.invalidate_all();
                metrics.invalidate_all();
            }
        };
        self.see_through(write, forget).await
    }

    async fn sweep_values(&self, limit: usize) -> Result<usize, IndexerError> {
        self.index.sweep_values(limit).await
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>, IndexerError> {
        self.index.list_resources(listing).await
    }
}

impl<I: Indexer> CachedIndexer<I> {
    /// To be called where the resources were changed or deleted.
    fn forget_resources(&self, ids: Vec<Uuid>) -> impl FnOnce() + Send + use<I> {
        let (resources, ends) = (self.resources.clone(), self.ends.clone());
        move || {
            resources.invalidate(ids.iter().copied());
            ends.invalidate(ids);
        }
    }

    /// Forgets metrics that go over to a resource, and the resources that may have had them.
    fn forget_metrics(&self, ids: Vec<MetricId>) -> impl FnOnce() + Send + use<I> {
        let (metrics, resources) = (self.metrics.clone(), self.resources.clone());
        move || {
            if !ids.is_empty() {
                metrics.invalidate(&ids);
                resources.invalidate_all();
            }
        }
    }
}

fn attached<'a>(changes: impl Iterator<Item = &'a (String, MetricsChange)>) -> Vec<MetricId> {
    let id = |(_, change): &(String, MetricsChange)| match change {
        MetricsChange::Attach(id) => Some(*id),
        MetricsChange::Create(_) => None,
    };
    changes.filter_map(id).collect()
}
