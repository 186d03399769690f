//! A simple index in memory: the reference model for the others, and an index for tests of other crates.
//!
//! A listing sorts all metrics each time; there are no indexes.

mod annotation;
mod listing;
mod resource;
mod resource_type;

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Metric, MetricId, MetricStatus, Resource, ResourceType, Text,
};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    Annotation, ArchivePolicies, ArchivePolicyRules, Creators, Indexer, IndexerError, MetricFilter,
    MetricListing, MetricMarker, MetricMove, MetricScope, MetricSort, Metrics, NewMetric, Page, PolicyChange,
    PolicyConversion, Result, SortKey,
    archive_policy::begins_conversion,
    metric::{invalid_marker, named_metric_already_exists, order_of},
};

#[derive(Debug, Default)]
pub struct MemoryIndexer {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    policies: BTreeMap<String, Arc<ArchivePolicy>>,
    rules: BTreeMap<String, ArchivePolicyRule>,
    metrics: BTreeMap<MetricId, Arc<Metric>>,
    whole_names: BTreeMap<MetricId, String>,
    /// By the policies' names.
    conversions: BTreeMap<String, PolicyConversion>,
    moves: Vec<MetricMove>,
    /// All except the generic one.
    types: BTreeMap<String, Arc<ResourceType>>,
    /// Current revisions with all attributes of their types; metrics are in their own table.
    resources: BTreeMap<Uuid, Resource>,
    /// Earlier revisions, by number.
    history: BTreeMap<i64, Resource>,
    annotations: BTreeMap<Uuid, Annotation>,
    /// Number of revisions ever created.
    revisions: i64,
}

impl Indexer for MemoryIndexer {}

#[async_trait]
impl ArchivePolicies for MemoryIndexer {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<()> {
        let mut tables = self.tables.lock();
        if tables.policies.contains_key(&policy.name) {
            return Err(IndexerError::ArchivePolicyAlreadyExists(policy.name));
        }
        tables.policies.insert(policy.name.clone(), Arc::new(policy));
        Ok(())
    }

    async fn create_missing_policies(
        &self,
        policies: Vec<ArchivePolicy>,
        rules: Vec<ArchivePolicyRule>,
    ) -> Result<()> {
        let mut tables = self.tables.lock();
        let is_there = |name: &String| {
            tables.policies.contains_key(name) || policies.iter().any(|policy| policy.name == *name)
        };
        if let Some(rule) = rules.iter().find(|rule| !is_there(&rule.archive_policy_name)) {
            return Err(IndexerError::NoSuchArchivePolicy(rule.archive_policy_name.clone()));
        }
        for policy in policies {
            tables.policies.entry(policy.name.clone()).or_insert_with(|| Arc::new(policy));
        }
        for rule in rules {
            tables.rules.entry(rule.name.clone()).or_insert(rule);
        }
        Ok(())
    }

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>> {
        Ok(self.tables.lock().policies.get(name).cloned())
    }

    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>> {
        let tables = self.tables.lock();
        let named =
            tables.policies.values().filter(|policy| !ArchivePolicy::is_definition_name(&policy.name));
        Ok(named.cloned().collect())
    }

    async fn update_archive_policy(&self, name: &str, change: PolicyChange) -> Result<Arc<ArchivePolicy>> {
        let mut tables = self.tables.lock();
        let Some(policy) = tables.policies.get(name) else {
            return Err(IndexerError::NoSuchArchivePolicy(name.to_owned()));
        };
        let mut changed = ArchivePolicy::clone(policy);
        change.apply(&mut changed)?;
        if begins_conversion(policy, &changed) {
            let archive_policy_name = name.to_owned();
            let begun = PolicyConversion { id: Uuid::new_v4(), archive_policy_name, converted_to: None };
            tables.conversions.insert(name.to_owned(), begun);
        }
        let changed = Arc::new(changed);
        tables.policies.insert(name.to_owned(), changed.clone());
        Ok(changed)
    }

    async fn delete_archive_policy(&self, name: &str) -> Result<()> {
        let mut tables = self.tables.lock();
        if !tables.policies.contains_key(name) {
            return Err(IndexerError::NoSuchArchivePolicy(name.to_owned()));
        }
        if tables.metrics.values().any(|metric| metric.archive_policy_name == name)
            || tables.rules.values().any(|rule| rule.archive_policy_name == name)
        {
            return Err(IndexerError::ArchivePolicyInUse(name.to_owned()));
        }
        tables.policies.remove(name);
        tables.conversions.remove(name);
        Ok(())
    }

