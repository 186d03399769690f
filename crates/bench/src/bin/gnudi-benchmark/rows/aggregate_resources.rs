//! Aggregation across the metrics of all resources found by a search, with former revisions: the mean by five minutes
//! of a day, over all and by a group.

use anyhow::{Result, ensure};
use gnudi_model::MetricId;

use super::{
    Bench,
    batch::Metrics,
    resources::{TYPE, create_type, id, resource},
    setup,
};
use crate::{
    body::{Span, Values},
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
};

pub const ROWS: [Row; 2] = [
    Row::new(
        "aggregate-resources",
        Unit::Points,
        "mean of a metric of many resources over a day, 1 connection",
    ),
    Row::new("aggregate-groups", Unit::Points, "the same by flavor, in 20 groups"),
];

const POLICY: &str = "gnudi-bench-day-5min";
const METRIC: &str = "cpu";
const GRANULARITY_SECONDS: u32 = 300;
/// A day.
const POINTS: usize = 24 * 3600 / GRANULARITY_SECONDS as usize;
/// Former revisions per resource.
const REVISIONS: usize = 2;
/// Metrics per request of measures.
const BATCH_METRICS: usize = 50;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let resources = counts.aggregate_resources;
    setup::create_policy(server, &setup::policy(POLICY, &[(GRANULARITY_SECONDS, 7 * POINTS)]))?;
    create_resources(server, resources)?;
    let metrics = Metrics::Ids(create_metrics(server, resources)?);
    let span = Span { step_ms: i64::from(GRANULARITY_SECONDS) * 1000, ..Span::minutes(0, POINTS) };
    let filled = metrics.requests(server, BATCH_METRICS, span, &mut Values::new(1));
    setup::send(server, filled, 4)?;
    setup::wait_processed(server)?;
    for (row, groupby) in ROWS.iter().zip(["", "&groupby=flavor"]) {
        if !bench.options.wants(row.key) {
            continue;
        }
        let path = format!("/v1/aggregates?granularity={GRANULARITY_SECONDS}{groupby}");
        let body = serde_json::json!({
            "operations": format!("(aggregate mean (metric {METRIC} mean))"), "search": {}, "resource_type": TYPE,
        });
        let requests = Requests::Listed(vec![server.headers.post(&path, body.to_string().as_bytes())]);
        check_answer(server, &requests)?;
        let until = Until::Elapsed(counts.load);
        bench.measure(server, row, None, || {
            let outcome = server.load(&requests, 1, until).run();
            let note =
                format!("{resources} resources with {REVISIONS} former revisions, {POINTS} points each");
            Ok(Work::of(outcome, resources * POINTS).note(note))
        })?;
    }
    Ok(())
}

/// Creates resources, and changes each several times.
fn create_resources(server: &Server, resources: usize) -> Result<()> {
    create_type(server)?;
    let path = format!("/v1/resource/{TYPE}");
    let post = |index| server.headers.post(&path, resource(index, resources).as_bytes());
    setup::send(server, (0..resources).map(post).collect(), setup::METADATA_CONNECTIONS)?;
    for revision in 0..REVISIONS {
        let patch = |index: usize| {
            let body = serde_json::json!({ "display_name": format!("instance-{index}-{revision}") });
            server.headers.patch(&format!("{path}/{}", id(index)), body.to_string().as_bytes())
        };
        setup::send(server, (0..resources).map(patch).collect(), setup::METADATA_CONNECTIONS)?;
    }
    Ok(())
}

/// Creates a metric for each resource.
fn create_metrics(server: &Server, resources: usize) -> Result<Vec<MetricId>> {
    let post = |index| {
        let body =
            serde_json::json!({ "archive_policy_name": POLICY, "name": METRIC, "resource_id": id(index) });
        server.headers.post("/v1/metric", body.to_string().as_bytes())
    };
    let requests = Requests::Listed((0..resources).map(post).collect());
    Ok(setup::create_metrics_by(server, &requests, resources)?.0)
}

fn check_answer(server: &Server, requests: &Requests) -> Result<()> {
    if server.peer == Peer::Limit {
        return Ok(());
    }
    let found = setup::aggregated_points(&setup::first_answer(server, requests)?.0)?;
    ensure!(!found.is_empty() && found.iter().all(|found| *found == POINTS), "{found:?} points aggregated");
    Ok(())
}
