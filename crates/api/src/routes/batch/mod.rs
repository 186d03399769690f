//! `/v1/batch`

mod missing_metrics;
mod post_resources_metrics_measures;

pub use post_resources_metrics_measures::post_resources_metrics_measures;

use std::ops::Range;

use gnudi_drivers::incoming::Batch;
use gnudi_model::{Measure, MetricId};
use gnudi_series::points;

use super::prelude::*;
use crate::{arrow, measures};

/// Appends the parsed measures (`read`, one range per metric), and returns the buffer to its pool.
async fn append(
    call: &Call<'_>,
    read: Vec<Measure>,
    parts: impl Iterator<Item = (MetricId, Range<usize>)>,
) -> Answer {
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

/// `POST /v1/batch/metrics/measures`: stores measures of several metrics, all or none.
pub async fn post_metrics_measures(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let is_arrow = arrow::is_sent(call.parts);
    let input = if is_arrow { body.read().await? } else { request::json_bytes(call.parts, body).await? };
    let app = call.app;
    let limits = &app.options().limits;
    let mut read = app.measure_buffers.take();
    let mut parts = Vec::new();
    if is_arrow {
        let work = || arrow::measures::batch(&input, limits, &mut parts, &mut read);
        body.long_work.run(arrow::measures::work_bytes(&input), work).await?;
    } else {
        let scan = || measures::read_batch(&input, || app.now(), limits.measures_max, &mut parts, &mut read);
        let by = body.long_work.run(input.len(), scan).await?;
        by.count(&app.figures);
    }
    drop(input);
    limits.check_metrics(parts.len())?;
    let ids: Vec<MetricId> = parts.iter().map(|part| part.metric).collect();
    let metrics = app.engine().indexer().metrics(&ids).await?;
    let mut unknown: Vec<MetricId> =
        ids.iter().zip(&metrics).filter(|(_, metric)| metric.is_none()).map(|(id, _)| *id).collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        return Err(ApiError::bad_request(format!("Unknown metrics: {}", unknown.join(", "))));
    }
    call.enforce_all(Rule::PostMeasures, metrics.iter().flatten()).await?;
    append(call, read, parts.into_iter().map(|part| (part.metric, part.range))).await
}
