//! Resources and their history in memory.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Metric, MetricId, MetricStatus, Resource, Text, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{MemoryIndexer, Tables, listing};
use crate::{
    DeletedResources, Filter, IndexerError, MetricsChange, NewMetric, NewNamedMetric, NewResource,
    ResourceChange, ResourceListing, Resources, Result, UpdatedResource,
    filter::{Condition, Scope},
    metric::{named_metric_already_exists, sort_by_name},
    resource::{changed, check_attributes, check_revision, check_times, goes_on, is_over, next_start},
};

#[async_trait]
impl Resources for MemoryIndexer {
    async fn create_resources(&self, resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>>> {
        let mut tables = self.tables.lock();
        resources.into_iter().map(|new| tables.create_resource(new)).collect()
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>> {
        let tables = self.tables.lock();
        tables.resource_type(resource_type)?;
        let found = tables.resources.get(&id).filter(|resource| is_of_type(resource, resource_type));
        Ok(found.map(|resource| Arc::new(tables.shown(resource, resource_type))))
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource> {
        self.tables.lock().update_resource(resource_type, id, change)
    }

    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64> {
        self.tables.lock().set_ends(ids.iter().map(|id| (*id, now)), goes_on, Some(now), now)
    }

    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>> {
        let tables = self.tables.lock();
        Ok(ids.iter().map(|id| tables.resources.get(id).map(|resource| resource.ended_at)).collect())
    }

    async fn revive_resources(&self, seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64> {
        self.tables.lock().set_ends(seen.iter().copied(), is_over, None, now)
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>>> {
        let mut tables = self.tables.lock();
        ids.iter().map(|id| tables.delete_resource(*id)).collect()
    }

    async fn delete_resource_of_revision(&self, id: Uuid, start: Timestamp) -> Result<Vec<MetricId>> {
        let mut tables = self.tables.lock();
        let current = tables.resources.get(&id).ok_or(IndexerError::NoSuchResource(id))?;
        check_revision(id, current.revision_start, Some(start))?;
        tables.delete_resource(id)
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources> {
        let mut tables = self.tables.lock();
        let known = tables.resource_type(resource_type)?;
        let condition = Condition::read(filter, Scope { resource_type: &known, history: false, now })?;
        let mut deleted = DeletedResources::default();
        for resource in tables.listed(resource_type, false) {
            if condition.evaluate(&resource) == Some(true) {
                deleted.metrics.extend(tables.delete_resource(resource.id)?);
                deleted.ids.push(resource.id);
            }
        }
        Ok(deleted)
    }

    async fn sweep_values(&self, _limit: usize) -> Result<usize> {
        // Deleted attributes leave nothing behind here.
        Ok(0)
    }

    async fn remove_revisions(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let history = &mut self.tables.lock().history;
        let is_over = |revision: &Resource| revision.revision_end.is_some_and(|end| end < before);
        let mut over: Vec<_> = history.iter().filter(|(_, revision)| is_over(revision)).collect();
        over.sort_by_key(|(number, revision)| (revision.revision_end, **number));
        let numbers: Vec<i64> = over.into_iter().map(|(number, _)| *number).take(limit).collect();
        for number in &numbers {
            history.remove(number);
        }
        Ok(numbers.len())
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>> {
        listing::list(self, listing)
    }
}

pub(super) fn is_of_type(resource: &Resource, resource_type: &str) -> bool {
    resource_type == GENERIC || resource.resource_type == resource_type
}

impl Tables {
    /// A stored resource as seen under a type: with its metrics, and without attributes as a generic one.
    pub(super) fn shown(&self, resource: &Resource, resource_type: &str) -> Resource {
        let mut shown = Resource { metrics: self.metrics_of(resource.id).into(), ..resource.clone() };
        if resource_type == GENERIC {
            shown.attributes.clear();
        }
        shown
    }

    /// The active metrics of a resource, by name.
    fn metrics_of(&self, resource: Uuid) -> Vec<Arc<Metric>> {
        let is_it = |metric: &&Arc<Metric>| {
            metric.resource_id == Some(resource) && metric.status == MetricStatus::Active
        };
        let mut metrics: Vec<_> = self.metrics.values().filter(is_it).cloned().collect();
        sort_by_name(&mut metrics);
        metrics
    }

    fn create_resource(&mut self, new: NewResource) -> Result<Arc<Resource>> {
        let (id, now) = (new.id, new.now);
        let resource_type = self.resource_type(&new.resource_type)?;
        let resource = new.resource(&resource_type, |text| Text::from(text))?;
        if self.resources.contains_key(&id) {
            return Err(IndexerError::ResourceAlreadyExists(id));
        }
        self.resources.insert(id, resource.clone());
        if let Err(error) = self.change_metrics(&resource, &[], new.metrics, now) {
            self.resources.remove(&id);
            return Err(error);
        }
        let attributes_of = resource.resource_type.clone();
        Ok(Arc::new(self.shown(&resource, &attributes_of)))
    }

    fn update_resource(
        &mut self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource> {
        let known = self.resource_type(resource_type)?;
        let current = self.resources.get(&id).filter(|resource| is_of_type(resource, resource_type));
        let current = current.ok_or(IndexerError::NoSuchResource(id))?.clone();
        check_attributes(&known, &change.attributes)?;
        check_revision(id, current.revision_start, change.of_revision)?;
        let mut resource = changed(&current, &change);
        check_times(resource_type, &resource)?;
        let before = self.metrics_of(id);
        let next_start = next_start(current.revision_start, &change);
        if let Some(metrics) = change.metrics {
            let detached = if change.append_metrics { &[][..] } else { &before };
            self.change_metrics(&current, detached, metrics, change.now)?;
        }
        if change.revision.is_created(resource != current) {
            self.revisions += 1;
            let revision = self.revisions;
            resource.revision_start = next_start;
            let revision_end = Some(resource.revision_start);
            self.history.insert(revision, Resource { revision, revision_end, ..current });
        }
        self.resources.insert(id, resource.clone());
        let resource = Arc::new(self.shown(&resource, resource_type));
        let is_kept = |id: MetricId| resource.metrics.iter().any(|metric| metric.id == id);
        let detached = before.iter().map(|metric| metric.id).filter(|id| !is_kept(*id)).collect();
        Ok(UpdatedResource { resource, detached })
    }

    /// Sets or removes the ends of the resources that satisfy a condition, each at its time; returns their number.
    fn set_ends(
        &mut self,
        resources: impl Iterator<Item = (Uuid, Timestamp)>,
        must_be: fn(&Resource, Timestamp) -> bool,
        ended_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<u64> {
        let mut set = 0;
        for (id, time) in resources {
            if self.resources.get(&id).is_some_and(|resource| must_be(resource, time)) {
                self.update_resource(GENERIC, id, ResourceChange::of_end(ended_at, now))?;
                set += 1;
            }
        }
        Ok(set)
    }

    /// Detaches, attaches and creates metrics atomically.
    fn change_metrics(
        &mut self,
        resource: &Resource,
        detached: &[Arc<Metric>],
        metrics: Vec<(String, MetricsChange)>,
        now: Timestamp,
    ) -> Result<()> {
        let before = (self.metrics.clone(), self.whole_names.clone());
        for metric in detached {
            let detached = Metric { resource_id: None, ..Metric::clone(metric) };
            self.metrics.insert(metric.id, Arc::new(detached));
        }
        let outcome = self.add_metrics(resource, metrics, now);
        if outcome.is_err() {
            (self.metrics, self.whole_names) = before;
        }
        outcome
    }

    fn add_metrics(
        &mut self,
        resource: &Resource,
        metrics: Vec<(String, MetricsChange)>,
        now: Timestamp,
    ) -> Result<()> {
        for (name, change) in metrics {
            match change {
                MetricsChange::Attach(id) => self.attach(resource, name, id)?,
                MetricsChange::Create(NewNamedMetric { id, unit, archive_policy_name, whole_name }) => {
                    self.create_metric(NewMetric {
                        id,
                        creator: resource.creator.to_string(),
                        name: Some(name),
                        unit,
                        archive_policy_name,
                        resource_id: Some(resource.id),
                        created_at: now,
                        whole_name,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn attach(&mut self, resource: &Resource, name: String, id: MetricId) -> Result<()> {
        let metric = self.active(id).filter(|metric| metric.creator == resource.creator);
        let metric = metric.ok_or(IndexerError::NoSuchMetric(id))?;
        if self.named(resource.id, &name).is_some_and(|named| named.id != id) {
            return Err(named_metric_already_exists(Some(&name)));
        }
        let attached =
            Metric { name: Some(name.into()), resource_id: Some(resource.id), ..Metric::clone(&metric) };
        self.metrics.insert(id, Arc::new(attached));
        self.whole_names.remove(&id);
        Ok(())
    }

    fn delete_resource(&mut self, id: Uuid) -> Result<Vec<MetricId>> {
        self.resources.remove(&id).ok_or(IndexerError::NoSuchResource(id))?;
        self.history.retain(|_, revision| revision.id != id);
        self.annotations.retain(|_, annotation| annotation.resource_id != id);
        let metrics = self.metrics_of(id);
        for metric in &metrics {
            self.mark_deleted(metric);
        }
        let mut ids: Vec<MetricId> = metrics.iter().map(|metric| metric.id).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}
