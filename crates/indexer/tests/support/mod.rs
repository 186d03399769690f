//! An index whose calls stop where a test wants them to.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use gnudi_indexer::{
    ArchivePolicies, ArchivePolicyRules, Creators, DeletedResources, Filter, Indexer, IndexerError,
    MemoryIndexer, MetricListing, Metrics, NewMetric, NewResource, ResourceChange, ResourceListing,
    ResourceTypeChange, ResourceTypes, Resources, UpdatedResource,
};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyItem, ArchivePolicyRule, Metric, MetricId, Resource, ResourceType, Timestamp,
};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Lets through as many calls as it has permits; starts open.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

const OPEN: usize = 1_000_000;

impl Gate {
    fn new() -> Self {
        Gate(Arc::new(Semaphore::new(OPEN)))
    }

    pub fn close(&self) {
        self.0.forget_permits(OPEN);
    }

    pub fn open(&self) {
        self.0.add_permits(OPEN);
    }

    pub fn let_one_pass(&self) {
        self.0.add_permits(1);
    }

    async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// An index in memory with gates before writes and behind reads: a write that waits has changed nothing, a read that waits
/// has seen what it answers.
#[derive(Clone)]
pub struct Gated {
    pub index: Arc<MemoryIndexer>,
    pub before_writes: Gate,
    pub behind_reads: Gate,
    /// Ids asked for.
    pub ids_read: Arc<AtomicUsize>,
    pub reads: Arc<AtomicUsize>,
}

impl Gated {
    pub fn new() -> Self {
        Gated {
            index: Arc::default(),
            before_writes: Gate::new(),
            behind_reads: Gate::new(),
            ids_read: Arc::default(),
            reads: Arc::default(),
        }
    }

    async fn read<T>(&self, read: impl Future<Output = T>) -> T {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let seen = read.await;
        self.behind_reads.pass().await;
        seen
    }
}

impl Indexer for Gated {}

#[async_trait]
impl Metrics for Gated {
    async fn create_metrics(&self, metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>, IndexerError>> {
        self.before_writes.pass().await;
        self.index.create_metrics(metrics).await
    }

    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>, IndexerError> {
        self.ids_read.fetch_add(ids.len(), Ordering::Relaxed);
        self.read(self.index.metrics(ids)).await
    }

    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>, IndexerError> {
        self.read(self.index.named_metrics(names)).await
    }

    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>, IndexerError> {
        self.read(self.index.list_metrics(listing)).await
    }

    async fn count_metrics(&self, creators: &Creators) -> Result<u64, IndexerError> {
        self.read(self.index.count_metrics(creators)).await
    }

    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<(), IndexerError>> {
        self.before_writes.pass().await;
        self.index.delete_metrics(ids).await
    }

    async fn deleted_metrics(
        &self,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>, IndexerError> {
        self.read(self.index.deleted_metrics(after, limit)).await
    }

    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.expunge_metrics(ids).await
    }
}

#[async_trait]
impl ArchivePolicies for Gated {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.create_archive_policy(policy).await
    }

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>, IndexerError> {
        self.read(self.index.archive_policy(name)).await
    }

    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>, IndexerError> {
        self.read(self.index.archive_policies()).await
    }

    async fn update_archive_policy(
        &self,
        name: &str,
        definition: Vec<ArchivePolicyItem>,
        back_window: Option<u64>,
    ) -> Result<Arc<ArchivePolicy>, IndexerError> {
        self.before_writes.pass().await;
        self.index.update_archive_policy(name, definition, back_window).await
    }

    async fn delete_archive_policy(&self, name: &str) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.delete_archive_policy(name).await
    }
}

#[async_trait]
impl ArchivePolicyRules for Gated {
    async fn create_archive_policy_rule(&self, rule: ArchivePolicyRule) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.create_archive_policy_rule(rule).await
    }

    async fn archive_policy_rule(&self, name: &str) -> Result<Option<ArchivePolicyRule>, IndexerError> {
        self.read(self.index.archive_policy_rule(name)).await
    }

    async fn archive_policy_rules(&self) -> Result<Vec<ArchivePolicyRule>, IndexerError> {
        self.read(self.index.archive_policy_rules()).await
    }

    async fn rename_archive_policy_rule(
        &self,
        name: &str,
        new_name: &str,
    ) -> Result<ArchivePolicyRule, IndexerError> {
        self.before_writes.pass().await;
        self.index.rename_archive_policy_rule(name, new_name).await
    }

    async fn delete_archive_policy_rule(&self, name: &str) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.delete_archive_policy_rule(name).await
    }

    async fn archive_policy_name_for_metric(&self, metric_name: &str) -> Result<String, IndexerError> {
        self.read(self.index.archive_policy_name_for_metric(metric_name)).await
    }
}

#[async_trait]
impl ResourceTypes for Gated {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.create_resource_type(resource_type).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError> {
        self.read(self.index.resource_type(name)).await
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError> {
        self.read(self.index.resource_types()).await
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError> {
        self.before_writes.pass().await;
        self.index.update_resource_type(name, change).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<(), IndexerError> {
        self.before_writes.pass().await;
        self.index.delete_resource_type(name).await
    }
}

#[async_trait]
impl Resources for Gated {
    async fn create_resources(
        &self,
        resources: Vec<NewResource>,
    ) -> Vec<Result<Arc<Resource>, IndexerError>> {
        self.before_writes.pass().await;
        self.index.create_resources(resources).await
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>, IndexerError> {
        self.read(self.index.resource(resource_type, id)).await
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError> {
        self.before_writes.pass().await;
        self.index.update_resource(resource_type, id, change).await
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>, IndexerError>> {
        self.before_writes.pass().await;
        self.index.delete_resources(ids).await
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources, IndexerError> {
        self.before_writes.pass().await;
        self.index.delete_matching_resources(resource_type, filter, now).await
    }

    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64, IndexerError> {
        self.before_writes.pass().await;
        self.index.end_resources(ids, now).await
    }

    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>, IndexerError> {
        self.read(self.index.ends(ids)).await
    }

    async fn revive_resources(
        &self,
        seen: &[(Uuid, Timestamp)],
        now: Timestamp,
    ) -> Result<u64, IndexerError> {
        self.before_writes.pass().await;
        self.index.revive_resources(seen, now).await
    }

    async fn sweep_values(&self, limit: usize) -> Result<usize, IndexerError> {
        self.before_writes.pass().await;
        self.index.sweep_values(limit).await
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>, IndexerError> {
        self.read(self.index.list_resources(listing)).await
    }
}
