//! A cache in front of an index, for the hot path: metrics by id and by name, resources, their types, archive policies,
//! rules.
//!
//! All methods call the index, except look-ups that the cache can answer. Writes through the cache are visible at once:
//! before a write is acknowledged, the cache is invalidated or updated, also if the caller has gone. Misses are not
//! cached, since another process may create the item at any time: each look-up of an unknown id is a query, shared by
//! concurrent callers. A creation, too, invalidates its name: the cache may have a former item that another process has
//! deleted.
//!
//! # Several processes on one index
//!
//! Each process has its own cache. Items that another process creates are found, since misses are not cached.
//! Its changes and deletions are in the index's feed, which [`CachedIndexer::follow`] polls: a cache lags by
//! at most one interval. Changes of its own are taken from there once more, since one may be committed only
//! after its caller has got no answer in time. After a failure of a poll the cache is cleared: another primary
//! may answer, which lacks what was read from the former one. If polling fails for too long, the cache is not
//! used until it works again. Within the interval a deleted metric may still be found: its measures are
//! accepted, and dropped by the worker that removes the metric. Writes are checked by the database, never by
//! the cache.

mod caches;
mod clock;
mod follower;
mod loader;
mod metrics;
mod named;
mod resource_table;
mod resources;
mod shards;

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{ArchivePolicy, ArchivePolicyRule, Fault, Metric, MetricId};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    ArchivePolicies, ArchivePolicyRules, ChangeLog, Creators, Indexer, IndexerError, MetricListing,
    MetricMove, MetricPages, Metrics, NewMetric, PolicyChange, PolicyConversion, Result, Touched,
    archive_policy_rule::first_match, outcome_of,
};
use caches::{ALL_RULES, Caches};
pub use follower::FollowOptions;
use follower::Follower;
use loader::Loader;

/// Metrics per page of [`CachedIndexer::warm`].
const METRICS_WARMED_AT_ONCE: usize = 10_000;

/// Limits of the cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// Least recently used ones are evicted; 0 disables the cache. Also the limit of cached ends of resources.
    pub metrics_cached_max: usize,
    /// Likewise; a resource counts twice if it is read both by its own type and as a generic one.
    pub resources_cached_max: usize,
}

/// Counters of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Cache hits for metrics.
    pub hits: u64,
    /// Cache misses for metrics.
    pub misses: u64,
    /// Metrics cached now.
    pub metrics: usize,
}

/// An index with a cache in front.
#[derive(Debug)]
pub struct CachedIndexer<I> {
    index: Arc<I>,
    caches: Arc<Caches>,
    loader: Loader,
    follower: Mutex<Option<Follower>>,
}

impl<I: Indexer> CachedIndexer<I> {
    /// Must be called within a Tokio runtime.
    pub fn new(index: I, options: &CacheOptions) -> Self {
        let index = Arc::new(index);
        let caches = Arc::new(Caches::new(options));
        let loader = Loader::start(index.clone(), caches.clone());
        CachedIndexer { index, caches, loader, follower: Mutex::default() }
    }

