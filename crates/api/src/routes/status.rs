//! `/v1/status`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    error::ApiError,
    json::Value,
    reply::{self, Response},
    router::Call,
};

/// What waits to be processed; with `details`, by metric.
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let details = call.query().flag("details", true)?;
    let status = call.app.engine().status(details).await?;
    let summary = Value::object([
        ("metrics", status.metrics_waiting.into()),
        ("measures", status.measures_waiting.into()),
    ]);
    let mut storage = vec![("summary".to_owned(), summary)];
    if let Some(by_metric) = status.by_metric {
        let by_metric =
            by_metric.iter().map(|(metric, measures)| (metric.to_string(), Value::from(*measures)));
        storage.push(("measures_to_process".to_owned(), Value::Object(by_metric.collect())));
    }
    let metricd = Value::object([("processors", Value::Null), ("statistics", Value::object([]))]);
    Ok(reply::json(
        StatusCode::OK,
        &Value::object([("storage", Value::Object(storage)), ("metricd", metricd)]),
    ))
}
