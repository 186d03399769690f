//! Limits per project: metrics that a request failed to create do not count, and requests at once count once.

#[path = "../../indexer/tests/support/mod.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod gated;
mod support;

use std::sync::{Arc, atomic::Ordering};

use futures_util::future::join_all;
use gated::Gated;
use gnudi_access::{Caller, ProjectLimits, QuotaOptions, Quotas};
use gnudi_app::ApiOptions;
use gnudi_indexer::{ArchivePolicies as _, ArchivePolicyRules as _, CachedIndexer, MemoryIndexer};
use gnudi_model::{ArchivePolicyRule, Timestamp};
use support::{NOW, POLICY, Request, Server, server_with_cache};

/// A server whose projects may have this many metrics, with the policy `p`, and its cache. Its clock stands still, so that
/// metrics are counted once.
async fn server(metrics_max: u64) -> (Server, Arc<CachedIndexer<MemoryIndexer>>) {
    let limits = ProjectLimits { metrics_max: Some(metrics_max), ..ProjectLimits::default() };
    let quotas = QuotaOptions { limits, ..QuotaOptions::default() };
    let (server, cached) = server_with_cache(ApiOptions { quotas, ..ApiOptions::default() }).await;
    server.create("admin", "/v1/archive_policy", POLICY).await;
    (server, cached)
}

async fn status(server: &Server, method: &str, path: &str, body: &str) -> u16 {
    server.ask(Request::new(method, path).body(body)).await.status
}

const METRIC: &str = r#"{"archive_policy_name": "p"}"#;

#[tokio::test]
async fn refused_creations_leave_room() {
    let (server, _) = server(4).await;
    let resource =
        r#"{"id": "a", "metrics": {"m": {"archive_policy_name": "p"}, "n": {"archive_policy_name": "p"}}}"#;
    server.create("admin", "/v1/resource/generic", resource).await;
    let metrics = r#"{"m": {"archive_policy_name": "p"}, "o": {"archive_policy_name": "p"}}"#;
    let unknown = r#"{"metrics": {"x": {"archive_policy_name": "q"}, "y": {"archive_policy_name": "q"}}}"#;
    let named = r#"{"archive_policy_name": "p", "resource_id": "a", "name": "m"}"#;
    let backwards = r#"{"id": "b", "started_at": "2026-01-02", "ended_at": "2026-01-01", "#;
    let backwards = backwards.to_owned() + r#""metrics": {"m": {"archive_policy_name": "p"}}}"#;
    for _ in 0..2 {
        assert_eq!(status(&server, "POST", "/v1/resource/generic", resource).await, 409);
        assert_eq!(status(&server, "POST", "/v1/resource/generic/a/metric", metrics).await, 409);
        assert_eq!(status(&server, "POST", "/v1/resource/generic", &backwards).await, 400);
        assert_eq!(status(&server, "PATCH", "/v1/resource/generic/a", unknown).await, 400);
        assert_eq!(status(&server, "POST", "/v1/metric", named).await, 400);
    }
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 201);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 201);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 429);
}

/// Another process has deleted the policy, which this one has cached.
#[tokio::test]
async fn a_refused_batch_leaves_room() {
    let (server, cached) = server(1).await;
    let id = server.create("admin", "/v1/resource/generic", r#"{"id": "a"}"#).await;
    server.create("admin", "/v1/archive_policy", &POLICY.replace("\"p\"", "\"q\"")).await;
    assert!(cached.archive_policy("q").await.unwrap().is_some());
    cached.index().delete_archive_policy("q").await.unwrap();
    let measures = r#"[{"timestamp": "2026-01-01T00:00:00", "value": 1}]"#;
    let batch = format!(r#"{{"{id}": {{"m": {{"archive_policy_name": "q", "measures": {measures}}}}}}}"#);
    let path = "/v1/batch/resources/metrics/measures?create_metrics=true";
    assert_eq!(status(&server, "POST", path, &batch).await, 400);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 201);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 429);
}

/// Another process has deleted the policy and its rule, which this one has cached.
#[tokio::test]
async fn a_refused_delivery_leaves_room() {
    let (server, cached) = server(2).await;
    server.create("admin", "/v1/archive_policy", &POLICY.replace("\"p\"", "\"q\"")).await;
    assert_eq!(status(&server, "POST", "/v1/influxdb/query?q=create+database+db", "").await, 204);
    server.create("admin", "/v1/resource/db", r#"{"id": "known"}"#).await;
    let others = cached.index();
    others.create_archive_policy_rule(ArchivePolicyRule::new("former", "*", "q")).await.unwrap();
    assert_eq!(cached.archive_policy_name_for_metric("m").await, Ok("q".to_owned()));
    others.delete_archive_policy_rule("former").await.unwrap();
    others.delete_archive_policy("q").await.unwrap();
    for lines in ["m,host=known f=1", "m,host=new f=1", "m,host=known f=1\nm,host=new f=1"] {
        assert_eq!(status(&server, "POST", "/v1/influxdb/write?db=db", lines).await, 503, "{lines}");
    }
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 201);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 201);
    assert_eq!(status(&server, "POST", "/v1/metric", METRIC).await, 429);
}

/// Each count reads all metrics of the project. Requests that wait for a long one share the next, which begins after they
/// came.
#[tokio::test]
async fn requests_at_once_share_a_count() {
    let limits = ProjectLimits { metrics_max: Some(0), ..ProjectLimits::default() };
    let options = QuotaOptions { limits, ..QuotaOptions::default() };
    let caller = Caller { user: "a".to_owned(), ..Caller::default() };
    for (seconds_between, counts) in [(0, 1), (2, 2)] {
        let (index, quotas) = (Gated::new(), Arc::<Quotas>::default());
        index.behind_reads.close();
        let request = |number: i64| {
            let now = Timestamp(NOW.0 + number * seconds_between * 1_000_000_000);
            quotas.admit_metrics(&options, &caller, now, 1, &index)
        };
        let requests = join_all((0..20).map(request));
        let open = async {
            tokio::task::yield_now().await;
            index.behind_reads.open();
        };
        let (answers, ()) = tokio::join!(requests, open);
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(index.reads.load(Ordering::Relaxed), counts, "{seconds_between} s");
    }
}
