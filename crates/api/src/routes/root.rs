//! `/`, `/v1/`, `/v1/openapi.json`, `/healthcheck` and `/metrics`: what needs no authentication.

use hyper::{
    Method, StatusCode,
    header::{ACCEPT, HeaderValue, LOCATION},
};

use crate::{
    accept::acceptable,
    body::RequestBody,
    error::ApiError,
    json::Value,
    openapi,
    reply::{self, Response},
    router::Call,
};

/// The version of Gnocchi whose API this is: clients look for 4.2.0 or later, below 5.
pub const GNOCCHI_VERSION: &str = "4.7.1";

/// What `/v1/` names.
const SECTIONS: [&str; 12] = [
    "aggregates",
    "aggregation",
    "archive_policy",
    "archive_policy_rule",
    "batch",
    "capabilities",
    "influxdb",
    "metric",
    "resource",
    "resource_type",
    "search",
    "status",
];

/// `/`
pub async fn versions(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let link = Value::object([("rel", "self".into()), ("href", call.links().to("/v1/").into())]);
    let version = Value::object([
        ("status", "CURRENT".into()),
        ("links", vec![link].into()),
        ("id", "v1.0".into()),
        ("updated", "2015-03-19".into()),
    ]);
    Ok(reply::json(
        StatusCode::OK,
        &Value::object([
            ("build", GNOCCHI_VERSION.into()),
            ("versions", vec![version].into()),
            ("gnudi", env!("CARGO_PKG_VERSION").into()),
        ]),
    ))
}

/// `/v1/`; without the slash, a redirection to it.
pub async fn index(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let links = call.links();
    let path = call.parts.uri.path();
    if !path.ends_with('/') && matches!(call.parts.method, Method::GET | Method::HEAD) {
        let mut location = links.to("/v1/");
        if let Some(query) = call.parts.uri.query() {
            location = format!("{location}?{query}");
        }
        let mut response = reply::bare(StatusCode::FOUND);
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(LOCATION, location);
        }
        return Ok(response);
    }
    let link = |rel: &str, href: String| Value::object([("rel", rel.into()), ("href", href.into())]);
    let mut all = vec![link("self", links.to("/v1"))];
    all.extend(SECTIONS.iter().map(|section| link(section, links.to(&format!("/v1/{section}")))));
    Ok(reply::json(StatusCode::OK, &Value::object([("version", "1.0".into()), ("links", all.into())])))
}

/// `/v1/openapi.json`
pub async fn openapi_document(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    Ok(reply::json_bytes(StatusCode::OK, openapi::text().to_vec()))
}

/// `/healthcheck`, as oslo.middleware answers it without checks of its own.
pub async fn healthcheck(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    if call.parts.method == Method::HEAD {
        return Ok(reply::no_content());
    }
    let accept = call.parts.headers.get(ACCEPT).map_or("*/*", |accept| accept.to_str().unwrap_or("*/*"));
    let forms = acceptable(accept, &["text/plain", "text/html", "application/json"]);
    let (content_type, text) = match forms.first() {
        Some(&"application/json") => {
            ("application/json", "{\n    \"detailed\": false,\n    \"reasons\": []\n}")
        }
        Some(&"text/html") => (
            "text/html; charset=UTF-8",
            "<HTML>\n<HEAD><TITLE>Healthcheck Status</TITLE></HEAD>\n<BODY>\n</BODY>\n</HTML>",
        ),
        _ => ("text/plain; charset=UTF-8", ""),
    };
    Ok(reply::with_body(StatusCode::OK, HeaderValue::from_static(content_type), text.as_bytes().to_vec()))
}

/// `/metrics`, for Prometheus.
pub async fn figures(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let figures = &call.app.figures;
    // The other figures are of most use when a store does not answer.
    match call.app.engine().backlog().await {
        Ok(backlog) => {
            figures.backlog_measures.set(backlog.measures as i64);
            figures.backlog_bytes.set(backlog.bytes as i64);
        }
        Err(error) => tracing::warn!(%error, "the backlog is not known"),
    }
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(reply::with_body(StatusCode::OK, content_type, call.app.figures_text().into_bytes()))
}
