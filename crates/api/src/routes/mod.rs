//! The handlers: a folder per noun, a file per verb. `router` says which serves what, and for whom.

pub mod archive_policy;
pub mod archive_policy_rule;
pub mod batch;
pub mod capabilities;
pub mod metric;
pub mod root;
pub mod status;
