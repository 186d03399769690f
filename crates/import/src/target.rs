//! The store that an import writes to; no process folds measures in it.

use std::{collections::HashMap, sync::Arc};

use gnudi_drivers::aggregates::AggregateStore;
use gnudi_indexer::{
    Filter, Indexer, IndexerError, MetricPages, ResourceListing, ResourceMarker, ResourcePage, ResourceSort,
    SortDirection,
};
use gnudi_model::{Metric, MetricId, Resource, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use crate::index::MetricPlace;

/// Items per page of a listing.
const PAGE: usize = 10_000;

/// See the module.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub indexer: &'a dyn Indexer,
    pub aggregates: &'a dyn AggregateStore,
    /// The time of the import.
    pub now: Timestamp,
}

impl Target<'_> {
    /// Whether it has neither resources nor metrics.
    pub async fn is_empty(&self) -> Result<bool, IndexerError> {
        let metrics = MetricPages::new(1).next(self.indexer).await?;
        Ok(self.some_resources(None, 1).await?.is_empty() && metrics.is_none_or(|metrics| metrics.is_empty()))
    }

    pub(crate) async fn metrics(&self) -> Result<Vec<(MetricId, MetricPlace)>, IndexerError> {
        let place = |metric: &Metric| MetricPlace::of(metric.resource_id, metric.name.as_deref());
        let (mut all, mut pages) = (Vec::new(), MetricPages::new(PAGE));
        while let Some(page) = pages.next(self.indexer).await? {
            all.extend(page.iter().map(|metric| (metric.id, place(metric))));
        }
        Ok(all)
    }

    /// All resources, with the starts of their newest revisions.
    pub(crate) async fn resources(&self) -> Result<HashMap<Uuid, Timestamp>, IndexerError> {
        let mut all = HashMap::new();
        let mut marker = None;
        loop {
            let some = self.some_resources(marker, PAGE).await?;
            all.extend(some.iter().copied());
            marker = some.last().map(|(id, _)| *id);
            if some.len() < PAGE {
                return Ok(all);
            }
        }
    }

    async fn some_resources(
        &self,
        marker: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<(Uuid, Timestamp)>, IndexerError> {
        let marker = marker.map(|id| ResourceMarker::Revision { id, revision: 0 });
        let resources = resource_page(self.indexer, GENERIC, None, marker, false, limit).await?;
        Ok(resources.iter().map(|resource| (resource.id, resource.revision_start)).collect())
    }
}

/// A page of the resources of a type, or of their revisions, that match a filter, sorted by id.
pub(crate) async fn resource_page(
    indexer: &dyn Indexer,
    resource_type: &str,
    filter: Option<Filter>,
    marker: Option<ResourceMarker>,
    history: bool,
    limit: usize,
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    let sorts = vec![ResourceSort { field: "id".to_owned(), direction: SortDirection::Ascending }];
    let page = ResourcePage { limit: Some(limit), marker, sorts };
    let all = ResourceListing::of(resource_type, Timestamp::EPOCH);
    let listing = ResourceListing { filter, history, page, ..all };
    indexer.list_resources(&listing).await
}