    async fn sweep_definitions(&self) -> Result<u64> {
        let mut tables = self.tables.lock();
        let Tables { policies, metrics, rules, .. } = &mut *tables;
        let before = policies.len();
        policies.retain(|name, _| {
            !ArchivePolicy::is_definition_name(name)
                || metrics.values().any(|metric| metric.archive_policy_name == *name)
                || rules.values().any(|rule| rule.archive_policy_name == *name)
        });
        Ok((before - policies.len()) as u64)
    }

    async fn policy_conversions(&self) -> Result<Vec<PolicyConversion>> {
        Ok(self.tables.lock().conversions.values().cloned().collect())
    }

    async fn metrics_of_policy(
        &self,
        name: &str,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>> {
        let tables = self.tables.lock();
        let is_of_policy =
            |metric: &Metric| metric.status == MetricStatus::Active && metric.archive_policy_name == name;
        let behind = tables.metrics.values().filter(|metric| Some(metric.id) > after && is_of_policy(metric));
        Ok(behind.map(|metric| metric.id).take(limit).collect())
    }

    async fn advance_policy_conversion(&self, id: Uuid, to: Option<MetricId>) -> Result<()> {
        let mut tables = self.tables.lock();
        match to {
            Some(to) => {
                for conversion in tables.conversions.values_mut().filter(|conversion| conversion.id == id) {
                    conversion.converted_to = Some(to);
                }
            }
            None => tables.conversions.retain(|_, conversion| conversion.id != id),
        }
        Ok(())
    }
}

#[async_trait]
impl ArchivePolicyRules for MemoryIndexer {
    async fn create_archive_policy_rule(&self, rule: ArchivePolicyRule) -> Result<()> {
        let mut tables = self.tables.lock();
        if tables.rules.contains_key(&rule.name) {
            return Err(IndexerError::ArchivePolicyRuleAlreadyExists(rule.name));
        }
        if !tables.policies.contains_key(&rule.archive_policy_name) {
            return Err(IndexerError::NoSuchArchivePolicy(rule.archive_policy_name));
        }
        tables.rules.insert(rule.name.clone(), rule);
        Ok(())
    }

    async fn archive_policy_rule(&self, name: &str) -> Result<Option<ArchivePolicyRule>> {
        Ok(self.tables.lock().rules.get(name).cloned())
    }

    async fn archive_policy_rules(&self) -> Result<Vec<ArchivePolicyRule>> {
        let mut rules: Vec<_> = self.tables.lock().rules.values().cloned().collect();
        rules.sort_by(|a, b| b.metric_pattern.cmp(&a.metric_pattern).then(a.name.cmp(&b.name)));
        Ok(rules)
    }

    async fn rename_archive_policy_rule(&self, name: &str, new_name: &str) -> Result<ArchivePolicyRule> {
        let mut tables = self.tables.lock();
        let Some(rule) = tables.rules.get(name) else {
            return Err(IndexerError::NoSuchArchivePolicyRule(name.to_owned()));
        };
        if name != new_name && tables.rules.contains_key(new_name) {
            return Err(IndexerError::UnsupportedArchivePolicyRuleChange {
                name: name.to_owned(),
                message: format!("Archive policy rule {new_name} already exists."),
            });
        }
        let renamed = ArchivePolicyRule { name: new_name.to_owned(), ..rule.clone() };
        tables.rules.remove(name);
        tables.rules.insert(new_name.to_owned(), renamed.clone());
        Ok(renamed)
    }

    async fn delete_archive_policy_rule(&self, name: &str) -> Result<()> {
        match self.tables.lock().rules.remove(name) {
            Some(_) => Ok(()),
            None => Err(IndexerError::NoSuchArchivePolicyRule(name.to_owned())),
        }
    }
}

#[async_trait]
impl Metrics for MemoryIndexer {
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>>> {
        let mut tables = self.tables.lock();
        metrics.into_iter().map(|metric| tables.create_metric(metric)).collect()
    }

    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>> {
        let tables = self.tables.lock();
        Ok(ids.iter().map(|id| tables.active(*id)).collect())
    }

    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>> {
        let tables = self.tables.lock();
        Ok(names.iter().map(|(resource, name)| tables.named(*resource, name)).collect())
    }

