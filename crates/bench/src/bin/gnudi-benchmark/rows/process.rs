//! Measures pushed and wholly processed: from the first call until nothing waits.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, batch, setup};
use crate::{
    body::{START_MS, Span, Values},
    load::{Order, Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
};

pub const FOLD_ROWS: [Row; 1] = [Row {
    key: "process",
    title: "20,000 metrics x 60 points (medium), batches of 100 metrics, 4 connections, until processed",
    unit: Unit::Measures,
}];

pub const STREAM_ROWS: [Row; 2] = [
    Row {
        key: "stream",
        title: "single measures over 20,000 metrics (medium), batches of 1,000 metrics, 4 connections, until processed",
        unit: Unit::Measures,
    },
    Row {
        key: "stream-single",
        title: "single measures over 20,000 metrics (medium), a call each, 64 connections, until processed",
        unit: Unit::Measures,
    },
];

const POLICY: &str = "medium";
const MINUTE_MS: i64 = 60_000;
const POINTS: usize = 60;
const FOLD_BATCH: usize = 100;
const STREAM_BATCH: usize = 1_000;
const CONNECTIONS: usize = 4;
const SINGLE_CONNECTIONS: usize = 64;

pub fn run_fold(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let metrics = batch::metrics(bench, server, POLICY, bench.counts(server.peer).process_metrics)?;
    let span = Span { start_ms: START_MS, step_ms: MINUTE_MS, count: POINTS };
    let requests = metrics.requests(server, FOLD_BATCH, span, &mut Values::new(1));
    let measures = metrics.len() * POINTS;
    bench.measure(server, &FOLD_ROWS[0], None, |bench| {
        let work = until_processed(bench, server, requests, CONNECTIONS, measures)?;
        Ok(work.note(format!("{} metrics", metrics.len())))
    })?;
    setup::check_counts(bench, server, metrics.ids(), POINTS)
}

pub fn run_stream(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let [batched, single] = &STREAM_ROWS;
    for (row, rounds, batch, connections) in [
        (batched, counts.stream_rounds, STREAM_BATCH, CONNECTIONS),
        (single, counts.stream_single_rounds, 1, SINGLE_CONNECTIONS),
    ] {
        if !bench.options.wants(row.key) {
            continue;
        }
        let metrics = batch::metrics(bench, server, POLICY, counts.stream_metrics)?;
        let mut values = Values::new(1);
        let requests = (0..rounds as i64)
            .flat_map(|round| {
                let span = Span { start_ms: START_MS + round * MINUTE_MS, step_ms: MINUTE_MS, count: 1 };
                match (batch, &metrics) {
                    (1, batch::Metrics::Ids(ids)) => single_calls(server, ids, span, &mut values),
                    _ => metrics.requests(server, batch, span, &mut values),
                }
            })
            .collect();
        bench.measure(server, row, None, |bench| {
            let work = until_processed(bench, server, requests, connections, metrics.len() * rounds)?;
            Ok(work.note(format!("{} measures over {} metrics", metrics.len() * rounds, metrics.len())))
        })?;
        setup::check_counts(bench, server, metrics.ids(), rounds)?;
    }
    Ok(())
}

/// A POST to each metric's own URL.
fn single_calls(
    server: &Server,
    ids: &[gnudi_model::MetricId],
    span: Span,
    values: &mut Values,
) -> Vec<Vec<u8>> {
    ids.iter()
        .map(|id| {
            let mut body = Vec::new();
            span.write_gnocchi(values, &mut body);
            server.headers.post(&format!("/v1/metric/{id}/measures"), &body)
        })
        .collect()
}

/// Sends all requests, request `i` by connection `i` modulo their number, and waits until the server has processed what they brought.
pub fn until_processed(
    bench: &Bench,
    server: &Server,
    requests: Vec<Vec<u8>>,
    connections: usize,
    measures: usize,
) -> Result<Work> {
    let requests = Requests::Listed(requests);
    let mut load = bench.load(server, &requests, connections, Until::Count(requests.distinct()));
    // A measure that a later one overtakes may be too late to count.
    load.order = Order::Lanes;
    let start = Instant::now();
    let outcome = load.run();
    setup::check(&outcome)?;
    let pushed = outcome.elapsed;
    let waited = setup::wait_processed(bench, server)?;
    // A load that was told to stop has sent a part.
    let share = outcome.calls as f64 / requests.distinct() as f64;
    let work = Work { done: measures as f64 * share, elapsed: start.elapsed(), outcome, notes: Vec::new() };
    Ok(work.note(match server.peer {
        Peer::InfluxDb => format!("accepted in {}: nothing is processed", seconds(pushed)),
        Peer::VictoriaMetrics => {
            format!(
                "accepted in {}, made searchable {} later: nothing is processed",
                seconds(pushed),
                seconds(waited)
            )
        }
        Peer::Limit | Peer::Gnudi | Peer::GnudiOs | Peer::Gnocchi => {
            format!("pushed in {}, processed {} later", seconds(pushed), seconds(waited))
        }
    }))
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
