//! Resources over HTTP: versions and conditional requests, pagination of the history, response bodies.

mod support;

use gnudi_app::ApiOptions;
use gnudi_indexer::{
    ArchivePolicies as _, ArchivePolicyRules as _, Metrics as _, NewRevision, ResourceChange,
    ResourceTypeChange, ResourceTypes as _, Resources as _, Touched,
};
use gnudi_model::{ArchivePolicyRule, MetricId, Timestamp};
use support::{Answer, NOW, POLICY, Request, Server, server_with_cache};

const TYPE: &str = r#"{"name": "inst", "attributes": {
    "name": {"type": "string"}, "size": {"type": "number", "required": false, "min": 1}}}"#;

/// The UUID of the administrator's resource with the id used here.
const ID: &str = "775832c9-5ea8-5a32-a960-d0c077215071";

/// sha1(ID + "2026-11-21T12:34:56.789012+00:00")
const TAG: &str = "\"8d393f6a5d366a1940a48c32a6f88929693aa0ed\"";

async fn server() -> Server {
    let server = Server::start(ApiOptions { max_limit: 2, ..ApiOptions::default() }).await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    server.create("admin", "/v1/resource_type", TYPE).await;
    server
}

async fn create(server: &Server, body: &str) -> Answer {
    server.ask(Request::new("POST", "/v1/resource/inst").body(body)).await
}

fn shown(of_type: &str) -> String {
    [
        r#"{"id": "775832c9-5ea8-5a32-a960-d0c077215071", "creator": "admin", "#,
        r#""started_at": "2026-11-21T12:34:56.789012+00:00", "#,
        r#""revision_start": "2026-11-21T12:34:56.789012+00:00", "ended_at": null, "user_id": "u", "#,
        r#""project_id": null, "original_resource_id": "a", "type": "inst", "#,
        of_type,
        r#""revision_end": null, "created_by_user_id": "admin", "created_by_project_id": "", "metrics": {}}"#,
    ]
    .concat()
}

