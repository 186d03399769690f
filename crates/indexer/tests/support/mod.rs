//! An index whose calls block at gates that a test controls.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use gnudi_indexer::{
    Annotation, AnnotationListing, Annotations, ArchivePolicies, ArchivePolicyRules, Creators,
    DeletedResources, Filter, Indexer, IndexerError, MemoryIndexer, MetricListing, MetricMove, Metrics,
    NewMetric, NewResource, PolicyChange, PolicyConversion, ResourceChange, ResourceListing,
    ResourceTypeChange, ResourceTypes, Resources, UpdatedResource,
};
use gnudi_model::{ArchivePolicy, ArchivePolicyRule, Metric, MetricId, Resource, ResourceType, Timestamp};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Lets through as many calls as it has permits; initially open.
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

/// An index in memory with gates before writes and after reads: a blocked write has changed nothing, a blocked read has
/// read its result.
#[derive(Clone)]
pub struct Gated {
    pub index: Arc<MemoryIndexer>,
    pub before_writes: Gate,
    pub behind_reads: Gate,
    /// Number of ids requested.
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

    async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        self.before_writes.pass().await;
        write.await
    }

    async fn read<T>(&self, read: impl Future<Output = T>) -> T {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let seen = read.await;
        self.behind_reads.pass().await;
        seen
    }
}

impl Indexer for Gated {}

/// Implements a trait with gates: `write` before a method is executed, `read` after it.
macro_rules! gated {
    ($trait:ident: $(
        $wait:ident $method:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty $(, counting $ids:ident)?;
    )*) => {
        #[async_trait]
        impl $trait for Gated {
            $(
                async fn $method(&self, $($argument: $type),*) -> $answer {
                    $(self.ids_read.fetch_add($ids.len(), Ordering::Relaxed);)?
                    self.$wait(self.index.$method($($argument),*)).await
                }
            )*
        }
    };
}

gated! {
    Metrics:
    write create_metrics(metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>, IndexerError>>;
    read metrics(ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>, IndexerError>, counting ids;
    read named_metrics(names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>, IndexerError>;
    read whole_names(ids: &[MetricId]) -> Result<Vec<Option<String>>, IndexerError>;
    read list_metrics(listing: &MetricListing) -> Result<Vec<Arc<Metric>>, IndexerError>;
    read count_metrics(creators: Option<&Creators>) -> Result<u64, IndexerError>;
    read current_metric(id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>, IndexerError>;
    write move_metric(id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>, IndexerError>;
    read metric_moves(limit: usize) -> Result<Vec<MetricMove>, IndexerError>;
    write forget_moves(moves: &[MetricMove]) -> Result<(), IndexerError>;
    write delete_metrics(ids: &[MetricId]) -> Vec<Result<(), IndexerError>>;
    read deleted_metrics(after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>, IndexerError>;
    write expunge_metrics(ids: &[MetricId]) -> Result<(), IndexerError>;
}

gated! {
    ArchivePolicies:
    write create_archive_policy(policy: ArchivePolicy) -> Result<(), IndexerError>;
    write create_missing_policies(
        policies: Vec<ArchivePolicy>, rules: Vec<ArchivePolicyRule>,
    ) -> Result<(), IndexerError>;
    read archive_policy(name: &str) -> Result<Option<Arc<ArchivePolicy>>, IndexerError>;
    read archive_policies() -> Result<Vec<Arc<ArchivePolicy>>, IndexerError>;
    write update_archive_policy(name: &str, change: PolicyChange) -> Result<Arc<ArchivePolicy>, IndexerError>;
    write delete_archive_policy(name: &str) -> Result<(), IndexerError>;
    write sweep_definitions() -> Result<u64, IndexerError>;
    read policy_conversions() -> Result<Vec<PolicyConversion>, IndexerError>;
    read metrics_of_policy(
        name: &str, after: Option<MetricId>, limit: usize,
    ) -> Result<Vec<MetricId>, IndexerError>;
    write advance_policy_conversion(id: Uuid, to: Option<MetricId>) -> Result<(), IndexerError>;
}

gated! {
    ArchivePolicyRules:
    write create_archive_policy_rule(rule: ArchivePolicyRule) -> Result<(), IndexerError>;
    read archive_policy_rule(name: &str) -> Result<Option<ArchivePolicyRule>, IndexerError>;
    read archive_policy_rules() -> Result<Vec<ArchivePolicyRule>, IndexerError>;
    write rename_archive_policy_rule(name: &str, new_name: &str) -> Result<ArchivePolicyRule, IndexerError>;
    write delete_archive_policy_rule(name: &str) -> Result<(), IndexerError>;
    read archive_policy_name_for_metric(metric_name: &str) -> Result<String, IndexerError>;
}

gated! {
    Annotations:
    write create_annotation(annotation: Annotation) -> Result<(), IndexerError>;
    read annotation(resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>, IndexerError>;
    read list_annotations(listing: &AnnotationListing) -> Result<Vec<Annotation>, IndexerError>;
    write delete_annotation(resource_id: Uuid, id: Uuid) -> Result<(), IndexerError>;
}

gated! {
    ResourceTypes:
    write create_resource_type(resource_type: ResourceType) -> Result<(), IndexerError>;
    read resource_type(name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError>;
    read resource_types() -> Result<Vec<Arc<ResourceType>>, IndexerError>;
    write update_resource_type(
        name: &str, change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError>;
    write delete_resource_type(name: &str) -> Result<(), IndexerError>;
}

gated! {
    Resources:
    write create_resources(resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>, IndexerError>>;
    read resource(resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>, IndexerError>;
    write update_resource(
        resource_type: &str, id: Uuid, change: ResourceChange,
    ) -> Result<UpdatedResource, IndexerError>;
    write delete_resources(ids: &[Uuid]) -> Vec<Result<Vec<MetricId>, IndexerError>>;
    write delete_resource_of_revision(id: Uuid, start: Timestamp) -> Result<Vec<MetricId>, IndexerError>;
    write delete_matching_resources(
        resource_type: &str, filter: &Filter, now: Timestamp,
    ) -> Result<DeletedResources, IndexerError>;
    write end_resources(ids: &[Uuid], now: Timestamp) -> Result<u64, IndexerError>;
    read ends(ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>, IndexerError>;
    write revive_resources(seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64, IndexerError>;
    write sweep_values(limit: usize) -> Result<usize, IndexerError>;
    write remove_revisions(before: Timestamp, limit: usize) -> Result<usize, IndexerError>;
    read list_resources(listing: &ResourceListing) -> Result<Vec<Arc<Resource>>, IndexerError>;
}
