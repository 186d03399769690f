//! Metadata: metrics, archive policies and their rules, resources and their types.
//!
//! One trait per noun, each in a file of its name; `sql/` mirrors the names. One method is one transaction. `cache/`
//! caches what the hot path needs, within a bound.

pub mod annotation;
pub mod archive_policy;
pub mod archive_policy_rule;
pub mod cache;
pub mod change_log;
pub mod conformance;
pub mod defaults;
pub mod error;
pub mod filter;
pub mod memory;
pub mod metric;
pub mod resource;
pub mod resource_type;
pub mod revival;
pub mod sql;
pub mod touched;

use std::sync::Arc;

use gnudi_model::{ArchivePolicy, Fault, Metric, MetricId};
use uuid::Uuid;

pub use annotation::{Annotation, AnnotationListing, Annotations};
pub use archive_policy::{ArchivePolicies, PolicyChange, PolicyConversion};
pub use archive_policy_rule::ArchivePolicyRules;
pub use cache::{CacheFigures, CacheOptions, CachedIndexer, FollowOptions};
pub use change_log::{ChangeLog, Changes, Subscription};
pub use defaults::{create_default_archive_policies, has_no_archive_policies};
pub use error::{IndexerError, Result, outcome_of};
pub use filter::{Comparison, Filter, FilterValue, Pattern};
/// The location of an index.
pub use gnudi_sql::{DatabaseOptions, InvalidUrl, ServerOptions, SqliteOptions};
pub use memory::MemoryIndexer;
pub use metric::{
    Creators, MetricFilter, MetricListing, MetricMarker, MetricMove, MetricPages, MetricScope, MetricSort,
    Metrics, NewMetric, Page, SortDirection, SortKey,
};
pub use resource::{
    DeletedResources, MetricsChange, NewNamedMetric, NewResource, NewRevision, ResourceChange,
    ResourceListing, ResourceMarker, ResourcePage, ResourceSort, Resources, UpdatedResource,
};
pub use resource_type::{ResourceTypeChange, ResourceTypes};
pub use revival::{MICROSECOND, MeasuredResources, revive_measured};
pub use sql::{FeedEntry, OpenError, SqlIndexer};
pub use touched::{Touched, Which};

/// All metadata: an implementation covers every noun.
pub trait Indexer:
    Annotations
    + ArchivePolicies
    + ArchivePolicyRules
    + Metrics
    + ResourceTypes
    + Resources
    + Send
    + Sync
    + 'static
{
    /// A cached active metric; [`Metrics::metrics`] finds others.
    fn cached_metric(&self, _id: MetricId) -> Option<Arc<Metric>> {
        None
    }

    /// Calls `visit` with those of the metrics that are cached and active, and with their places in `ids`. Locks
    /// parts of the cache meanwhile: `visit` must be short.
    fn visit_cached_metrics(&self, _ids: &[MetricId], _visit: &mut dyn FnMut(usize, &Metric)) {}

    /// A resource's cached active metric with this name; [`Metrics::named_metrics`] finds others.
    fn cached_named_metric(&self, _resource: Uuid, _name: &str) -> Option<Arc<Metric>> {
        None
    }

    /// A cached archive policy; [`ArchivePolicies::archive_policy`] finds others.
    fn cached_policy(&self, _name: &str) -> Option<Arc<ArchivePolicy>> {
        None
    }

    /// The log of changes of this process and of others; `None` without one.
    fn change_log(&self) -> Option<&ChangeLog> {
        None
    }

    /// How many resources and metrics were left out of listings since the start, since their rows are damaged: each counts
    /// once. Who takes what is not listed for deleted must look at it.
    fn damaged(&self) -> u64 {
        0
    }

    /// How often a damaged row was left out of a listing since the start, also one that was left out before. Equal before
    /// and after a listing: the listing is complete.
    fn left_out(&self) -> u64 {
        0
    }

    /// A persistent failure, beyond single calls.
    fn fault(&self) -> Option<Fault> {
        None
    }
}
