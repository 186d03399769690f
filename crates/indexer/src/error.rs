//! Errors of the index, with Gnocchi's texts, since clients show them.

use std::{future::pending, panic::resume_unwind};

use gnudi_model::MetricId;
use tokio::task::{JoinError, JoinHandle};
use uuid::Uuid;

pub type Result<T, E = IndexerError> = std::result::Result<T, E>;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IndexerError {
    #[error("Archive policy {0} does not exist")]
    NoSuchArchivePolicy(String),
    #[error("Archive policy {0} already exists")]
    ArchivePolicyAlreadyExists(String),
    #[error("Archive policy {0} is still in use")]
    ArchivePolicyInUse(String),
    #[error("Archive policy {name} does not support change: {message}")]
    UnsupportedArchivePolicyChange { name: String, message: String },
    #[error("Archive policy rule {0} does not exist")]
    NoSuchArchivePolicyRule(String),
    #[error("Archive policy rule {0} already exists")]
    ArchivePolicyRuleAlreadyExists(String),
    #[error("Archive policy rule {name} does not support change: {message}")]
    UnsupportedArchivePolicyRuleChange { name: String, message: String },
    #[error("No Archive policy rule found for metric {0}")]
    NoArchivePolicyRuleMatch(String),
    #[error("Metric {0} does not exist")]
    NoSuchMetric(MetricId),
    #[error("Named metric {0} already exists")]
    NamedMetricAlreadyExists(String),
    #[error("Resource type {0} does not exist")]
    NoSuchResourceType(String),
    #[error("Resource type {0} already exists")]
    ResourceTypeAlreadyExists(String),
    #[error("Resource type {0} is still in use")]
    ResourceTypeInUse(String),
    #[error("Resource {0} does not exist")]
    NoSuchResource(Uuid),
    #[error("Resource {0} already exists")]
    ResourceAlreadyExists(Uuid),
    /// The change requires a revision that is no longer the current one.
    #[error("Resource {0} was changed meanwhile")]
    ResourceChanged(Uuid),
    #[error("Annotation {0} does not exist")]
    NoSuchAnnotation(Uuid),
    #[error("Annotation {0} already exists")]
    AnnotationAlreadyExists(Uuid),
    #[error("Resource {resource} has {max} annotations already, and cannot have more")]
    TooManyAnnotations { resource: Uuid, max: usize },
    /// Another change added it meanwhile.
    #[error("Resource type {resource_type} already has a {attribute} attribute")]
    AttributeAlreadyExists { resource_type: String, attribute: String },
    /// A new resource can't end before its start.
    #[error("Start timestamp cannot be after end timestamp")]
    StartAfterEnd,
    /// A filter or an order refers to a field that resources of this type do not have.
    #[error("Resource type {resource_type} has no {attribute} attribute")]
    NoSuchAttribute { resource_type: String, attribute: String },
    /// An invalid value for a resource.
    #[error("Value {value} for attribute {attribute} on resource type {resource_type} is invalid")]
    InvalidAttributeValue { resource_type: String, attribute: String, value: String },
    #[error("Unable to parse this query")]
    InvalidFilter,
    #[error("Invalid value: `{value}' for field `{field}'")]
    InvalidFilterValue { value: String, field: String },
    #[error("Unable to parse this query: more than {max} {of}")]
    FilterTooLarge { max: usize, of: &'static str },
    #[error("Invalid pagination: `{0}'")]
    InvalidPagination(String),
    /// Its row cannot be read (500).
    #[error("resource {id} is damaged in the index: {reason}")]
    DamagedResource { id: Uuid, reason: String },
    /// Its row cannot be read (500).
    #[error("metric {id} is damaged in the index: {reason}")]
    DamagedMetric { id: MetricId, reason: String },
    /// The row of an archive policy, a rule or an annotation cannot be read (500). `item` is its kind and name.
    #[error("{item} is damaged in the index: {reason}")]
    DamagedItem { item: String, reason: String },
    /// Out of space: nothing was changed (503).
    #[error("the index has no space left: {0}")]
    NoSpace(String),
    /// The database is not available, or too slow: a write may or may not have been executed (503).
    #[error("the index is not available: {0}")]
    Unavailable(String),
    /// Repeated conflicts with other transactions: nothing was changed (503).
    #[error("the index is contended: {0}")]
    Contended(String),
    /// The database has failed (503).
    #[error("the index is out of order: {0}")]
    Database(String),
}

impl IndexerError {
    /// For a task that nobody aborts and that has no output: the runtime has cancelled it, since it is shutting down.
    ///
    /// # Panics
    /// As the task did, if it has panicked.
    pub fn stopping(error: JoinError) -> Self {
        if let Ok(panic) = error.try_into_panic() {
            resume_unwind(panic);
        }
        IndexerError::Unavailable("the process is stopping".to_owned())
    }
}

/// What a task that nobody aborts returns, for a caller on the same runtime: if that shuts down it drops the caller as well.
///
/// # Panics
/// As the task did, if it has panicked.
pub async fn outcome_of<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[tokio::test]
    async fn a_cancelled_task_makes_the_index_unavailable_and_a_panic_goes_on() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let error = IndexerError::stopping(cancelled.await.unwrap_err());
        assert!(matches!(error, IndexerError::Unavailable(_)), "{error}");
        let failing: JoinHandle<()> = tokio::spawn(async { panic!("a defect") });
        let failed = failing.await.unwrap_err();
        let panic = catch_unwind(AssertUnwindSafe(|| IndexerError::stopping(failed))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
    }
}
