//! `POST /v1/batch/metrics/measures`

use gnudi_drivers::incoming::Batch;
use gnudi_model::MetricId;
use gnudi_series::points;

use crate::{
    body::RequestBody,
    error::ApiError,
    measures,
    policy::Rule,
    reply::{self, Response},
    request,
    router::Call,
};

/// Takes measures of several metrics: all of them, or none.
pub async fn post_metrics_measures(
    call: &Call<'_>,
    body: &mut RequestBody<'_>,
) -> Result<Response, ApiError> {
    let input = request::json_bytes(call.parts, body).await?;
    let app = call.app;
    let limits = &app.options().limits;
    let mut read = app.measure_buffers.take();
    let mut parts = Vec::new();
    let by = measures::read_batch(&input, || app.now(), limits.measures_max, &mut parts, &mut read)?;
    drop(input);
    app.figures.read_by(by);
    if parts.len() > limits.batch_metrics_max {
        return Err(ApiError::too_large(format!("There are more than {} metrics", limits.batch_metrics_max)));
    }
    let ids: Vec<MetricId> = parts.iter().map(|part| part.metric).collect();
    let metrics = app.engine().indexer().metrics(&ids).await?;
    let mut unknown: Vec<MetricId> =
        ids.iter().zip(&metrics).filter(|(_, metric)| metric.is_none()).map(|(id, _)| *id).collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        return Err(ApiError::bad_request(format!("Unknown metrics: {}", unknown.join(", "))));
    }
    if !metrics.iter().flatten().all(|metric| call.may(Rule::PostMeasures, metric)) {
        return Err(ApiError::forbidden());
    }
    let mut batch = Batch::default();
    for part in &parts {
        let measures = &read[part.range.clone()];
        if !measures.is_empty() {
            batch.push(part.metric, measures.len() as u32, |out| points::encode(measures, out));
        }
    }
    app.measure_buffers.put(read);
    app.take_in(batch).await?;
    Ok(reply::accepted())
}
