//! Annotations in the index: texts with a time on a resource, deleted with it.

use async_trait::async_trait;
use gnudi_model::Timestamp;
use uuid::Uuid;

use crate::{IndexerError, Result};

/// Maximum annotations per resource.
pub const ANNOTATIONS_MAX: usize = 1_000;

/// A text about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub id: Uuid,
    pub resource_id: Uuid,
    /// The time that it is about, in whole microseconds; not when it was written.
    pub timestamp: Timestamp,
    pub text: String,
    /// The author.
    pub creator: String,
}

/// Selects annotations of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationListing {
    pub resource_id: Uuid,
    pub start: Option<Timestamp>,
    /// Exclusive.
    pub stop: Option<Timestamp>,
    /// The last annotation of the previous page.
    pub marker: Option<Uuid>,
    pub limit: usize,
}

impl AnnotationListing {
    /// All annotations of a resource.
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

    /// One annotation of a resource.
    async fn annotation(&self, resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>>;

    /// Sorted by time, then by id.
    ///
    /// # Errors
    /// [`IndexerError::InvalidPagination`] if the marker is not an annotation of the resource.
    async fn list_annotations(&self, listing: &AnnotationListing) -> Result<Vec<Annotation>>;

    /// # Errors
    /// [`IndexerError::NoSuchAnnotation`].
    async fn delete_annotation(&self, resource_id: Uuid, id: Uuid) -> Result<()>;
}

/// The annotation behind which a listing begins.
pub(crate) async fn marker_of(
    index: &impl Annotations,
    listing: &AnnotationListing,
) -> Result<Option<Annotation>> {
    let Some(id) = listing.marker else { return Ok(None) };
    match index.annotation(listing.resource_id, id).await? {
        None => Err(IndexerError::InvalidPagination(format!("Invalid marker: `{id}'"))),
        found => Ok(found),
    }
}
