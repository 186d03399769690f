//! The nouns of gnudi: ids, times, measures, aggregation methods, archive policies and their rules, metrics, resources
//! and their types, sacks, secrets.
//!
//! Plain values with their text and JSON forms. No I/O, no clock: callers pass the time.

pub mod aggregation;
pub mod archive_policy;
pub mod archive_policy_rule;
mod comparison;
pub mod fault;
pub mod metric;
pub mod python;
pub mod resource;
pub mod resource_type;
pub mod sack;
pub mod secret;
mod stored_name;
pub mod timespan;
pub mod timestamp;
pub mod wildcard;

pub use aggregation::{Aggregation, AggregationMethod, Statistic};
pub use archive_policy::{ArchivePolicy, ArchivePolicyItem};
pub use archive_policy_rule::ArchivePolicyRule;
pub use comparison::Comparison;
pub use fault::Fault;
pub use metric::{Measure, Metric, MetricId, MetricMap, MetricSet, MetricStatus};
pub use resource::{AttributeValue, Resource};
pub use resource_type::{Attribute, AttributeKind, ResourceType};
pub use sack::{Numbering, Sack, SackCount, SackId};
pub use secret::Secret;
pub use stored_name::{STORED_CHARACTERS_MAX, is_storable};
pub use timespan::Timespan;
pub use timestamp::Timestamp;

/// An immutable text, one word wide and cheap to clone: metrics share creators, names, units and policy names.
pub use arcstr::ArcStr as Text;
