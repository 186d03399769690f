//! Metadata: metrics, archive policies and their rules.
//!
//! One trait per noun, each in the file of its name; `sql/` mirrors the names. One method is one transaction.
//! `cache.rs` keeps what the hot path asks for in memory, within a bound.

pub mod archive_policy;
pub mod archive_policy_rule;
pub mod error;
pub mod metric;

pub use archive_policy::ArchivePolicies;
pub use archive_policy_rule::ArchivePolicyRules;
pub use error::IndexerError;
pub use metric::{MetricFilter, MetricListing, MetricSort, Metrics, NewMetric, Page, SortDirection, SortKey};

/// All metadata. An implementation covers every noun.
pub trait Indexer: ArchivePolicies + ArchivePolicyRules + Metrics + Send + Sync + 'static {}
