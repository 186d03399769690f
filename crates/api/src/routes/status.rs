//! `/v1/status`

use gnudi_engine::Engine;
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    error::ApiError,
    json::Value,
    query::flag,
    reply::{self, Response},
    router::Call,
};

/// What waits to be processed; with `details`, by metric.
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let details = match call.optional_parameter("details") {
        None => call.query().flag("details", true)?,
        // Pecan takes a segment for the argument.
        Some(text) => flag("details", text)?,
    };
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
    let metricd = metricd(call.app.engine());
    Ok(reply::json(
        StatusCode::OK,
        &Value::object([("storage", Value::Object(storage)), ("metricd", metricd)]),
    ))
}

/// The workers of this process, with what they have done; Gnocchi's answer where it cannot know is null.
fn metricd(engine: &Engine) -> Value {
    let Some(name) = engine.workers() else {
        return Value::object([("processors", Value::Null), ("statistics", Value::object([]))]);
    };
    let figures = engine.figures().list();
    let figures = figures.into_iter().map(|(name, _, value)| (name.replace('_', " "), Value::Float(value)));
    let statistics = vec![(name.to_owned(), Value::Object(figures.collect()))];
    Value::object([
        ("processors", Value::Array(vec![name.to_owned().into()])),
        ("statistics", Value::Object(statistics)),
    ])
}
