//! Annotations in the index: texts with a time on a resource, which are gone with it.

use async_trait::async_trait;
use gnudi_model::Timestamp;
use uuid::Uuid;

use crate::{IndexerError, Result};

/// How many a resource has at most.
pub const ANNOTATIONS_MAX: usize = 1_000;

/// What somebody wrote about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub id: Uuid,
    pub resource_id: Uuid,
    /// What it is about, in whole microseconds; not when it was written.
    pub timestamp: Timestamp,
    pub text: String,
    /// Who wrote it.
    pub creator: String,
}

/// Which annotations of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationListing {
    pub resource_id: Uuid,
    pub start: Option<Timestamp>,
    /// Exclusive.
    pub stop: Option<Timestamp>,
    /// The last one of the page before.
    pub marker: Option<Uuid>,
    pub limit: usize,
}

impl AnnotationListing {
    /// All of a resource.
    pub fn of(resource_id: Uuid) -> Self {
        AnnotationListing { resource_id, start: None, stop: None, marker: None, limit: ANNOTATIONS_MAX }
    }
}

#[async_trait]
pub trait Annotations {
    /// # Errors
    /// [`IndexerError::NoSuchResource`], [`IndexerError::AnnotationAlreadyExists`], and
    /// [`IndexerError::TooManyAnnotations`] beyond [`ANNOTATIONS_MAX`].
    async fn create_annotation(&self, annotation: Annotation) -> Result<()>;

    /// One of a resource.
    async fn annotation(&self, resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>>;

    /// In the order of their times, then of their ids.
    ///
    /// # Errors
    /// [`IndexerError::InvalidPagination`] where the marker is none of the resource's.
    async fn list_annotations(&self, listing: &AnnotationListing) -> Result<Vec<Annotation>>;

    /// # Errors
    /// [`IndexerError::NoSuchAnnotation`].
    async fn delete_annotation(&self, resource_id: Uuid, id: Uuid) -> Result<()>;
}

pub(crate) fn invalid_marker(id: Uuid) -> IndexerError {
    IndexerError::InvalidPagination(format!("Invalid marker: `{id}'"))
}
