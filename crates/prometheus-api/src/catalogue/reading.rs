//! Reads metrics with everything that determines their labels.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use gnudi_indexer::{Filter, FilterValue, Indexer, IndexerError, ResourceListing};
use gnudi_model::{Metric, MetricId, Resource, Timestamp, resource_type::GENERIC};
use gnudi_prometheus::{
    index::{NewSeries, Owner},
    labels,
};
use uuid::Uuid;

/// The batch size for reading resources.
const RESOURCES_AT_ONCE: usize = 1000;

/// Metrics, with everything that determines their labels.
#[derive(Default)]
pub(super) struct Read {
    metrics: Vec<Arc<Metric>>,
    resources: HashMap<Uuid, Arc<Resource>>,
    whole_names: HashMap<MetricId, String>,
}

impl Read {
    /// The series of metrics whose resource exists. Another change reports a missing resource or its metrics'
    /// deletion.
    pub(super) fn series(&self) -> Vec<NewSeries<'_>> {
        self.metrics.iter().filter_map(|metric| self.one(metric)).collect()
    }

    fn one<'a>(&'a self, metric: &'a Metric) -> Option<NewSeries<'a>> {
        let resource = match metric.resource_id {
            Some(id) => Some(&**self.resources.get(&id)?),
            None => None,
        };
        let owner = Owner {
            creator: metric.creator.as_str().into(),
            project: resource.and_then(|resource| resource.project_id.as_deref()).map(Into::into),
            resource_creator: resource.map(|resource| resource.creator.as_str().into()),
        };
        let whole_name = self.whole_names.get(&metric.id).map(String::as_str);
        let archive_policy_name = metric.archive_policy_name.as_str();
        let labels = labels::labels(metric, resource, whole_name);
        Some(NewSeries { metric: metric.id, archive_policy_name, owner, labels })
    }

    async fn add_whole_names(&mut self, index: &dyn Indexer) -> Result<(), IndexerError> {
        let may_have = |metric: &&Arc<Metric>| {
            let resource = metric.resource_id.and_then(|id| self.resources.get(&id));
            resource.is_some_and(|resource| labels::may_have_whole_name(metric, resource))
        };
        let doubtful: Vec<MetricId> = self.metrics.iter().filter(may_have).map(|metric| metric.id).collect();
        if !doubtful.is_empty() {
            let found = index.whole_names(&doubtful).await?;
            let named = doubtful.into_iter().zip(found);
            self.whole_names = named.filter_map(|(id, whole_name)| Some((id, whole_name?))).collect();
        }
        Ok(())
    }
}

/// Reads the resources and full names of metrics.
pub(super) async fn of_metrics(index: &dyn Indexer, metrics: Vec<Arc<Metric>>) -> Result<Read, IndexerError> {
    let ids: HashSet<Uuid> = metrics.iter().filter_map(|metric| metric.resource_id).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut resources = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(RESOURCES_AT_ONCE) {
        let found = resources_of(index, ids, Some(Vec::new())).await?;
        resources.extend(found.into_iter().map(|resource| (resource.id, resource)));
    }
    let mut read = Read { metrics, resources, whole_names: HashMap::new() };
    read.add_whole_names(index).await?;
    Ok(read)
}

/// Reads resources and their metrics.
pub(super) async fn of_resources(index: &dyn Indexer, ids: &[Uuid]) -> Result<Read, IndexerError> {
    let mut read = Read::default();
    for resource in resources_of(index, ids, None).await? {
        read.metrics.extend(resource.metrics.iter().cloned());
        read.resources.insert(resource.id, resource);
    }
    read.add_whole_names(index).await?;
    Ok(read)
}

/// Resources with the attributes of their types, and these metrics.
async fn resources_of(
    index: &dyn Indexer,
    ids: &[Uuid],
    metric_names: Option<Vec<String>>,
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let values = ids.iter().copied().map(FilterValue::Uuid).collect();
    let filter = Some(Filter::In { field: "id".to_owned(), values });
    // The filter contains no relative times, so any time will do.
    let all = ResourceListing::of(GENERIC, Timestamp::EPOCH);
    index.list_resources(&ResourceListing { filter, details: true, metric_names, ..all }).await
}
