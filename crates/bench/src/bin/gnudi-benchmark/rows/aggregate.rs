//! Aggregation across metrics: the mean by five minutes of a day by the minute, over many metrics.

use anyhow::{Result, ensure};

use super::{Bench, batch, setup};
use crate::{
    body::Span,
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
};

pub const ROWS: [Row; 1] =
    [Row::new("aggregate", Unit::Points, "mean of many metrics over a day, 1 connection")];

const POLICY: &str = "gnudi-bench-day";
/// A day by the minute.
const POINTS: usize = 24 * 60;
const GROUP_SECONDS: usize = 300;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    setup::create_policy(server, &setup::policy(POLICY, &[(60, 7 * POINTS)]))?;
    let metrics = batch::metrics(server, POLICY, counts.aggregate_metrics)?;
    // A day each.
    metrics.fill(server, &[Span::minutes(0, POINTS)])?;
    let ids = metrics.ids();
    let references = ids.iter().map(|id| serde_json::json!([id, "mean"]));
    let metric: Vec<_> = std::iter::once("metric".into()).chain(references).collect();
    let operations = serde_json::json!(["aggregate", "mean", ["resample", "mean", GROUP_SECONDS, metric]]);
    let body = serde_json::json!({ "operations": operations }).to_string();
    let path = "/v1/aggregates?granularity=60";
    let requests = Requests::Listed(vec![server.headers.post(path, body.as_bytes())]);
    check_answer(server, &requests)?;
    let points = ids.len() * POINTS;
    let until = Until::Elapsed(counts.load);
    bench.measure(server, &ROWS[0], None, || {
        let outcome = server.load(&requests, 1, until).run();
        Ok(Work::of(outcome, points).note(format!("{} metrics of {POINTS} points", ids.len())))
    })?;
    Ok(())
}

fn check_answer(server: &Server, requests: &Requests) -> Result<()> {
    if server.peer == Peer::Limit {
        return Ok(());
    }
    let found = setup::aggregated_points(&setup::first_answer(server, requests)?.0)?;
    ensure!(found == [POINTS * 60 / GROUP_SECONDS], "{found:?} points aggregated");
    Ok(())
}
