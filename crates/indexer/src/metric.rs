//! Metrics in the index.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Metric, MetricId, MetricStatus, Timestamp};

use crate::IndexerError;

/// What a new metric is made of; its id is chosen by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMetric {
    pub id: MetricId,
    pub creator: String,
    pub name: Option<String>,
    pub unit: Option<String>,
    pub archive_policy_name: String,
    pub resource_id: Option<uuid::Uuid>,
    pub created_at: Timestamp,
}

/// Equality filters, all of which hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricFilter {
    pub id: Option<MetricId>,
    pub creator: Option<String>,
    pub name: Option<String>,
    pub unit: Option<String>,
    pub archive_policy_name: Option<String>,
    /// Active metrics, unless it says otherwise.
    pub status: Option<MetricStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    Id,
    Creator,
    Name,
    Unit,
    ArchivePolicyName,
    ResourceId,
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDirection {
    Ascending,
    Descending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSort {
    pub key: SortKey,
    pub direction: SortDirection,
}

/// Which part of a listing: at most `limit`, behind the metric that `marker` names, in the order of `sorts`, then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: usize,
    pub marker: Option<MetricId>,
    pub sorts: Vec<MetricSort>,
}

/// A filter and a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricListing {
    pub filter: MetricFilter,
    pub page: Page,
}

#[async_trait]
pub trait Metrics {
    /// Creates metrics, one answer each, in order. Concurrent calls share transactions.
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>, IndexerError>>;

    /// Active metrics by id, one answer each, in order; `None` where there is none.
    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>, IndexerError>;

    /// Refuses a marker that names no metric.
    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>, IndexerError>;

    /// Marks metrics for the janitor, one answer each, in order; they are gone for every reader from now on.
    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<(), IndexerError>>;

    /// Up to `limit` metrics that wait for the janitor.
    async fn deleted_metrics(&self, limit: usize) -> Result<Vec<MetricId>, IndexerError>;

    /// Removes metrics whose data the janitor has removed.
    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<(), IndexerError>;
}
