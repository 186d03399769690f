//! Annotations are not cached.

use async_trait::async_trait;
use uuid::Uuid;

use super::CachedIndexer;
use crate::{Annotation, AnnotationListing, Annotations, Indexer, Result};

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
