//! `/v1/batch`

mod missing_metrics;
mod post_metrics_measures;
mod post_resources_metrics_measures;

pub use post_metrics_measures::post_metrics_measures;
pub use post_resources_metrics_measures::post_resources_metrics_measures;

use std::{ops::Range, sync::Arc};

use gnudi_drivers::incoming::Batch;
use gnudi_model::{Measure, Metric, MetricId};
use gnudi_series::points;

use crate::{
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
    router::Call,
};

/// Refuses (403) where the caller may not post to one of the metrics.
fn check_allowed<'m>(
    call: &Call<'_>,
    mut metrics: impl Iterator<Item = &'m Arc<Metric>>,
) -> Result<(), ApiError> {
    if metrics.all(|metric| call.may(Rule::PostMeasures, metric)) {
        return Ok(());
    }
    Err(ApiError::forbidden())
}

/// Takes in the measures that were read, a range of them for each metric, and gives their buffer back.
async fn take_in(
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
    call.app.take_in(batch).await?;
    Ok(reply::accepted())
}
