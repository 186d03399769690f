//! The memory of searches for measures by value, and of aggregations by time and over a resource's history.

mod support;

use gnudi_app::ApiOptions;
use support::{POLICY, Request, Server};

/// A server with a metric of 20 points, and its id.
async fn with_measures(options: ApiOptions) -> (Server, String) {
    let server = Server::start(options).await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    let resource = r#"{"id": "r", "metrics": {"m": {"archive_policy_name": "p"}}}"#;
    let created = server.ask(Request::new("POST", "/v1/resource/generic").body(resource)).await.body;
    let id = created.split("{\"m\": \"").nth(1).and_then(|rest| rest.get(..36)).expect("an id");
    let measure = |n| format!(r#"{{"timestamp": {}, "value": {n}}}"#, 1_400_000_000 + n);
    let measures = format!("[{}]", (0..20).map(measure).collect::<Vec<_>>().join(", "));
    let path = format!("/v1/metric/{id}/measures");
    assert_eq!(server.ask(Request::new("POST", &path).body(&measures)).await.status, 202);
    let read = server.ask(Request::new("GET", &format!("{path}?refresh=true"))).await;
    assert_eq!((read.status, read.body.matches("+00:00").count()), (200, 20), "{read:?}");
    (server, id.to_owned())
}

/// The status of a search of all points, none of which matches.
async fn searched(answers_bytes_max: usize) -> u16 {
    let mut options = ApiOptions::default();
    options.limits.answers_bytes_max = answers_bytes_max;
    let (server, id) = with_measures(options).await;
    let path = format!("/v1/search/metric?metric_id={id}");
    server.ask(Request::new("POST", &path).body(r#"{">": 1000}"#)).await.status
}

#[tokio::test]
async fn points_that_are_searched_count_as_those_of_responses() {
    // A project leaves others a seventh of what it holds.
    let bytes = 20 * 16;
    assert_eq!(searched(bytes + bytes / 7).await, 200);
    assert_eq!(searched(bytes + bytes / 7 - 1).await, 503);
}

/// The status of an aggregation of one metric by time, of 168 times.
async fn aggregated(details: &str, references_max: usize) -> u16 {
    let mut options = ApiOptions::default();
    options.limits.aggregate_references_max = references_max;
    let (server, id) = with_measures(options).await;
    let path = format!("/v1/aggregates?groupby=time:hour&groupby=time:weekday&details={details}");
    let body = format!(r#"{{"operations": "(metric {id} mean)"}}"#);
    server.ask(Request::new("POST", &path).body(&body)).await.status
}

#[tokio::test]
async fn details_are_limited_as_often_as_they_are_repeated() {
    assert_eq!(aggregated("true", 168).await, 200);
    assert_eq!(aggregated("true", 167).await, 413);
    assert_eq!(aggregated("false", 167).await, 200);
}

/// The status of an aggregation of all points over their resource's history.
async fn with_history(answers_bytes_max: usize) -> u16 {
    let mut options = ApiOptions::default();
    options.limits.answers_bytes_max = answers_bytes_max;
    let (server, _) = with_measures(options).await;
    let body =
        r#"{"resource_type": "generic", "search": {}, "operations": "(aggregate mean (metric m mean))"}"#;
    let path = "/v1/aggregates?use_history=true&groupby=id";
    server.ask(Request::new("POST", path).body(body)).await.status
}

#[tokio::test]
async fn points_of_the_history_count_as_those_of_responses() {
    assert_eq!(with_history(1 << 20).await, 200);
    assert_eq!(with_history(20 * 16).await, 503);
}