#[tokio::test]
async fn a_resource_is_shown_with_its_version() {
    let server = server().await;
    let created = create(&server, r#"{"id": "a", "name": "x", "user_id": "u"}"#).await;
    let of_type = r#""name": "x", "size": null, "#;
    assert_eq!((created.status, created.body.as_str()), (201, shown(of_type).as_str()));
    let location = format!("http://localhost:8041/v1/resource/inst/{ID}");
    let at = |answer: &Answer, name: &str| answer.header(name).map(str::to_owned);
    assert_eq!(at(&created, "location"), Some(location));
    for (path, of_type) in [("/v1/resource/inst/a", of_type), ("/v1/resource/generic/a", "")] {
        let answer = server.ask(Request::new("GET", path)).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, shown(of_type).as_str()), "{path}");
        assert_eq!(at(&answer, "etag").as_deref(), Some(TAG));
        assert_eq!(at(&answer, "last-modified").as_deref(), Some("Sat, 21 Nov 2026 12:34:56 GMT"));
    }
    assert_eq!(server.ask(Request::new("GET", "/v1/resource/nope/a")).await.status, 404);
    assert_eq!(create(&server, r#"{"id": "a", "name": "x"}"#).await.status, 409);
}

#[tokio::test]
async fn conditions_decide_what_is_done() {
    let server = server().await;
    create(&server, r#"{"id": "a", "name": "x"}"#).await;
    let (since, other) = ("Sat, 21 Nov 2026 12:34:56 GMT", "\"x\"");
    let ask = async |method: &str, name: &str, value: &str, body: Option<&str>| {
        let headers = [(name, value)];
        let request = Request { body, ..Request::new(method, "/v1/resource/inst/a").headers(&headers) };
        let answer = server.ask(request).await;
        (answer.status, answer.body.is_empty())
    };
    let precondition_failed = (412, false);
    for (name, value, read) in [
        ("If-Match", TAG, (200, false)),
        ("If-Match", other, precondition_failed),
        ("If-None-Match", TAG, (304, true)),
        ("If-None-Match", other, (200, false)),
        ("If-Modified-Since", since, (304, true)),
        ("If-Unmodified-Since", since, (200, false)),
        ("If-Unmodified-Since", "Sat, 21 Nov 2026 12:34:55 GMT", precondition_failed),
    ] {
        assert_eq!(ask("GET", name, value, None).await, read, "{name}: {value}");
    }
    // Preconditions are checked before the body; a failed one changes nothing.
    assert_eq!(ask("PATCH", "If-Match", other, Some("[]")).await, precondition_failed);
    assert_eq!(ask("PATCH", "If-None-Match", TAG, Some(r#"{"size": 5}"#)).await, precondition_failed);
    assert_eq!(ask("DELETE", "If-Match", other, None).await, precondition_failed);
    assert!(server.ask(Request::new("GET", "/v1/resource/inst/a")).await.body.contains(r#""size": null"#));
    assert_eq!(ask("PATCH", "If-Match", TAG, Some(r#"{"size": 5}"#)).await, (200, false));
    // The clock stands still, and yet the new revision has another tag.
    assert_eq!(ask("DELETE", "If-Match", TAG, None).await, precondition_failed);
    let shown = server.ask(Request::new("GET", "/v1/resource/inst/a")).await;
    assert_eq!(ask("DELETE", "If-Match", shown.header("etag").unwrap(), None).await, (204, true));
    assert_eq!(ask("GET", "If-None-Match", TAG, None).await, (404, false));
}

/// Another process has changed the resource, and this one's cache is outdated.
#[tokio::test]
async fn conditions_hold_when_it_is_done() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    for (method, body) in [("PATCH", Some(r#"{"user_id": "mine"}"#)), ("DELETE", None)] {
        let id = server.create("admin", "/v1/resource/generic", &format!(r#"{{"id": "{method}"}}"#)).await;
        let path = format!("/v1/resource/generic/{id}");
        let tag = server.ask(Request::new("GET", &path)).await.header("etag").unwrap().to_owned();
        cached.index().update_resource("generic", id.parse().unwrap(), theirs()).await.unwrap();
        let headers = [("If-Match", tag.as_str())];
        let request = Request { body, ..Request::new(method, &path).headers(&headers) };
        let answer = server.ask(request).await;
        assert_eq!(answer.status, 412, "{method}: {}", answer.body);
        let shown = server.ask(Request::new("GET", &path)).await.body;
        assert!(shown.contains(r#""user_id": "theirs""#), "{method}: {shown}");
    }
}

/// A change of another process, a second later than all others here.
fn theirs() -> ResourceChange {
    ResourceChange {
        user_id: Some(Some("theirs".to_owned())),
        revision: NewRevision::IfChanged,
        now: Timestamp(NOW.0 + 1_000_000_000),
        ..ResourceChange::default()
    }
}

/// Another process has changed the resource, and what it is now fulfils the conditions.
#[tokio::test]
async fn conditions_that_hold_in_the_index_are_not_refused() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    for (method, condition) in [
        ("GET", "If-Match"),
        ("PATCH", "If-Match"),
        ("DELETE", "If-Match"),
        ("PATCH", "If-Unmodified-Since"),
        ("DELETE", "If-Unmodified-Since"),
        ("PATCH", "If-None-Match"),
        ("DELETE", "If-None-Match"),
    ] {
        let new = format!(r#"{{"id": "{method} {condition}"}}"#);
        let id = server.create("admin", "/v1/resource/generic", &new).await;
        let path = format!("/v1/resource/generic/{id}");
        let outdated = server.ask(Request::new("GET", &path)).await.header("etag").unwrap().to_owned();
        cached.index().update_resource("generic", id.parse().unwrap(), theirs()).await.unwrap();
        let version = format!("{id}2026-11-21T12:34:57.789012+00:00");
        let current = format!("\"{}\"", sha1_smol::Sha1::from(version).digest());
        let value = match condition {
            "If-Match" => current.as_str(),
            "If-None-Match" => outdated.as_str(),
            _ => "Sat, 21 Nov 2026 12:34:57 GMT",
        };
        let headers = [(condition, value)];
        let body = (method == "PATCH").then_some(r#"{"project_id": "mine"}"#);
        let request = Request { body, ..Request::new(method, &path).headers(&headers) };
        let answer = server.ask(request).await;
        let expected = if method == "DELETE" { 204 } else { 200 };
        assert_eq!(answer.status, expected, "{method}, {condition}: {}", answer.body);
        if method != "DELETE" {
            assert!(answer.body.contains(r#""user_id": "theirs""#), "{method}, {condition}: {}", answer.body);
        }
    }
}

/// Another process has changed the resource, and the client changes it back to what is cached here.
#[tokio::test]
async fn a_change_to_what_is_cached_is_made() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    let id = server.create("admin", "/v1/resource/generic", r#"{"id": "a"}"#).await;
    let path = format!("/v1/resource/generic/{id}");
    let revisions = async || {
        let history = server.ask(Request::new("GET", &format!("{path}/history"))).await;
        history.body.matches("revision_start").count()
    };
    server.create("admin", "/v1/archive_policy", POLICY).await;
    for (body, expected) in [
        (r#"{"user_id": null}"#, 3),
        (r#"{"user_id": null, "metrics": {"m": {"archive_policy_name": "p"}}}"#, 5),
    ] {
        server.ask(Request::new("GET", &path)).await;
        cached.index().update_resource("generic", id.parse().unwrap(), theirs()).await.unwrap();
        let changed = server.ask(Request::new("PATCH", &path).body(body)).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        let shown = server.ask(Request::new("GET", &path)).await.body;
        assert!(shown.contains(r#""user_id": null"#), "{shown}");
        assert_eq!(revisions().await, expected, "{body}");
    }
}

/// As above, for a type.
#[tokio::test]
async fn a_change_of_a_type_to_what_is_cached_is_made() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    server.create("admin", "/v1/resource_type", TYPE).await;
    let path = "/v1/resource_type/inst";
    assert_eq!(server.ask(Request::new("GET", path)).await.status, 200);
    let change = ResourceTypeChange { delete: vec!["size".into()], ..ResourceTypeChange::default() };
    cached.index().update_resource_type("inst", change).await.unwrap();
    let back = r#"[{"op": "add", "path": "/attributes/size", "value": {"type": "number", "required": false, "min": 1}}]"#;
    let headers = [("Content-Type", "application/json-patch+json")];
    let answer = server.ask(Request::new("PATCH", path).headers(&headers).body(back)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let current = cached.index().resource_type("inst").await.unwrap().unwrap();
    assert!(current.attributes.contains_key("size"), "{current:?}");
}

/// Another process has replaced a rule and its policy, which are still cached here: clients drop the measures of other
/// refusals.
#[tokio::test]
async fn measures_that_a_former_rule_refuses_may_be_sent_again() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    server.create("admin", "/v1/archive_policy", &POLICY.replace("\"p\"", "\"q\"")).await;
    let id = server.create("admin", "/v1/resource/generic", r#"{"id": "a"}"#).await;
    let database = Request::new("POST", "/v1/influxdb/query?q=create+database+db");
    assert_eq!(server.ask(database).await.status, 204);
    let others = cached.index();
    others.create_archive_policy_rule(ArchivePolicyRule::new("former", "*", "q")).await.unwrap();
    assert_eq!(cached.archive_policy_name_for_metric("m").await, Ok("q".to_owned()));
    others.delete_archive_policy_rule("former").await.unwrap();
    others.delete_archive_policy("q").await.unwrap();
    others.create_archive_policy_rule(ArchivePolicyRule::new("next", "*", "p")).await.unwrap();

    let batch = format!(r#"{{"{id}": {{"m": [{{"timestamp": "2026-01-01T00:00:00", "value": 1}}]}}}}"#);
    let requests = [
        ("/v1/influxdb/write?db=db", "m,host=b f=1", 204),
        ("/v1/batch/resources/metrics/measures?create_metrics=true", batch.as_str(), 202),
    ];
    for is_told in [false, true] {
        for (path, body, done) in requests {
            let answer = server.ask(Request::new("POST", path).body(body)).await;
            let expected = if is_told { done } else { 503 };
            assert_eq!(answer.status, expected, "{path}: {}", answer.body);
        }
        cached.invalidate(&Touched::policies());
    }
}

/// Another process has removed the policy of a definition, which no metric used, and it is still cached here.
#[tokio::test]
async fn a_definition_that_was_swept_is_made_again() {
    let (server, cached) = server_with_cache(ApiOptions::default()).await;
    let body = r#"{"name": "m", "archive_policy": {"definition": [{"granularity": 1}]}}"#;
    for _ in 0..2 {
        let id = server.create("admin", "/v1/metric", body).await;
        // Its policy is cached now.
        assert_eq!(server.ask(Request::new("GET", &format!("/v1/metric/{id}"))).await.status, 200);
        let (id, others) = (MetricId(id.parse().unwrap()), cached.index());
        others.delete_metrics(&[id]).await.remove(0).unwrap();
        others.expunge_metrics(&[id]).await.unwrap();
        assert_eq!(others.sweep_definitions().await, Ok(1));
    }
    let metrics = format!(r#"{{"id": "a", "metrics": {{"m": {body}, "n": {body}}}}}"#);
    server.create("admin", "/v1/resource/generic", &metrics).await;
}

#[tokio::test]
async fn a_change_that_changes_nothing_makes_no_revision() {
    let server = server().await;
    create(&server, r#"{"id": "a", "name": "x", "size": 2, "ended_at": "2030-01-01"}"#).await;
    let revisions = async || {
        let history = server.ask(Request::new("GET", "/v1/resource/inst/a/history?details=true")).await;
        history.body.matches("revision_start").count()
    };
    let patch = async |body: &str| {
        let answer = server.ask(Request::new("PATCH", "/v1/resource/inst/a").body(body)).await;
        (answer.status, answer.header("etag").is_some())
    };
    assert_eq!(patch("{}").await, (200, true));
    assert_eq!(
        patch(r#"{"size": 2.0, "name": "x", "user_id": null, "ended_at": 1893456000}"#).await,
        (200, false)
    );
    let with_metric = r#"{"metrics": {"m": {"archive_policy_name": "p"}}, "size": 2}"#;
    assert_eq!(patch(with_metric).await, (200, true));
    assert_eq!(revisions().await, 1);
    // An end before the start, and null: an end cannot be removed.
    for refused in
        [r#"{"ended_at": 5}"#, r#"{"ended_at": null}"#, r#"{"started_at": "2031-01-01"}"#, r#"{"size": 0}"#]
    {
        assert_eq!(patch(refused).await, (400, false), "{refused}");
    }
    assert_eq!(revisions().await, 1);
    assert_eq!(patch(r#"{"size": 3}"#).await, (200, true));
    assert_eq!(revisions().await, 2);
}

#[tokio::test]
async fn listings_go_on_page_by_page() {
    let server = server().await;
    for id in ["a", "b", "c"] {
        create(&server, &format!(r#"{{"id": "{id}", "name": "{id}"}}"#)).await;
    }
    for size in 1..=3 {
        let patch = format!(r#"{{"size": {size}}}"#);
        server.ask(Request::new("PATCH", "/v1/resource/inst/a").body(&patch)).await;
    }
    for (first, pages, revisions) in [
        ("/v1/resource/inst?sort=name&attrs=id&attrs=revision_end&attrs=size", 2, 3),
        ("/v1/resource/generic?sort=id:desc&attrs=id&attrs=created_by_user_id", 2, 3),
        ("/v1/resource/inst?history=true&sort=size:desc-nullslast&attrs=id&attrs=size", 4, 6),
        ("/v1/resource/inst/a/history?sort=size", 3, 4),
    ] {
        let (mut next, mut seen, mut bodies) = (Some(first.to_owned()), Vec::new(), Vec::new());
        while let Some(path) = next {
            let answer = server.ask(Request::new("GET", &path)).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            seen.extend(answer.body.split("{\"id\": ").skip(1).map(str::to_owned));
            bodies.push(answer.body.clone());
            next = answer.header("link").map(|link| {
                let link = link.strip_prefix("<http://localhost:8041").expect("an address of this server");
                link.strip_suffix(">; rel=\"next\"").expect("the next page").to_owned()
            });
        }
        let ends = |item: &String| item.trim_end_matches([',', ' ', ']']).to_owned();
        let mut distinct: Vec<String> = seen.iter().map(ends).collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(
            (bodies.len(), seen.len(), distinct.len()),
            (pages, revisions, revisions),
            "{first}: {bodies:?}"
        );
    }
}

#[tokio::test]
async fn metrics_are_shown_with_their_resource() {
    let server = server().await;
    create(&server, r#"{"id": "a", "name": "x"}"#).await;
    let metrics = r#"{"m": {"archive_policy_name": "p", "unit": "B"}}"#;
    let added = server.ask(Request::new("POST", "/v1/resource/inst/a/metric").body(metrics)).await;
    assert_eq!(added.status, 200);
    assert!(added.body.contains(&format!(r#""resource_id": "{ID}""#)), "{}", added.body);
    let again = server.ask(Request::new("POST", "/v1/resource/inst/a/metric").body(metrics)).await;
    assert_eq!((again.status, again.body.contains("Named metric m already exists")), (409, true));
    let shown = server.ask(Request::new("GET", "/v1/resource/generic/a/metric/m")).await.body;
    let resource = r#""resource": {"id": "775832c9-5ea8-5a32-a960-d0c077215071", "creator": "admin", "#;
    assert!(shown.contains(resource) && shown.contains(r#""unit": "B""#), "{shown}");
    assert!(!shown.contains("metrics") && !shown.contains(r#""size""#), "{shown}");
    let named = r#"{"archive_policy_name": "p", "resource_id": "a", "name": "n"}"#;
    assert_eq!(server.ask(Request::new("POST", "/v1/metric").body(named)).await.status, 201);
    let nameless = r#"{"archive_policy_name": "p", "resource_id": "a"}"#;
    assert_eq!(server.ask(Request::new("POST", "/v1/metric").body(nameless)).await.status, 400);
    let homeless = r#"{"archive_policy_name": "p", "resource_id": "zz", "name": "n"}"#;
    assert_eq!(server.ask(Request::new("POST", "/v1/metric").body(homeless)).await.status, 404);
}

#[tokio::test]
async fn many_metrics_in_one_request_are_refused() {
    let mut options = ApiOptions::default();
    options.limits.batch_metrics_max = 2;
    let server = Server::start(options).await;
    let body = |metrics: usize| {
        let id = "00000000-0000-0000-0000-000000000001";
        let metrics: Vec<String> = (0..metrics).map(|index| format!(r#""m{index}": "{id}""#)).collect();
        format!(r#"{{"id": "a", "metrics": {{{}}}}}"#, metrics.join(","))
    };
    let status = async |metrics: usize| {
        server.ask(Request::new("POST", "/v1/resource/generic").body(&body(metrics))).await.status
    };
    assert_eq!((status(2).await, status(3).await), (400, 413));
    assert_eq!(server.ask(Request::new("GET", "/v1/resource/generic/a")).await.status, 404);
}
