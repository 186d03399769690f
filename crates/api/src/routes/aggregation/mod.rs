//! `/v1/aggregation`, which `/v1/aggregates` succeeds: one aggregation of many metrics, aggregated across them.

mod across;
mod metric;
mod resource;

pub use metric::{metric, posted_metric};
pub use resource::resource;
