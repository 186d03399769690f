//! `/v1/batch`

mod missing_metrics;
mod post_metrics_measures;
mod post_resources_metrics_measures;

pub use post_metrics_measures::post_metrics_measures;
pub use post_resources_metrics_measures::post_resources_metrics_measures;

use std::ops::Range;

use gnudi_drivers::incoming::Batch;
use gnudi_model::{Measure, MetricId};
use gnudi_series::points;

use crate::{
    call::Call,
    error::ApiError,
    reply::{self, Response},
};

/// Appends the measures that were parsed, a range of `read` for each metric, and returns the buffer `read` to its pool.
async fn append(
    call: &Call<'_>,
    read: Vec<Measure>,
    parts: impl Iterator<Item = (MetricId, Range<usize>)>,
) -> Result<Response, ApiError> {
    let mut batch = Batch::default();
    for (metric, range) in parts {
        let measures = &read[range];
        if !measures.is_empty() {
            batch.push(metric, measures.len() as u32, |out| points::encode(measures, out));
        }
    }
    call.app.measure_buffers.put(read);
    call.append(batch).await?;
    Ok(reply::accepted())
}
