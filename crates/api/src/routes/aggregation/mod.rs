//! `/v1/aggregation`, superseded by `/v1/aggregates`: one aggregation of many metrics, re-aggregated across
//! them.

mod across;
mod metric;
mod resource;

pub use metric::{metric, posted_metric};
pub use resource::resource;
