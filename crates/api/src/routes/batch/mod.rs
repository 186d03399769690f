//! `/v1/batch`

mod missing_metrics;
mod post_metrics_measures;
mod post_resources_metrics_measures;

pub use post_metrics_measures::post_metrics_measures;
pub use post_resources_metrics_measures::post_resources_metrics_measures;
