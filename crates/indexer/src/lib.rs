//! Metadata: metrics, archive policies and their rules, resources and their types.
//!
//! One trait per noun, each in the file of its name; `sql/` mirrors the names. One method is one transaction.
//! `cache/` keeps what the hot path asks for in memory, within a bound.

pub mod annotation;
pub mod archive_policy;
pub mod archive_policy_rule;
pub mod cache;
pub mod change_log;
pub mod conformance;
pub mod defaults;
pub mod error;
pub mod feed;
pub mod filter;
pub mod memory;
pub mod metric;
pub mod resource;
pub mod resource_type;
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
pub use defaults::create_default_archive_policies;
pub use error::{IndexerError, Result};
pub use feed::{Feed, FeedEntry};
pub use filter::{Comparison, Filter, FilterValue, Pattern};
/// Where an index lies.
pub use gnudi_sql::{DatabaseOptions, InvalidUrl, ServerOptions, SqliteOptions};
pub use memory::MemoryIndexer;
pub use metric::{
    Creators, MetricFilter, MetricListing, MetricScope, MetricSort, Metrics, NewMetric, Page, SortDirection,
    SortKey,
};
pub use resource::{
    DeletedResources, MetricsChange, NewNamedMetric, NewResource, ResourceChange, ResourceListing,
    ResourceMarker, ResourcePage, ResourceSort, Resources, UpdatedResource,
};
pub use resource_type::{ResourceTypeChange, ResourceTypes};
pub use sql::{OpenError, SqlIndexer};
pub use touched::{Touched, Which};

/// All metadata. An implementation covers every noun.
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
    /// An active metric, if it is at hand without waiting; [`Metrics::metrics`] finds it otherwise.
    fn cached_metric(&self, _id: MetricId) -> Option<Arc<Metric>> {
        None
    }

    /// A resource's active metric of this name, if it is at hand without waiting; [`Metrics::named_metrics`] finds it
    /// otherwise.
    fn cached_named_metric(&self, _resource: Uuid, _name: &str) -> Option<Arc<Metric>> {
        None
    }

    /// An archive policy, if it is at hand without waiting; [`ArchivePolicies::archive_policy`] finds it otherwise.
    fn cached_policy(&self, _name: &str) -> Option<Arc<ArchivePolicy>> {
        None
    }

    /// Where the changes of this process and of others are noted; `None` where nobody notes them.
    fn change_log(&self) -> Option<&ChangeLog> {
        None
    }

    /// What is wrong with it, beyond single calls that fail.
    fn fault(&self) -> Option<Fault> {
        None
    }
}