    async fn whole_names(&self, ids: &[MetricId]) -> Result<Vec<Option<String>>> {
        let tables = self.tables.lock();
        Ok(ids.iter().map(|id| tables.whole_names.get(id).cloned()).collect())
    }

    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>> {
        let tables = self.tables.lock();
        let MetricListing { filter, page: Page { limit, marker, sorts } } = listing;
        let order = order_of(sorts);
        let marker = match marker {
            Some(MetricMarker::Listed(metric)) => Some(metric.clone()),
            Some(MetricMarker::Id(id)) => {
                let is_valid = |status| status == MetricStatus::Active || Some(status) == filter.status;
                let found = tables.metrics.get(id).filter(|metric| is_valid(metric.status));
                let found = found.filter(|metric| tables.is_in(filter.scope.as_ref(), metric)).cloned();
                Some(found.ok_or_else(|| invalid_marker(*id))?)
            }
            None => None,
        };
        let mut found: Vec<_> = tables
            .metrics
            .values()
            .filter(|metric| tables.accepts(filter, metric))
            .filter(|metric| marker.as_ref().is_none_or(|marker| compare(metric, marker, &order).is_gt()))
            .cloned()
            .collect();
        found.sort_by(|a, b| compare(a, b, &order));
        found.truncate(*limit);
        Ok(found)
    }

    async fn count_metrics(&self, creators: Option<&Creators>) -> Result<u64> {
        let tables = self.tables.lock();
        let active = tables.metrics.values().filter(|metric| metric.status == MetricStatus::Active);
        let wanted = |creator: &str| creators.is_none_or(|creators| creators.include(creator));
        Ok(active.filter(|metric| wanted(&metric.creator)).count() as u64)
    }