    /// The index itself.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Loads policies, rules and as many metrics as fit; returns the number of cached metrics.
    pub async fn warm(&self) -> Result<usize> {
        for loaded in [self.archive_policies().await.map(drop), self.load_rules().await.map(drop)] {
            match loaded {
                // It fails what needs it, not the metrics.
                Ok(()) | Err(IndexerError::DamagedItem { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut pages = MetricPages::new(METRICS_WARMED_AT_ONCE);
        while !self.caches.metrics.by_id.is_full() {
            let epochs = self.caches.metrics.by_id.epochs();
            let Some(page) = pages.next(&*self.index).await? else { break };
            self.caches.metrics.insert_all(&page, &epochs);
        }
        Ok(self.caches.metrics.by_id.len())
    }

    /// Must be called if something was changed bypassing the cache.
    pub fn invalidate(&self, touched: &Touched) {
        self.caches.invalidate(touched);
    }

    pub fn figures(&self) -> CacheFigures {
        let (hits, misses) = self.caches.metrics.by_id.hits_and_misses();
        CacheFigures { hits, misses, metrics: self.caches.metrics.by_id.len() }
    }

    async fn load_rules(&self) -> Result<Arc<[ArchivePolicyRule]>> {
        let epoch = self.caches.rules.epoch();
        let rules: Arc<[_]> = self.index.archive_policy_rules().await?.into();
        self.caches.rules.keep([(ALL_RULES.to_owned(), rules.clone())].into_iter(), epoch);
        Ok(rules)
    }

    /// Runs a write and the invalidation to completion, even if the caller is dropped: a write that has reached the
    /// index is executed anyway, and the cache must be invalidated.
    async fn run_to_completion<T, F>(
        &self,
        write: impl FnOnce(Arc<I>) -> F,
        forget: impl FnOnce(&Caches, &T) + Send + 'static,
    ) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (write, caches) = (write(self.index.clone()), self.caches.clone());
        let task = tokio::spawn(async move {
            let outcome = write.await;
            forget(&caches, &outcome);
            outcome
        });
        outcome_of(task).await
    }
}

impl<I: Indexer> Indexer for CachedIndexer<I> {
    fn cached_metric(&self, id: MetricId) -> Option<Arc<Metric>> {
        self.caches.metrics.by_id.get(id)
    }

    fn visit_cached_metrics(&self, ids: &[MetricId], visit: &mut dyn FnMut(usize, &Metric)) {
        self.caches.metrics.visit(ids, visit);
    }

    fn cached_named_metric(&self, resource: Uuid, name: &str) -> Option<Arc<Metric>> {
        self.caches.metrics.named(resource, name)
    }

    fn cached_policy(&self, name: &str) -> Option<Arc<ArchivePolicy>> {
        self.caches.policies.get(name)
    }

    fn damaged(&self) -> u64 {
        self.index.damaged()
    }

    fn left_out(&self) -> u64 {
        self.index.left_out()
    }

    fn change_log(&self) -> Option<&ChangeLog> {
        Some(&self.caches.log)
    }

    fn fault(&self) -> Option<Fault> {
        if self.loader.has_ended() {
            return Some(Fault::Ended("the index's loader"));
        }
        if self.follower.lock().as_ref().is_some_and(Follower::has_ended) {
            return Some(Fault::Ended("what follows the changes of other processes"));
        }
        self.index.fault()
    }
}

#[async_trait]
impl<I: Indexer> Metrics for CachedIndexer<I> {
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>>> {
        let epochs: Vec<_> =
            metrics.iter().map(|metric| self.caches.metrics.by_id.epoch(metric.id)).collect();
        let of_resources: Vec<Uuid> = metrics.iter().filter_map(|metric| metric.resource_id).collect();
        let write = |index: Arc<I>| async move { index.create_metrics(metrics).await };
        let note = |caches: &Caches, outcomes: &Vec<Result<Arc<Metric>, _>>| {
            caches.resources.invalidate(of_resources);
            let created: Vec<MetricId> = outcomes.iter().flatten().map(|metric| metric.id).collect();
            caches.log.created(&created);
        };
        let outcomes = self.run_to_completion(write, note).await;
        for (outcome, epoch) in outcomes.iter().zip(epochs) {
            if let Ok(metric) = outcome {
                self.caches.metrics.insert(metric, epoch);
            }
        }
        outcomes
    }

    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>> {
        let mut found = self.caches.metrics.get_all(ids);
        let missing: Vec<usize> = (0..ids.len()).filter(|index| found[*index].is_none()).collect();
        if !missing.is_empty() {
            let wanted = missing.iter().map(|index| ids[*index]).collect();
            for (index, metric) in missing.into_iter().zip(self.loader.load(wanted).await?) {
                found[index] = metric;
            }
        }
        Ok(found)
    }

    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>> {
        let mut found: Vec<_> =
            names.iter().map(|(resource, name)| self.caches.metrics.named(*resource, name)).collect();
        let missing: Vec<usize> = (0..names.len()).filter(|index| found[*index].is_none()).collect();
        if !missing.is_empty() {
            let wanted: Vec<_> = missing.iter().map(|index| names[*index]).collect();
            let epochs = self.caches.metrics.by_id.epochs();
            let loaded = self.index.named_metrics(&wanted).await?;
            self.caches.metrics.insert_all(loaded.iter().flatten(), &epochs);
            for (index, metric) in missing.into_iter().zip(loaded) {
                found[index] = metric;
            }
        }
        Ok(found)
    }

    async fn whole_names(&self, ids: &[MetricId]) -> Result<Vec<Option<String>>> {
        self.index.whole_names(ids).await
    }

    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>> {
        self.index.list_metrics(listing).await
    }

    async fn count_metrics(&self, creators: Option<&Creators>) -> Result<u64> {
        self.index.count_metrics(creators).await
    }

    async fn current_metric(&self, id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>> {
        self.index.current_metric(id).await
    }

    async fn move_metric(&self, id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>> {
        let name = archive_policy_name.to_owned();
        let write = |index: Arc<I>| async move { index.move_metric(id, &name).await };
        self.run_to_completion(write, move |caches, _| caches.invalidate_metrics_of_any_resource(&[id])).await
    }

    async fn metric_moves(&self, limit: usize) -> Result<Vec<MetricMove>> {
        self.index.metric_moves(limit).await
    }

    async fn forget_moves(&self, moves: &[MetricMove]) -> Result<()> {
        self.index.forget_moves(moves).await
    }

    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<()>> {
        let (ids, deleted) = (ids.to_vec(), ids.to_vec());
        let write = |index: Arc<I>| async move { index.delete_metrics(&ids).await };
        self.run_to_completion(write, move |caches, _| caches.invalidate_metrics_of_any_resource(&deleted))
            .await
    }

    async fn deleted_metrics(&self, after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>> {
        self.index.deleted_metrics(after, limit).await
    }

    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<()> {
        // A metric deleted by another process may still be cached: a pass that found it would write it again.
        self.caches.metrics.invalidate(ids);
        self.index.expunge_metrics(ids).await
    }
}

#[async_trait]
impl<I: Indexer> ArchivePolicies for CachedIndexer<I> {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<()> {
        let created = policy.name.clone();
        let write = |index: Arc<I>| async move { index.create_archive_policy(policy).await };
        self.run_to_completion(write, move |caches, _| caches.policies.invalidate(&created)).await
    }

    async fn create_missing_policies(
        &self,
        policies: Vec<ArchivePolicy>,
        rules: Vec<ArchivePolicyRule>,
    ) -> Result<()> {
        let write = |index: Arc<I>| async move { index.create_missing_policies(policies, rules).await };
        self.run_to_completion(write, |caches, _| caches.invalidate_policies()).await
    }

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>> {
        if let Some(policy) = self.caches.policies.get(name) {
            return Ok(Some(policy));
        }
        let epoch = self.caches.policies.epoch();
        let policy = self.index.archive_policy(name).await?;
        let named = policy.iter().map(|policy| (policy.name.clone(), policy.clone()));
        self.caches.policies.keep(named, epoch);
        Ok(policy)
    }

    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>> {
        let epoch = self.caches.policies.epoch();
        let policies = self.index.archive_policies().await?;
        let named = policies.iter().map(|policy| (policy.name.clone(), policy.clone()));
        self.caches.policies.keep(named, epoch);
        Ok(policies)
    }

    async fn update_archive_policy(&self, name: &str, change: PolicyChange) -> Result<Arc<ArchivePolicy>> {
        let (name, changed) = (name.to_owned(), name.to_owned());
        let write = |index: Arc<I>| async move { index.update_archive_policy(&name, change).await };
        self.run_to_completion(write, move |caches, _| caches.policies.invalidate(&changed)).await
    }

    async fn delete_archive_policy(&self, name: &str) -> Result<()> {
        let (name, deleted) = (name.to_owned(), name.to_owned());
        let write = |index: Arc<I>| async move { index.delete_archive_policy(&name).await };
        self.run_to_completion(write, move |caches, _| caches.policies.invalidate(&deleted)).await
    }

    async fn sweep_definitions(&self) -> Result<u64> {
        let write = |index: Arc<I>| async move { index.sweep_definitions().await };
        self.run_to_completion(write, |caches, _| caches.policies.invalidate_all()).await
    }

    async fn policy_conversions(&self) -> Result<Vec<PolicyConversion>> {
        self.index.policy_conversions().await
    }

    async fn metrics_of_policy(
        &self,
        name: &str,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>> {
        self.index.metrics_of_policy(name, after, limit).await
    }

    async fn advance_policy_conversion(&self, id: Uuid, to: Option<MetricId>) -> Result<()> {
        self.index.advance_policy_conversion(id, to).await
    }
}

#[async_trait]
impl<I: Indexer> ArchivePolicyRules for CachedIndexer<I> {
    async fn create_archive_policy_rule(&self, rule: ArchivePolicyRule) -> Result<()> {
        let write = |index: Arc<I>| async move { index.create_archive_policy_rule(rule).await };
        self.run_to_completion(write, |caches, _| caches.rules.invalidate_all()).await
    }

    async fn archive_policy_rule(&self, name: &str) -> Result<Option<ArchivePolicyRule>> {
        self.index.archive_policy_rule(name).await
    }

    async fn archive_policy_rules(&self) -> Result<Vec<ArchivePolicyRule>> {
        Ok(self.load_rules().await?.to_vec())
    }

    async fn rename_archive_policy_rule(&self, name: &str, new_name: &str) -> Result<ArchivePolicyRule> {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let write = |index: Arc<I>| async move { index.rename_archive_policy_rule(&name, &new_name).await };
        self.run_to_completion(write, |caches, _| caches.rules.invalidate_all()).await
    }

    async fn delete_archive_policy_rule(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        let write = |index: Arc<I>| async move { index.delete_archive_policy_rule(&name).await };
        self.run_to_completion(write, |caches, _| caches.rules.invalidate_all()).await
    }

    async fn archive_policy_name_for_metric(&self, metric_name: &str) -> Result<String> {
        if let Some(rules) = self.caches.rules.get(ALL_RULES)
            && let Ok(policy) = first_match(&rules, metric_name)
        {
            return Ok(policy);
        }
        match self.load_rules().await {
            Ok(rules) => first_match(&rules, metric_name),
            Err(IndexerError::DamagedItem { .. }) => {
                self.index.archive_policy_name_for_metric(metric_name).await
            }
            Err(error) => Err(error),
        }
    }
}
