//! Resources, their types and their annotations behind the cache.
//!
//! Listings and annotations always read the index. Where the affected items are unknown, more is invalidated than
//! necessary.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, ResourceType, Timestamp};
use uuid::Uuid;

use super::{CachedIndexer, caches::Caches, resource_table::End};
use crate::{
    Annotation, AnnotationListing, Annotations, DeletedResources, Filter, Indexer, NewResource,
    ResourceChange, ResourceListing, ResourceTypeChange, ResourceTypes, Resources, Result, Touched,
    UpdatedResource,
    resource::{attached, created},
};

#[async_trait]
impl<I: Indexer> ResourceTypes for CachedIndexer<I> {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<()> {
        let created = resource_type.name.clone();
        let write = |index: Arc<I>| async move { index.create_resource_type(resource_type).await };
        self.run_to_completion(write, move |caches, _| caches.types.invalidate(&created)).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>> {
        if let Some(resource_type) = self.caches.types.get(name) {
            return Ok(Some(resource_type));
        }
        let epoch = self.caches.types.epoch();
        let resource_type = self.index.resource_type(name).await?;
        self.caches.types.keep(resource_type.iter().map(named), epoch);
        Ok(resource_type)
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>> {
        let epoch = self.caches.types.epoch();
        let types = self.index.resource_types().await?;
        self.caches.types.keep(types.iter().map(named), epoch);
        Ok(types)
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>> {
        let (name, changed) = (name.to_owned(), name.to_owned());
        let write = |index: Arc<I>| async move { index.update_resource_type(&name, change).await };
        let forget = move |caches: &Caches, _: &Result<_, _>| {
            caches.types.invalidate(&changed);
            caches.resources.invalidate_all();
            caches.log.touched(&Touched::types());
        };
        self.run_to_completion(write, forget).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<()> {
        let (name, deleted) = (name.to_owned(), name.to_owned());
        let write = |index: Arc<I>| async move { index.delete_resource_type(&name).await };
        self.run_to_completion(write, move |caches, _| caches.types.invalidate(&deleted)).await
    }
}

fn named(resource_type: &Arc<ResourceType>) -> (String, Arc<ResourceType>) {
    (resource_type.name.to_string(), resource_type.clone())
}

#[async_trait]
impl<I: Indexer> Resources for CachedIndexer<I> {
    async fn create_resources(&self, resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>>> {
        let attached: Vec<_> = attached(resources.iter().flat_map(|new| &new.metrics)).collect();
        let epochs = self.caches.metrics.by_id.epochs();
        let of_resources: Vec<_> =
            resources.iter().map(|new| self.caches.resources.epoch(&new.resource_type, new.id)).collect();
        let write = |index: Arc<I>| async move { index.create_resources(resources).await };
        let note = move |caches: &Caches, outcomes: &Vec<Result<Arc<Resource>, _>>| {
            caches.invalidate_metrics_of_any_resource(&attached);
            for resource in outcomes.iter().flatten() {
                caches.resources.invalidate_former(resource.id);
            }
            let shown = outcomes.iter().flatten().flat_map(|resource| resource.metrics.iter());
            caches.log.created(&shown.map(|metric| metric.id).collect::<Vec<_>>());
        };
        let outcomes = self.run_to_completion(write, note).await;
        let created = outcomes.iter().flatten().flat_map(|resource| resource.metrics.iter());
        self.caches.metrics.insert_all(created, &epochs);
        for (outcome, epoch) in outcomes.iter().zip(of_resources) {
            if let Ok(resource) = outcome {
                self.caches.resources.insert(&resource.resource_type, resource, epoch);
            }
        }
        outcomes
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>> {
        if let Some(resource) = self.caches.resources.get(resource_type, id) {
            return Ok(Some(resource));
        }
        let epoch = self.caches.resources.epoch(resource_type, id);
        let resource = self.index.resource(resource_type, id).await?;
        if let Some(resource) = &resource {
            self.caches.resources.insert(resource_type, resource, epoch);
        }
        Ok(resource)
    }

    async fn current_resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>> {
        self.index.resource(resource_type, id).await
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource> {
        let resource_type = resource_type.to_owned();
        let attached: Vec<_> = attached(change.metrics.iter().flatten()).collect();
        let created: Vec<_> = created(change.metrics.iter().flatten()).map(|metric| metric.id).collect();
        let write = |index: Arc<I>| async move { index.update_resource(&resource_type, id, change).await };
        let forget = move |caches: &Caches, outcome: &Result<UpdatedResource, _>| {
            caches.invalidate_resources(&[id]);
            caches.invalidate_metrics_of_any_resource(&attached);
            if let Ok(updated) = outcome {
                caches.invalidate_metrics(&updated.detached);
            }
            caches.log.resources(&[id]);
            caches.log.created(&created);
        };
        self.run_to_completion(write, forget).await
    }

    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64> {
        let (ids, ended) = (ids.to_vec(), ids.to_vec());
        let write = |index: Arc<I>| async move { index.end_resources(&ids, now).await };
        self.run_to_completion(write, move |caches, _| caches.invalidate_resources(&ended)).await
    }

    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>> {
        let mut found: Vec<_> =
            ids.iter().map(|id| self.caches.ends.get(*id).map(|end| end.ended_at)).collect();
        let missing: Vec<usize> = (0..ids.len()).filter(|index| found[*index].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<Uuid> = missing.iter().map(|index| ids[*index]).collect();
            let epochs = self.caches.ends.epochs();
            for (index, end) in missing.into_iter().zip(self.index.ends(&wanted).await?) {
                found[index] = end;
                if let Some(ended_at) = end {
                    let end = Arc::new(End { id: ids[index], ended_at });
                    self.caches.ends.insert(&end, epochs.of::<End>(end.id));
                }
            }
        }
        Ok(found)
    }

    async fn revive_resources(&self, seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64> {
        let seen = seen.to_vec();
        let revived: Vec<_> = seen.iter().map(|(id, _)| *id).collect();
        let write = |index: Arc<I>| async move { index.revive_resources(&seen, now).await };
        self.run_to_completion(write, move |caches, _| caches.invalidate_resources(&revived)).await
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>>> {
        let (ids, deleted) = (ids.to_vec(), ids.to_vec());
        let write = |index: Arc<I>| async move { index.delete_resources(&ids).await };
        let forget = move |caches: &Caches, outcomes: &Vec<Result<Vec<MetricId>, _>>| {
            caches.invalidate_resources(&deleted);
            for metrics in outcomes.iter().flatten() {
                caches.invalidate_metrics(metrics);
            }
        };
        self.run_to_completion(write, forget).await
    }

    async fn delete_resource_of_revision(&self, id: Uuid, start: Timestamp) -> Result<Vec<MetricId>> {
        let write = |index: Arc<I>| async move { index.delete_resource_of_revision(id, start).await };
        let forget = move |caches: &Caches, outcome: &Result<Vec<MetricId>, _>| {
            caches.invalidate_resources(&[id]);
            if let Ok(metrics) = outcome {
                caches.invalidate_metrics(metrics);
            }
        };
        self.run_to_completion(write, forget).await
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources> {
        let (resource_type, filter) = (resource_type.to_owned(), filter.clone());
        let write = |index: Arc<I>| async move {
            index.delete_matching_resources(&resource_type, &filter, now).await
        };
        let forget = |caches: &Caches, outcome: &Result<DeletedResources, _>| {
            if let Ok(deleted) = outcome {
                caches.invalidate_resources(&deleted.ids);
                caches.invalidate_metrics(&deleted.metrics);
            } else {
                // Some of them may have been deleted.
                caches.invalidate(&Touched::everything());
            }
        };
        self.run_to_completion(write, forget).await
    }

    async fn sweep_values(&self, limit: usize) -> Result<usize> {
        self.index.sweep_values(limit).await
    }

    async fn remove_revisions(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.index.remove_revisions(before, limit).await
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>> {
        self.index.list_resources(listing).await
    }
}

#[async_trait]
impl<I: Indexer> Annotations for CachedIndexer<I> {
    async fn create_annotation(&self, annotation: Annotation) -> Result<()> {
        self.index.create_annotation(annotation).await
    }

    async fn annotation(&self, resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>> {
        self.index.annotation(resource_id, id).await
    }

    async fn list_annotations(&self, listing: &AnnotationListing) -> Result<Vec<Annotation>> {
        self.index.list_annotations(listing).await
    }

    async fn delete_annotation(&self, resource_id: Uuid, id: Uuid) -> Result<()> {
        self.index.delete_annotation(resource_id, id).await
    }
}
