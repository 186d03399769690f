//! Aggregation of a day across metrics, given by id or as those of all resources that a search finds, with former
//! revisions; over all and by a group.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    Bench,
    batch::{self, Metrics},
    metadata::{TYPE, create_type, id, resource},
    setup,
};
use crate::{
    body::{Span, Values},
    load::Requests,
    measurement::{Row, Unit},
    peers::Server,
};

pub const ROWS: [Row; 1] =
    [Row::new("aggregate", Unit::Points, "mean of many metrics over a day, 1 connection")];

pub const RESOURCE_ROWS: [Row; 2] = [
    Row::new(
        "aggregate-resources",
        Unit::Points,
        "mean of a metric of many resources over a day, 1 connection",
    ),
    Row::new("aggregate-groups", Unit::Points, "the same by flavor, in 20 groups"),
];

const POLICY: &str = "gnudi-bench-day";
/// A day by the minute.
const POINTS: usize = 24 * 60;
const RESOURCE_POLICY: &str = "gnudi-bench-day-5min";
const METRIC: &str = "cpu";
const GROUP_SECONDS: u32 = 300;
/// A day by five minutes.
const GROUPS: usize = 24 * 3600 / GROUP_SECONDS as usize;
/// Former revisions per resource.
const REVISIONS: usize = 2;
/// Metrics per request of measures.
const BATCH_METRICS: usize = 50;

/// The mean by five minutes of metrics with a day by the minute.
pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    setup::create_policy(server, &setup::policy(POLICY, &[(60, 7 * POINTS)]))?;
    let metrics = batch::metrics(server, POLICY, server.peer.sized(1_000, 20))?;
    metrics.fill(server, &[Span::minutes(0, POINTS)])?;
    let references = metrics.ids().iter().map(|id| json!([id, "mean"]));
    let metric: Vec<_> = std::iter::once("metric".into()).chain(references).collect();
    let operations = json!(["aggregate", "mean", ["resample", "mean", GROUP_SECONDS, metric]]);
    let (query, body) = ("granularity=60", json!({ "operations": operations }));
    let (count, note) = (metrics.len(), format!("{} metrics of {POINTS} points", metrics.len()));
    measure(bench, server, &ROWS[0], (query, &body), count * POINTS, note)
}

/// The mean of the metrics of all resources, each with a day by five minutes.
pub fn run_resources(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let resources = server.peer.sized(100_000, 20);
    setup::create_policy(server, &setup::policy(RESOURCE_POLICY, &[(GROUP_SECONDS, 7 * GROUPS)]))?;
    create_resources(server, resources)?;
    let metrics = create_metrics(server, resources)?;
    let span = Span { step_ms: i64::from(GROUP_SECONDS) * 1000, ..Span::minutes(0, GROUPS) };
    setup::send(server, metrics.requests(server, BATCH_METRICS, span, &mut Values::new(1)), 4)?;
    setup::wait_processed(server)?;
    let body = json!({
        "operations": format!("(aggregate mean (metric {METRIC} mean))"), "search": {}, "resource_type": TYPE,
    });
    for (row, groupby) in RESOURCE_ROWS.iter().zip(["", "&groupby=flavor"]) {
        if bench.options.wants(row.key) {
            let query = format!("granularity={GROUP_SECONDS}{groupby}");
            let note =
                format!("{resources} resources with {REVISIONS} former revisions, {GROUPS} points each");
            measure(bench, server, row, (&query, &body), resources * GROUPS, note)?;
        }
    }
    Ok(())
}

/// Checks the answer to a query, and measures it.
fn measure(
    bench: &mut Bench,
    server: &Server,
    row: &Row,
    (query, body): (&str, &Value),
    points: usize,
    note: String,
) -> Result<()> {
    let request = server.headers.post_json(&format!("/v1/aggregates?{query}"), body);
    let requests = Requests::listed(vec![request]);
    setup::check_answer(server, &requests, |answer| {
        let found = aggregated_points(answer)?;
        let is_right = !found.is_empty() && found.iter().all(|found| *found == GROUPS);
        ensure!(is_right, "{found:?} points aggregated");
        Ok(())
    })?;
    bench.measure_load(server, row, &requests, 1, points)?.notes.insert(0, note);
    Ok(())
}

/// Creates resources, and changes each several times.
fn create_resources(server: &Server, resources: usize) -> Result<()> {
    create_type(server)?;
    let path = format!("/v1/resource/{TYPE}");
    let post = |index| server.headers.post_json(&path, &resource(index, resources));
    setup::send(server, (0..resources).map(post).collect(), setup::METADATA_CONNECTIONS)?;
    for revision in 0..REVISIONS {
        let patch = |index: usize| {
            let body = json!({ "display_name": format!("instance-{index}-{revision}") });
            server.headers.patch(&format!("{path}/{}", id(index)), body.to_string().as_bytes())
        };
        setup::send(server, (0..resources).map(patch).collect(), setup::METADATA_CONNECTIONS)?;
    }
    Ok(())
}

/// Creates a metric for each resource.
fn create_metrics(server: &Server, resources: usize) -> Result<Metrics> {
    let post = |index| {
        let body =
            json!({ "archive_policy_name": RESOURCE_POLICY, "name": METRIC, "resource_id": id(index) });
        server.headers.post_json("/v1/metric", &body)
    };
    let requests = Requests::listed((0..resources).map(post).collect());
    Ok(Metrics::Ids(setup::create_metrics_by(server, &requests, resources)?.0))
}

/// Number of points per group in an answer.
fn aggregated_points(answer: &[u8]) -> Result<Vec<usize>> {
    let answer: Value = serde_json::from_slice(answer)?;
    let points = |answer: &Value| answer["measures"]["aggregated"].as_array().map_or(0, Vec::len);
    Ok(match answer.as_array() {
        Some(groups) => groups.iter().map(|group| points(&group["measures"])).collect(),
        None => vec![points(&answer)],
    })
}
