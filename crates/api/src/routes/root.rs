//! `/`, `/v1/`, `/v1/openapi.json`, `/healthcheck` and `/metrics`: the routes without authentication.

use gnudi_model::Fault;
use gnudi_server::acceptable;
use hyper::{
    Method, StatusCode,
    header::{ACCEPT, HeaderValue, LOCATION},
};

use super::page;
use crate::{openapi, routes::prelude::*};

/// The emulated version of Gnocchi: clients check for 4.2.0 or later, below 5.
pub const GNOCCHI_VERSION: &str = "4.7.1";

/// The links of `/v1/`.
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

/// `/`: the web page for clients that prefer HTML to JSON, as browsers do; the versions for others.
pub async fn versions(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    if page::is_wanted(call.parts) {
        return Ok(page::index(call));
    }
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

/// `/v1/`; without the trailing slash, a redirect to it.
pub async fn index(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let links = call.links();
    let path = call.parts.uri.path();
    if !path.ends_with('/') && matches!(call.parts.method, Method::GET | Method::HEAD) {
        let mut location = links.to("/v1/");
        if let Some(query) = call.parts.uri.query() {
            location = format!("{location}?{query}");
        }
        return Ok(reply::with_header(reply::bare(StatusCode::FOUND), LOCATION, &location));
    }
    let link = |rel: &str, href: String| Value::object([("rel", rel.into()), ("href", href.into())]);
    let mut all = vec![link("self", links.to("/v1"))];
    all.extend(SECTIONS.iter().map(|section| link(section, links.to(&format!("/v1/{section}")))));
    Ok(reply::ok(&Value::object([("version", "1.0".into()), ("links", all.into())])))
}

/// `/v1/openapi.json`
pub async fn openapi_document(_: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    Ok(reply::ok(openapi::text().to_vec()))
}

/// `/healthcheck`, in oslo.middleware's format: 503 with the reasons if a part of this process has failed.
pub async fn healthcheck(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let reasons: Vec<String> = call.app.engine().faults().iter().map(Fault::to_string).collect();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if call.parts.method == Method::HEAD {
        return Ok(if reasons.is_empty() { reply::no_content() } else { reply::bare(status) });
    }
    let accept = call.parts.headers.get(ACCEPT).map_or("*/*", |accept| accept.to_str().unwrap_or("*/*"));
    let forms = acceptable(accept, &["text/plain", "text/html", "application/json"]);
    let (content_type, text) = match forms.first() {
        Some(&"application/json") => ("application/json", reasons_as_json(&reasons)),
        Some(&"text/html") => ("text/html; charset=UTF-8", reasons_as_html(&reasons)),
        _ => ("text/plain; charset=UTF-8", reasons.join("\n")),
    };
    Ok(reply::with_body(status, HeaderValue::from_static(content_type), text.into_bytes()))
}

fn reasons_as_json(reasons: &[String]) -> String {
    let quoted: Vec<String> = reasons
        .iter()
        .map(|reason| format!("\n        {}", Value::from(reason.as_str()).to_json()))
        .collect();
    let end = if quoted.is_empty() { "" } else { "\n    " };
    format!("{{\n    \"detailed\": false,\n    \"reasons\": [{}{end}]\n}}", quoted.join(","))
}

fn reasons_as_html(reasons: &[String]) -> String {
    let escaped = |reason: &String| reason.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let lines: Vec<String> = reasons.iter().map(|reason| format!("<P>{}</P>\n", escaped(reason))).collect();
    let lines = lines.concat();
    format!("<HTML>\n<HEAD><TITLE>Healthcheck Status</TITLE></HEAD>\n<BODY>\n{lines}</BODY>\n</HTML>")
}

/// `/metrics` in Prometheus' text format.
pub async fn figures(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    if !call.app.options().shows_figures {
        return Err(ApiError::no_such_path());
    }
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(reply::with_body(StatusCode::OK, content_type, call.app.figures_text().await.into_bytes()))
}