    async fn current_metric(&self, id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>> {
        let tables = self.tables.lock();
        let with_policy = |metric: Arc<Metric>| {
            let policy = tables.policies[&*metric.archive_policy_name].clone();
            (metric, policy)
        };
        Ok(tables.active(id).map(with_policy))
    }

    async fn move_metric(&self, id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>> {
        let mut tables = self.tables.lock();
        let metric = tables.active(id).ok_or(IndexerError::NoSuchMetric(id))?;
        if !tables.policies.contains_key(archive_policy_name) {
            return Err(IndexerError::NoSuchArchivePolicy(archive_policy_name.to_owned()));
        }
        let moved = Metric { archive_policy_name: archive_policy_name.into(), ..Metric::clone(&metric) };
        let moved = Arc::new(moved);
        tables.metrics.insert(id, moved.clone());
        tables.moves.push(MetricMove { id: Uuid::new_v4(), metric: id });
        Ok(moved)
    }

    async fn metric_moves(&self, limit: usize) -> Result<Vec<MetricMove>> {
        Ok(self.tables.lock().moves.iter().take(limit).cloned().collect())
    }

    async fn forget_moves(&self, moves: &[MetricMove]) -> Result<()> {
        self.tables.lock().moves.retain(|moved| !moves.contains(moved));
        Ok(())
    }

    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<()>> {
        let mut tables = self.tables.lock();
        ids.iter()
            .map(|id| {
                let metric = tables.active(*id).ok_or(IndexerError::NoSuchMetric(*id))?;
                tables.mark_deleted(&metric);
                Ok(())
            })
            .collect()
    }

    async fn deleted_metrics(&self, after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>> {
        let tables = self.tables.lock();
        let deleted = tables.metrics.values().filter(|metric| metric.status == MetricStatus::Delete);
        Ok(deleted.map(|metric| metric.id).filter(|id| Some(*id) > after).take(limit).collect())
    }

    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<()> {
        let mut tables = self.tables.lock();
        tables.metrics.retain(|id, metric| metric.status == MetricStatus::Active || !ids.contains(id));
        let Tables { metrics, whole_names, .. } = &mut *tables;
        whole_names.retain(|id, _| metrics.contains_key(id));
        Ok(())
    }
}

impl Tables {
    fn active(&self, id: MetricId) -> Option<Arc<Metric>> {
        self.metrics.get(&id).filter(|metric| metric.status == MetricStatus::Active).cloned()
    }

    fn named(&self, resource: Uuid, name: &str) -> Option<Arc<Metric>> {
        let is_it = |metric: &&Arc<Metric>| {
            metric.resource_id == Some(resource) && metric.name.as_deref() == Some(name)
        };
        self.metrics.values().filter(|metric| metric.status == MetricStatus::Active).find(is_it).cloned()
    }

    fn mark_deleted(&mut self, metric: &Metric) {
        let deleted = Metric { status: MetricStatus::Delete, resource_id: None, ..metric.clone() };
        self.metrics.insert(metric.id, Arc::new(deleted));
    }

    fn create_metric(&mut self, new: NewMetric) -> Result<Arc<Metric>> {
        let text = |text: &str| Text::from(text);
        let metric = Arc::new(new.metric(text, text));
        if let Some(resource) = metric.resource_id
            && !self.resources.contains_key(&resource)
        {
            return Err(IndexerError::NoSuchResource(resource));
        }
        let named = metric.resource_id.zip(metric.name.as_deref());
        let is_name_taken = named.is_some_and(|(resource, name)| self.named(resource, name).is_some());
        if is_name_taken || self.metrics.contains_key(&metric.id) {
            return Err(named_metric_already_exists(metric.name.as_deref()));
        }
        if !self.policies.contains_key(&new.archive_policy_name) {
            return Err(IndexerError::NoSuchArchivePolicy(new.archive_policy_name));
        }
        self.metrics.insert(metric.id, metric.clone());
        self.whole_names.extend(new.whole_name.map(|whole_name| (metric.id, whole_name)));
        Ok(metric)
    }

    fn is_in(&self, scope: Option<&MetricScope>, metric: &Metric) -> bool {
        let Some(scope) = scope else { return true };
        let resource = metric.resource_id.and_then(|id| self.resources.get(&id));
        let project = resource.and_then(|resource| resource.project_id.as_deref());
        scope.includes(&metric.creator, project, resource.map(|resource| &*resource.creator))
    }

    fn accepts(&self, filter: &MetricFilter, metric: &Metric) -> bool {
        let MetricFilter {
            id,
            creator,
            name,
            name_like,
            unit,
            archive_policy_name,
            resource_id,
            status,
            scope,
        } = filter;
        metric.status == status.unwrap_or(MetricStatus::Active)
            && id.is_none_or(|id| metric.id == id)
            && creator.as_ref().is_none_or(|creator| metric.creator == *creator)
            && name.as_deref().is_none_or(|name| metric.name.as_deref() == Some(name))
            && name_like
                .as_ref()
                .is_none_or(|pattern| metric.name.as_ref().is_some_and(|name| pattern.matches(name)))
            && unit.as_deref().is_none_or(|unit| metric.unit.as_deref() == Some(unit))
            && resource_id.is_none_or(|id| metric.resource_id == Some(id))
            && archive_policy_name.as_ref().is_none_or(|name| metric.archive_policy_name == *name)
            && self.is_in(scope.as_ref(), metric)
    }
}

fn compare(a: &Metric, b: &Metric, order: &[MetricSort]) -> Ordering {
    order.iter().map(|sort| compare_key(a, b, *sort)).fold(Ordering::Equal, Ordering::then)
}

fn compare_key(a: &Metric, b: &Metric, sort: MetricSort) -> Ordering {
    let MetricSort { key, direction } = sort;
    match key {
        SortKey::Id => direction.compare(Some(a.id), Some(b.id), Ord::cmp),
        SortKey::Creator => direction.compare(Some(&a.creator), Some(&b.creator), Ord::cmp),
        SortKey::ArchivePolicyName => {
            direction.compare(Some(&a.archive_policy_name), Some(&b.archive_policy_name), Ord::cmp)
        }
        SortKey::Status => direction.compare(Some(a.status as u8), Some(b.status as u8), Ord::cmp),
        SortKey::Name => direction.compare(a.name.as_ref(), b.name.as_ref(), Ord::cmp),
        SortKey::Unit => direction.compare(a.unit.as_ref(), b.unit.as_ref(), Ord::cmp),
        SortKey::ResourceId => direction.compare(a.resource_id, b.resource_id, Ord::cmp),
    }
}
