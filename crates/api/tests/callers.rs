//! Access to every route for every kind of caller: unauthenticated, another user, the metric's creator, the
//! administrator.
//!
//! Members of the creator's or a resource's project have tokens with projects; the unit tests of `policy`
//! cover them.

mod support;

use std::sync::Arc;

use gnudi_access::{Policy, PolicyFiles};
use gnudi_app::ApiOptions;
use support::{POLICY, Request, Server};

const CALLERS: [Option<&str>; 4] = [None, Some("other"), Some("creator"), Some("admin")];

/// Method, path, body, and each caller's status. `{id}` is a metric of `creator`, `res` a resource of
/// `creator` of type `t` with a metric `m`. Requests that would change the state for the next caller fail for
/// another reason once they are allowed (400 for a bad body, 409 for a duplicate).
const ROUTES: [(&str, &str, Option<&str>, [u16; 4]); 67] = [
    ("GET", "/", None, [200; 4]),
    ("GET", "/v1/", None, [200; 4]),
    ("GET", "/healthcheck", None, [200; 4]),
    ("GET", "/metrics", None, [200; 4]),
    ("GET", "/debug/cluster", None, [401, 403, 403, 200]),
    ("GET", "/debug/flamegraph?seconds=x", None, [401, 403, 403, 400]),
    ("GET", "/v1/capabilities", None, [200; 4]),
    ("GET", "/v1/status", None, [401, 403, 403, 200]),
    ("GET", "/v1/archive_policy", None, [401, 200, 200, 200]),
    ("POST", "/v1/archive_policy", Some("{}"), [401, 403, 403, 400]),
    ("GET", "/v1/archive_policy/p", None, [401, 200, 200, 200]),
    ("PATCH", "/v1/archive_policy/p", Some("{}"), [401, 403, 403, 400]),
    ("DELETE", "/v1/archive_policy/p", None, [401, 403, 403, 400]),
    ("GET", "/v1/archive_policy_rule", None, [401, 200, 200, 200]),
    ("POST", "/v1/archive_policy_rule", Some("{}"), [401, 403, 403, 400]),
    ("GET", "/v1/archive_policy_rule/r", None, [401, 200, 200, 200]),
    // As in Gnocchi, a malformed body is reported before access is checked.
    ("PATCH", "/v1/archive_policy_rule/r", Some("{}"), [401, 400, 400, 400]),
    ("PATCH", "/v1/archive_policy_rule/r", Some(r#"{"name": ""}"#), [401, 403, 403, 400]),
    ("DELETE", "/v1/archive_policy_rule/nope", None, [401, 404, 404, 404]),
    ("DELETE", "/v1/archive_policy_rule/r", None, [401, 403, 403, 204]),
    ("GET", "/v1/metric", None, [401, 200, 200, 200]),
    ("POST", "/v1/metric", Some(r#"{"archive_policy_name": "p"}"#), [401, 201, 201, 201]),
    ("GET", "/v1/metric/{id}", None, [401, 403, 200, 200]),
    ("GET", "/v1/metric/nope", None, [401, 404, 404, 404]),
    ("POST", "/v1/metric/{id}/measures", Some("[]"), [401, 403, 202, 202]),
    ("POST", "/v1/metric/nope/measures", Some("[]"), [401, 404, 404, 404]),
    ("GET", "/v1/metric/{id}/measures", None, [401, 403, 200, 200]),
    ("PUT", "/v1/metric/{id}", None, [401, 405, 405, 405]),
    ("POST", "/v1/batch/metrics/measures", Some(r#"{"{id}": []}"#), [401, 403, 202, 202]),
    ("DELETE", "/v1/metric/{id}", None, [401, 403, 204, 404]),
    ("GET", "/v1/nothing", None, [404; 4]),
    ("GET", "/v1/resource", None, [200; 4]),
    ("GET", "/v1/resource_type", None, [401, 200, 200, 200]),
    ("POST", "/v1/resource_type", Some("{}"), [401, 400, 400, 400]),
    ("POST", "/v1/resource_type", Some(r#"{"name": "u"}"#), [401, 403, 403, 201]),
    ("GET", "/v1/resource_type/t", None, [401, 200, 200, 200]),
    ("PATCH", "/v1/resource_type/t", Some("{}"), [401, 403, 403, 415]),
    ("DELETE", "/v1/resource_type/t", None, [401, 403, 403, 400]),
    ("GET", "/v1/resource/nope", None, [401, 404, 404, 404]),
    ("GET", "/v1/resource/t", None, [401, 200, 200, 200]),
    ("POST", "/v1/resource/t", Some("{}"), [401, 400, 400, 400]),
    ("DELETE", "/v1/resource/t", Some("{}"), [401, 400, 400, 400]),
    ("GET", "/v1/resource/t/res", None, [401, 404, 200, 404]),
    ("GET", "/v1/resource/t/{res}", None, [401, 403, 200, 200]),
    ("PATCH", "/v1/resource/t/{res}", Some("[]"), [401, 403, 400, 400]),
    ("GET", "/v1/resource/t/{res}/history", None, [401, 403, 200, 200]),
    ("GET", "/v1/resource/t/{res}/metric", None, [401, 403, 200, 200]),
    ("POST", "/v1/resource/t/{res}/metric", Some("[]"), [401, 403, 400, 400]),
    ("GET", "/v1/resource/t/{res}/metric/nope", None, [401, 404, 404, 404]),
    ("GET", "/v1/resource/t/{res}/metric/m", None, [401, 403, 200, 200]),
    ("GET", "/v1/resource/t/{res}/metric/m/measures", None, [401, 403, 200, 200]),
    ("POST", "/v1/resource/t/{res}/metric/m/measures", Some("[]"), [401, 403, 202, 202]),
    ("DELETE", "/v1/resource/t/{res}/metric/m", None, [401, 403, 204, 404]),
    (
        "POST",
        "/v1/metric",
        Some(r#"{"archive_policy_name": "p", "resource_id": "{res}", "name": "n"}"#),
        [401, 403, 201, 400],
    ),
    (
        "POST",
        "/v1/resource/t",
        Some(r#"{"id": "x", "metrics": {"m": {"archive_policy_name": "p", "resource_id": "{res}"}}}"#),
        [401, 403, 201, 201],
    ),
    ("GET", "/v1/influxdb/ping", None, [204; 4]),
    ("HEAD", "/v1/influxdb/ping", None, [204; 4]),
    ("POST", "/v1/influxdb/query", None, [204; 4]),
    ("POST", "/v1/influxdb/query?q=create+database+t", None, [401, 403, 403, 204]),
    ("POST", "/v1/influxdb/write?db=t", Some("m,host={res} f=1"), [401, 403, 400, 400]),
    ("POST", "/v1/influxdb/write?db=nope", Some("m,host=h f=1"), [401, 404, 404, 404]),
    // An empty message in Snappy's format, which every caller may send.
    ("POST", "/v1/prometheus/write", Some("\0"), [401, 202, 202, 202]),
    ("POST", "/api/v1/write", Some("\0"), [401, 415, 415, 415]),
    ("POST", "/api/v1/otlp/v1/metrics", Some("{}"), [401, 200, 200, 200]),
    ("DELETE", "/v1/resource/t/{res}", None, [401, 403, 204, 404]),
    ("DELETE", "/v1/resource/t/nope", None, [401, 404, 404, 404]),
    ("PUT", "/v1/resource/t/nope", None, [401, 405, 405, 405]),
];

/// Creates the policy `p` and a metric of `creator`; returns its id.
async fn create_metric(server: &Server) -> String {
    server.create("admin", "/v1/archive_policy", POLICY).await;
    server.create("creator", "/v1/metric", r#"{"archive_policy_name": "p"}"#).await
}

#[tokio::test]
async fn each_caller_gets_what_the_policy_gives() {
    let server = Server::start(ApiOptions::default()).await;
    let id = create_metric(&server).await;
    let rule = r#"{"name": "r", "metric_pattern": "x", "archive_policy_name": "p"}"#;
    server.create("admin", "/v1/archive_policy_rule", rule).await;
    server.create("admin", "/v1/resource_type", r#"{"name": "t"}"#).await;
    let resource = r#"{"id": "res", "metrics": {"m": {"archive_policy_name": "p"}}}"#;
    let resource = server.create("creator", "/v1/resource/t", resource).await;

    for (method, path, body, expected) in ROUTES {
        let path = path.replace("{id}", &id).replace("{res}", &resource);
        let body = body.map(|body| body.replace("{id}", &id).replace("{res}", &resource));
        let mut statuses = Vec::new();
        for user in CALLERS {
            let request = Request { body: body.as_deref(), user, ..Request::new(method, &path) };
            statuses.push(server.ask(request).await.status);
        }
        assert_eq!(statuses, expected, "{method} {path} for {CALLERS:?}");
    }
}

/// A server with an operator's rules.
async fn server_with_rules(rules: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, rules).expect("it can be written");
    let files = PolicyFiles { files: vec![file], ..PolicyFiles::default() };
    let (policy, _) = Policy::load(&files).expect("the file has rules");
    Server::start(ApiOptions { policy: Arc::new(policy), ..ApiOptions::default() }).await
}

#[tokio::test]
async fn rules_see_what_a_request_gives_of_a_new_item() {
    const ID: &str = "5dfe182a-51d2-4122-b90b-df0f215b736e";
    let server = server_with_rules(&format!(
        "\"create resource\": \"'{ID}':%(id)s\"\n\
         \"create metric\": \"None:%(archive_policy_name)s or '{ID}':%(original_resource_id)s\"\n"
    ))
    .await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    let rule = r#"{"name": "r", "metric_pattern": "*", "archive_policy_name": "p"}"#;
    server.create("admin", "/v1/archive_policy_rule", rule).await;
    let database = Request::new("POST", "/v1/influxdb/query?q=create+database+db");
    assert_eq!(server.ask(database).await.status, 204);
    for (path, body, expected) in [
        ("/v1/influxdb/write?db=db", "m,host=other f=1", 403),
        ("/v1/influxdb/write?db=db", "m,host={id} f=1", 204),
        ("/v1/metric", r#"{"name": "m"}"#, 201),
        ("/v1/metric", r#"{"archive_policy_name": "p"}"#, 403),
        ("/v1/metric", r#"{"archive_policy_name": "p", "name": "n", "resource_id": "{id}"}"#, 201),
    ] {
        let body = body.replace("{id}", ID);
        let answer = server.ask(Request::new("POST", path).body(&body).user(Some("creator"))).await;
        assert_eq!(answer.status, expected, "{path} {body}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_marker_reveals_nothing_that_its_caller_does_not_see() {
    let rules = ["list metric", "list resource", "search resource"];
    let rules = rules.map(|rule| format!("\"{rule}\": \"user:%(creator)s\"\n"));
    let server = server_with_rules(&rules.concat()).await;
    let id = create_metric(&server).await;
    let resource = server.create("creator", "/v1/resource/generic", r#"{"id": "res"}"#).await;
    let others = server.create("other", "/v1/resource/generic", r#"{"id": "res"}"#).await;
    for (method, path) in [
        ("GET", format!("/v1/metric?sort=last_measure&marker={id}")),
        ("GET", format!("/v1/metric?sort=name&marker={id}")),
        ("GET", format!("/v1/resource/generic?sort=user_id&marker={resource}")),
        ("GET", format!("/v1/resource/generic?sort=user_id&history=true&marker={resource}@-1")),
        ("POST", format!("/v1/search/resource/generic?sort=user_id&marker={resource}")),
        ("POST", format!("/v1/search/resource/generic?sort=user_id&history=true&marker={resource}@-1")),
    ] {
        let body = (method == "POST").then_some("{}");
        for (user, status) in [("creator", 200), ("other", 400), ("admin", 400)] {
            let answer = server.ask(Request { body, user: Some(user), ..Request::new(method, &path) }).await;
            assert_eq!(answer.status, status, "{method} {path} by {user}: {}", answer.body);
        }
    }
    for (marker, status) in [(&others, 200), (&resource, 400)] {
        let path = format!("/v1/resource/generic/{others}/history?sort=user_id&marker={marker}@-1");
        let answer = server.ask(Request::new("GET", &path).user(Some("other"))).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn no_cache_may_answer_one_caller_with_what_another_one_sees() {
    let server = Server::start(ApiOptions::default()).await;
    let id = create_metric(&server).await;
    for path in ["/v1/metric", &format!("/v1/metric/{id}"), "/api/v1/labels", "/v1/nothing"] {
        let answer = server.ask(Request::new("GET", path)).await;
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"), "{path}");
    }
}

#[tokio::test]
async fn a_list_shows_figures_of_measures_that_its_caller_may_read_only() {
    let server = server_with_rules(
        "\"list metric\": \"user:%(creator)s\"\n\
         \"get measures\": \"user:%(creator)s and not 'secret':%(name)s \
         and not 'vault':%(resource.user_id)s\"\n",
    )
    .await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    for name in ["open", "secret"] {
        let metric = format!(r#"{{"name": "{name}", "archive_policy_name": "p"}}"#);
        server.create("creator", "/v1/metric", &metric).await;
    }
    let vault = r#"{"id": "vault", "user_id": "vault", "metrics": {"stored": {"archive_policy_name": "p"}}}"#;
    server.create("creator", "/v1/resource/generic", vault).await;
    for (query, expected) in [
        ("sort=name", [true, true, true]),
        ("sort=name&last_measure=true", [true, false, false]),
        ("sort=name&last_measure=true&limit=1", [true, false, false]),
        ("sort=last_measure", [true, false, false]),
        ("silent_since=1", [true, false, false]),
    ] {
        let path = format!("/v1/metric?{query}");
        let answer = server.ask(Request::new("GET", &path).user(Some("creator"))).await;
        let shows = ["open", "secret", "stored"].map(|name| answer.body.contains(&format!("\"{name}\"")));
        assert_eq!((answer.status, shows), (200, expected), "{path}: {}", answer.body);
    }
}

/// While a client sends a body, its resource is deleted, and another caller creates one with the same id.
#[tokio::test]
async fn a_body_changes_no_resource_that_its_caller_may_not_change() {
    const ID: &str = "5dfe182a-51d2-4122-b90b-df0f215b736e";
    let server = Server::start(ApiOptions::default()).await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    let path = format!("/v1/resource/generic/{ID}");
    let new = format!(r#"{{"id": "{ID}"}}"#);
    for (method, below, body) in [
        ("PATCH", "", r#"{"user_id": "mine"}"#),
        ("POST", "/metric", r#"{"mine": {"archive_policy_name": "p"}}"#),
        ("POST", "/annotation", r#"{"text": "mine"}"#),
    ] {
        server.create("creator", "/v1/resource/generic", &new).await;
        let target = format!("{path}{below}");
        let length = body.len().to_string();
        let headers = [("Content-Length", length.as_str()), ("Expect", "100-continue")];
        let head = Request::new(method, &target).user(Some("creator")).headers(&headers);
        let mut connection = server.connect().await;
        connection.send(&head.to_bytes()).await;
        // The server has found the resource, and reads the body.
        assert_eq!(connection.answer().await.expect("an interim answer").status, 100, "{target}");
        let deletion = Request::new("DELETE", &path);
        assert_eq!(server.ask(deletion.user(Some("creator"))).await.status, 204);
        server.create("other", "/v1/resource/generic", &new).await;
        connection.send(body.as_bytes()).await;
        let answer = connection.answer().await.expect("an answer");
        assert_eq!(answer.status, 403, "{method} {target}: {}", answer.body);
        for shown in [path.clone(), format!("{path}/annotation")] {
            let shown = server.ask(Request::new("GET", &shown).user(Some("other"))).await;
            assert!(!shown.body.contains("mine"), "{method} {target}: {}", shown.body);
        }
        assert_eq!(server.ask(deletion.user(Some("other"))).await.status, 204);
    }
}
