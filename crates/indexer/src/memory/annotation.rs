//! Annotations in memory.

use async_trait::async_trait;
use uuid::Uuid;

use super::MemoryIndexer;
use crate::{
    Annotation, AnnotationListing, Annotations, IndexerError, Result,
    annotation::{ANNOTATIONS_MAX, marker_of},
};

#[async_trait]
impl Annotations for MemoryIndexer {
    async fn create_annotation(&self, annotation: Annotation) -> Result<()> {
        let mut tables = self.tables.lock();
        let resource = annotation.resource_id;
        if !tables.resources.contains_key(&resource) {
            return Err(IndexerError::NoSuchResource(resource));
        }
        let of_resource = tables.annotations.values().filter(|other| other.resource_id == resource);
        if of_resource.count() >= ANNOTATIONS_MAX {
            return Err(IndexerError::TooManyAnnotations { resource, max: ANNOTATIONS_MAX });
        }
        if tables.annotations.contains_key(&annotation.id) {
            return Err(IndexerError::AnnotationAlreadyExists(annotation.id));
        }
        tables.annotations.insert(annotation.id, annotation);
        Ok(())
    }

    async fn annotation(&self, resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>> {
        let found = self.tables.lock().annotations.get(&id).cloned();
        Ok(found.filter(|annotation| annotation.resource_id == resource_id))
    }

    async fn list_annotations(&self, listing: &AnnotationListing) -> Result<Vec<Annotation>> {
        let marker = marker_of(self, listing).await?;
        let place = |annotation: &Annotation| (annotation.timestamp, annotation.id);
        let tables = self.tables.lock();
        let mut found: Vec<Annotation> = tables
            .annotations
            .values()
            .filter(|annotation| annotation.resource_id == listing.resource_id)
            .filter(|annotation| listing.start.is_none_or(|start| annotation.timestamp >= start))
            .filter(|annotation| listing.stop.is_none_or(|stop| annotation.timestamp < stop))
            .filter(|annotation| marker.as_ref().is_none_or(|marker| place(annotation) > place(marker)))
            .cloned()
            .collect();
        found.sort_by_key(place);
        found.truncate(listing.limit);
        Ok(found)
    }

    async fn delete_annotation(&self, resource_id: Uuid, id: Uuid) -> Result<()> {
        let found = self.annotation(resource_id, id).await?;
        found.ok_or(IndexerError::NoSuchAnnotation(id))?;
        self.tables.lock().annotations.remove(&id);
        Ok(())
    }
}
