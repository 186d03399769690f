//! `/v1/status`

use gnudi_app::query::flag;
use gnudi_engine::Engine;
use hyper::StatusCode;

use crate::routes::prelude::*;

/// The backlog; with `details`, per metric.
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let details = match call.optional_parameter("details") {
        None => call.query().flag("details", true)?,
        // As in Gnocchi, whose web framework takes a path segment for the argument: `/v1/status/false`.
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
    let metricd = metricd(call.app.engine()).await;
    Ok(reply::json(
        StatusCode::OK,
        &Value::object([("storage", Value::Object(storage)), ("metricd", metricd)]),
    ))
}

/// The names of the processes with workers (`null`, as in Gnocchi, if unknown), and the statistics of this process.
async fn metricd(engine: &Engine) -> Value {
    let processors = match engine.processors().await {
        Ok(names) if names.is_empty() => Value::Null,
        Ok(names) => Value::Array(names.into_iter().map(Value::from).collect()),
        Err(error) => {
            tracing::debug!(%error, "the list of processors is not available");
            Value::Null
        }
    };
    let statistics = engine.workers().map(|name| {
        let figures = engine.figures().list().into_iter();
        let figures = figures.map(|(name, _, value)| (name.replace('_', " "), Value::Float(value)));
        (name.to_owned(), Value::Object(figures.collect()))
    });
    Value::object([
        ("processors", processors),
        ("statistics", Value::Object(statistics.into_iter().collect())),
    ])
}
