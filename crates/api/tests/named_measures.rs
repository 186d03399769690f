//! `/v1/batch/resources/metrics/measures`: a refused request changes nothing; missing metrics are created
//! once.

mod support;

use futures_util::future::join_all;
use gnudi_app::{
    ApiOptions,
    json::{self, Value},
};
use support::{Request, Server};

const PATH: &str = "/v1/batch/resources/metrics/measures";
const CREATE: &str = "/v1/batch/resources/metrics/measures?create_metrics=true";
const RESOURCE: &str = "46c9418d-d63b-4cdd-be89-8f57ffc5952e";
const MISSING: &str = "aaaaaaaa-d63b-4cdd-be89-111111111111";
const MEASURES: &str = r#"[{"timestamp": "2026-01-01T00:00:00", "value": 1}]"#;

/// A server with the policy `low`, the rule `auto.*`, and alice's resource with the metric `cpu`.
async fn server() -> Server {
    let server = Server::start(ApiOptions::default()).await;
    let resource =
        format!(r#"{{"id": "{RESOURCE}", "metrics": {{"cpu": {{"archive_policy_name": "low"}}}}}}"#);
    let policy = r#"{"name": "low", "definition": [{"granularity": 1}]}"#;
    server.create("admin", "/v1/archive_policy", policy).await;
    let rule = r#"{"name": "auto", "metric_pattern": "auto.*", "archive_policy_name": "low"}"#;
    server.create("admin", "/v1/archive_policy_rule", rule).await;
    server.create("alice", "/v1/resource/generic", &resource).await;
    server
}

async fn ask(server: &Server, method: &str, path: &str, user: &str, body: &str) -> (u16, Value) {
    let answer = server.ask(Request::new(method, path).user(Some(user)).body(body)).await;
    let document = json::parse(answer.body.as_bytes()).unwrap_or(Value::Null);
    (answer.status, document.get("description").cloned().unwrap_or(document))
}

async fn post(server: &Server, path: &str, user: &str, body: &str) -> (u16, String) {
    let (status, description) = ask(server, "POST", path, user, body).await;
    let text = if let Value::Str(text) = &description { text.clone() } else { description.to_json() };
    (status, text)
}

/// The number of waiting measures, and the names of the resource's metrics.
async fn state(server: &Server) -> (Value, Vec<String>) {
    let (_, status) = ask(server, "GET", "/v1/status", "admin", "").await;
    let waiting = status.get("storage").and_then(|storage| storage.get("summary")).cloned();
    let (_, resource) = ask(server, "GET", &format!("/v1/resource/generic/{RESOURCE}"), "admin", "").await;
    let Some(Value::Object(metrics)) = resource.get("metrics") else { panic!("{resource:?}") };
    (waiting.expect("a summary"), metrics.iter().map(|(name, _)| name.clone()).collect())
}

fn body(metrics: &[(&str, &str)]) -> String {
    let entries: Vec<String> =
        metrics.iter().map(|(resource, metrics)| format!(r#""{resource}": {{{metrics}}}"#)).collect();
    format!("{{{}}}", entries.join(", "))
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let server = server().await;
    let before = state(&server).await;
    let cpu = format!(r#""cpu": {MEASURES}"#);
    let auto = format!(r#""auto.x": {MEASURES}"#);
    let other = format!(r#""other": {MEASURES}"#);
    let slash = format!(r#""auto/x": {MEASURES}"#);
    let policy = format!(r#""other": {{"archive_policy_name": "nope", "measures": {MEASURES}}}"#);
    let unit = format!(r#""auto.y": {{"unit": "{}", "measures": {MEASURES}}}"#, "u".repeat(32));
    let unknown = |ids: &[(&str, &str)]| {
        let detail: Vec<String> = ids
            .iter()
            .map(|(id, original)| {
                format!(r#"{{"resource_id": "{id}", "original_resource_id": "{original}"}}"#)
            })
            .collect();
        format!(r#"{{"cause": "Unknown resources", "detail": [{}]}}"#, detail.join(", "))
    };
    let no_rule =
        "No archive policy name specified and no archive policy rule found matching the metric name other";
    let cases = [
        (PATH, "alice", body(&[(RESOURCE, &format!("{cpu}, {other}"))]), 400, format!("Unknown metrics: {RESOURCE}/other")),
        (
            PATH,
            "alice",
            body(&[(MISSING, &cpu), (RESOURCE, &format!("{other}, {auto}"))]),
            400,
            format!("Unknown metrics: {RESOURCE}/auto.x, {RESOURCE}/other, {MISSING}/cpu"),
        ),
        (PATH, "bob", body(&[(RESOURCE, &cpu)]), 403, String::new()),
        (CREATE, "bob", body(&[(RESOURCE, &format!("{cpu}, {auto}"))]), 403, String::new()),
        (CREATE, "alice", body(&[(RESOURCE, &format!("{auto}, {other}"))]), 400, no_rule.to_owned()),
        (
            CREATE,
            "alice",
            body(&[(RESOURCE, &format!("{auto}, {slash}"))]),
            400,
            "'/' is not supported in metric name".to_owned(),
        ),
        (
            CREATE,
            "alice",
            body(&[(RESOURCE, &format!("{auto}, {policy}"))]),
            400,
            "Archive policy nope does not exist".to_owned(),
        ),
        (
            CREATE,
            "alice",
            body(&[(RESOURCE, &format!("{auto}, {unit}"))]),
            400,
            r#"{"cause": "Invalid input", "reason": "length of value must be at most 31 for dictionary value @ data['unit']", "detail": ["unit"]}"#.to_owned(),
        ),
        (
            CREATE,
            "foobar",
            // The first name of a resource decides: the others belong to no resource either.
            body(&[(RESOURCE, &auto), (MISSING, &format!("{auto}, {other}")), ("foobar", &auto), ("empty", "")]),
            400,
            unknown(&[(MISSING, MISSING), ("2fbfbb20-8d56-5e1e-afb9-b3007da11fdf", "foobar")]),
        ),
        (CREATE, "alice", body(&[(MISSING, &format!("{other}, {auto}"))]), 400, no_rule.to_owned()),
        (
            "/v1/batch/resources/metrics/measures?create_metrics=maybe",
            "alice",
            body(&[(RESOURCE, &cpu)]),
            400,
            "Unable to parse `create_metrics': Unrecognized value 'maybe', acceptable values are: '0', '1', 'f', 'false', \
             'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"
                .to_owned(),
        ),
    ];
    for (path, user, body, status, text) in cases {
        assert_eq!(post(&server, path, user, &body).await, (status, text), "{path} {body}");
        assert_eq!(state(&server).await, before, "{path} {body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_missing_is_made() {
    let server = server().await;
    let metrics = format!(
        r#""cpu": {MEASURES}, "auto.x": {{"measures": {MEASURES}}}, "disk": {{"archive_policy_name": "low", "unit": "B", "measures": []}}"#
    );
    assert_eq!(post(&server, CREATE, "alice", &body(&[(RESOURCE, &metrics)])).await.0, 202);
    let (waiting, names) = state(&server).await;
    assert_eq!(waiting.get("measures"), Some(&Value::Int(2)), "{waiting:?}");
    assert_eq!(names, ["auto.x", "cpu", "disk"]);
    let path = format!("/v1/resource/generic/{RESOURCE}/metric/disk");
    let (_, disk) = ask(&server, "GET", &path, "alice", "").await;
    assert_eq!(disk.get("unit"), Some(&"B".into()));
    assert_eq!(disk.get("creator"), Some(&"alice".into()));
    // The metrics exist now, so a caller who may not create any can post too.
    assert_eq!(post(&server, PATH, "alice", &body(&[(RESOURCE, &metrics)])).await.0, 202);
    // No metrics, so nothing is checked.
    assert_eq!(post(&server, PATH, "alice", &body(&[(MISSING, "")])).await.0, 202);
    server.stop().await;
}

#[tokio::test]
async fn requests_that_make_the_same_metrics_all_succeed() {
    let server = server().await;
    let metrics: Vec<String> = (0..20).map(|name| format!(r#""auto.{name}": {MEASURES}"#)).collect();
    let body = body(&[(RESOURCE, &metrics.join(", "))]);
    let answers = join_all((0..8).map(|_| post(&server, CREATE, "alice", &body))).await;
    assert!(answers.iter().all(|(status, _)| *status == 202), "{answers:?}");
    let (waiting, names) = state(&server).await;
    assert_eq!(waiting.get("measures"), Some(&Value::Int(160)), "{waiting:?}");
    assert_eq!(names.len(), 21);
    server.stop().await;
}

/// Measures do not revive an ended resource.
#[tokio::test]
async fn measures_do_not_revive_an_ended_resource() {
    let server = server().await;
    let path = format!("/v1/resource/generic/{RESOURCE}");
    let ended = r#"{"ended_at": "2026-12-01T00:00:00"}"#;
    let ended_at = |resource: &Value| resource.get("ended_at").cloned();
    let (status, resource) = ask(&server, "PATCH", &path, "alice", ended).await;
    assert_eq!((status, ended_at(&resource)), (200, Some("2026-12-01T00:00:00+00:00".into())));
    let metrics = format!(r#""cpu": {MEASURES}, "auto.x": {MEASURES}"#);
    assert_eq!(post(&server, CREATE, "alice", &body(&[(RESOURCE, &metrics)])).await.0, 202);
    let (_, after) = ask(&server, "GET", &path, "alice", "").await;
    assert_eq!(ended_at(&after), ended_at(&resource));
    server.stop().await;
}
