//! `/v1/batch`

mod post_metrics_measures;

pub use post_metrics_measures::post_metrics_measures;
