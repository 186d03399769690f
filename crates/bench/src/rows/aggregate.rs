//! Aggregation across metrics: a day by the minute of many metrics, its mean by five minutes.

use anyhow::{Result, ensure};
use gnudi_client::{ArchivePolicySpec, DefinitionSpec};
use gnudi_model::MetricId;

use super::{Bench, setup};
use crate::{
    body::{START_MS, Span, Values},
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
};

pub const ROWS: [Row; 1] =
    [Row { key: "aggregate", title: "mean of many metrics over a day, 1 connection", unit: Unit::Points }];

const POLICY: &str = "gnudi-bench-day";
/// A day by the minute.
const POINTS: usize = 24 * 60;
const GROUP_SECONDS: usize = 300;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let ids = fill(bench, server, counts.aggregate_metrics)?;
    let references: Vec<_> = ids.iter().map(|id| serde_json::json!([id, "mean"])).collect();
    let mut metric = vec![serde_json::json!("metric")];
    metric.extend(references);
    let operations = serde_json::json!(["aggregate", "mean", ["resample", "mean", GROUP_SECONDS, metric]]);
    let body = serde_json::json!({ "operations": operations }).to_string();
    let path = "/v1/aggregates?granularity=60";
    let requests = Requests::Listed(vec![server.headers.post(path, body.as_bytes())]);
    check_answer(bench, server, &requests)?;
    let points = ids.len() * POINTS;
    let until = Until::Elapsed(counts.load);
    bench.measure(server, &ROWS[0], None, |bench| {
        let outcome = bench.load(server, &requests, 1, until).run();
        Ok(Work::of(outcome, points).note(format!("{} metrics of {POINTS} points", ids.len())))
    })?;
    Ok(())
}

/// Metrics that hold a day each.
fn fill(bench: &Bench, server: &Server, metrics: usize) -> Result<Vec<MetricId>> {
    let client = server.client()?;
    let policy = ArchivePolicySpec {
        name: POLICY.to_owned(),
        definition: vec![DefinitionSpec {
            granularity: Some("60".to_owned()),
            points: Some(7 * POINTS as u64),
            ..DefinitionSpec::default()
        }],
        ..ArchivePolicySpec::default()
    };
    // On a server that was measured before, the policy is there.
    match bench.context.runtime.block_on(client.create_archive_policy(&policy)) {
        Err(error) if error.status() != Some(409) => return Err(error.into()),
        _ => {}
    }
    let (ids, _) = setup::create_metrics(bench, server, POLICY, metrics)?;
    let span = Span { start_ms: START_MS, step_ms: 60_000, count: POINTS };
    let mut values = Values::new(1);
    let requests = ids.iter().map(|id| {
        let mut body = Vec::new();
        span.write_gnocchi(&mut values, &mut body);
        server.headers.post(&format!("/v1/metric/{id}/measures"), &body)
    });
    let requests = Requests::Listed(requests.collect());
    setup::check(&bench.load(server, &requests, 1, Until::Count(ids.len() as u64)).run())?;
    setup::wait_processed(bench, server)?;
    Ok(ids)
}

fn check_answer(bench: &Bench, server: &Server, requests: &Requests) -> Result<()> {
    if server.peer == Peer::Limit {
        return Ok(());
    }
    let mut load = bench.load(server, requests, 1, Until::Count(1));
    load.keep_bodies = true;
    let outcome = load.run();
    setup::check(&outcome)?;
    let answer: serde_json::Value = serde_json::from_slice(&outcome.bodies[0].1)?;
    let found = answer["measures"]["aggregated"].as_array().map_or(0, Vec::len);
    ensure!(found == POINTS * 60 / GROUP_SECONDS, "{found} points aggregated");
    Ok(())
}
