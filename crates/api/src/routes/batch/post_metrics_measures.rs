//! `POST /v1/batch/metrics/measures`

use gnudi_model::MetricId;

use super::append;
use crate::{
    body::RequestBody, call::Call, error::ApiError, measures, policy::Rule, reply::Response, request,
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
    let scan = || measures::read_batch(&input, || app.now(), limits.measures_max, &mut parts, &mut read);
    let by = body.long_work.run(input.len(), scan).await?;
    drop(input);
    app.figures.read_by(by);
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
