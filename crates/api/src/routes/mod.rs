//! The handlers, by noun: a file each, or a folder with files for larger verbs. `router` maps routes to them,
//! with their guards.

pub mod aggregates;
pub mod aggregation;
pub mod archive_policy;
pub mod archive_policy_rule;
pub mod batch;
pub mod capabilities;
pub mod debug;
pub mod influxdb;
pub mod metric;
pub mod page;
pub mod resource;
pub mod resource_type;
pub mod root;
pub mod search;
pub mod status;

/// Common imports of handlers.
mod prelude {
    pub(crate) use gnudi_access::{Rule, Target};
    pub(crate) use gnudi_app::{Answer, ApiError, Call, Result, json::Value, request};
    pub(crate) use gnudi_server::{RequestBody, Response, reply};
}
