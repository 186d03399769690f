//! The handlers: a folder per noun, a file per verb. `router` says which serves what, and for whom.

pub mod aggregates;
pub mod aggregation;
pub mod archive_policy;
pub mod archive_policy_rule;
pub mod batch;
pub mod capabilities;
pub mod debug;
pub mod influxdb;
pub mod metric;
pub mod prometheus;
pub mod resource;
pub mod resource_type;
pub mod root;
pub mod search;
pub mod status;
