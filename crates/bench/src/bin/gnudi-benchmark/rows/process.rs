//! Measures pushed and processed: from the first call until the backlog is empty.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{
    Bench,
    batch::{self, Metrics},
    setup,
};
use crate::{
    body::{Span, Values},
    load::{Order, Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
    table::seconds,
};

pub const FOLD_ROWS: [Row; 1] = [Row::new(
    "process",
    Unit::Measures,
    "20,000 metrics x 60 points (medium), batches of 100 metrics, 4 connections, until processed",
)];

pub const STREAM_ROWS: [Row; 2] = [
    Row::new(
        "stream",
        Unit::Measures,
        "single measures over 20,000 metrics (medium), batches of 1,000 metrics, 4 connections, until processed",
    ),
    Row::new(
        "stream-single",
        Unit::Measures,
        "single measures over 20,000 metrics (medium), a call each, 64 connections, until processed",
    ),
];

const POLICY: &str = "medium";
const POINTS: usize = 60;
const FOLD_BATCH: usize = 100;
const STREAM_BATCH: usize = 1_000;
const CONNECTIONS: usize = 4;
const SINGLE_CONNECTIONS: usize = 64;

pub fn run_fold(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let metrics = batch::metrics(bench, server, POLICY, bench.counts(server.peer).process_metrics)?;
    let requests = fold_requests(&metrics, server, POINTS);
    let measures = metrics.len() * POINTS;
    bench.measure(server, &FOLD_ROWS[0], None, |bench| {
        let work = until_processed(bench, server, &requests, CONNECTIONS, measures)?;
        Ok(work.note(format!("{} metrics", metrics.len())))
    })?;
    setup::check_counts(bench, server, metrics.ids(), POINTS)
}

pub fn run_stream(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let [batched, single] = &STREAM_ROWS;
    for (row, rounds, connections) in [
        (batched, counts.stream_rounds, CONNECTIONS),
        (single, counts.stream_single_rounds, SINGLE_CONNECTIONS),
    ] {
        if !bench.options.wants(row.key) {
            continue;
        }
        let metrics = batch::metrics(bench, server, POLICY, counts.stream_metrics)?;
        let requests = match row.key {
            "stream" => stream_requests(&metrics, bench, server, rounds, connections),
            _ => single_requests(&metrics, server, rounds),
        };
        bench.measure(server, row, None, |bench| {
            let work = until_processed(bench, server, &requests, connections, metrics.len() * rounds)?;
            Ok(work.note(format!("{} measures over {} metrics", metrics.len() * rounds, metrics.len())))
        })?;
        setup::check_counts(bench, server, metrics.ids(), rounds)?;
    }
    Ok(())
}

/// All points of a metric in one call, of many metrics each.
pub fn fold_requests(metrics: &Metrics, server: &Server, points: usize) -> Requests {
    Requests::Listed(metrics.requests(server, FOLD_BATCH, Span::minutes(0, points), &mut Values::new(1)))
}

/// One measure of each metric in turn, many metrics per call.
pub fn stream_requests(
    metrics: &Metrics,
    bench: &Bench,
    server: &Server,
    rounds: usize,
    connections: usize,
) -> Requests {
    let count = metrics.len();
    // The batches of a round are a multiple of the connections, so that all measures of a metric use the same one.
    let batches = count.div_ceil(STREAM_BATCH * connections) * connections;
    let batches = batches.min(count / connections * connections);
    let mut values = Values::new(1);
    let mut requests = Vec::with_capacity(rounds * batches);
    for round in 0..rounds {
        // An interrupted run would not send the rest.
        if round > 0 && bench.context.stop.is_set() {
            break;
        }
        let bound = |index: usize| index * count / batches;
        requests.extend((0..batches).map(|index| {
            metrics.request(server, bound(index)..bound(index + 1), Span::minutes(round, 1), &mut values)
        }));
    }
    Requests::Listed(requests)
}

/// The same with a call per measure: to the metric's own URL, if it has one.
fn single_requests(metrics: &Metrics, server: &Server, rounds: usize) -> Requests {
    let mut values = Values::new(1);
    let requests = (0..rounds).flat_map(|round| {
        let span = Span::minutes(round, 1);
        let mut call = |id| {
            let mut body = Vec::new();
            span.write_gnocchi(&mut values, &mut body);
            server.headers.post(&format!("/v1/metric/{id}/measures"), &body)
        };
        match metrics {
            Metrics::Ids(ids) => ids.iter().map(&mut call).collect(),
            Metrics::Numbered(_) => metrics.requests(server, 1, span, &mut values),
        }
    });
    Requests::Listed(requests.collect())
}

/// Measures pushed until processed, and their cost.
#[derive(Clone, Copy, Debug)]
pub struct Processed {
    /// Fewer than planned if the run was interrupted.
    pub measures: f64,
    /// Until the last response.
    pub pushed: Duration,
    /// Until the backlog was empty.
    pub elapsed: Duration,
    /// Of the server, during the work.
    pub cpu_seconds: Option<f64>,
}

impl Processed {
    /// Measures accepted per second.
    pub fn accepted(&self) -> f64 {
        self.measures / self.pushed.as_secs_f64()
    }

    /// Measures processed per second.
    pub fn rate(&self) -> f64 {
        self.measures / self.elapsed.as_secs_f64()
    }

    /// From the last response until the backlog was empty.
    pub fn drained_after(&self) -> Duration {
        self.elapsed.saturating_sub(self.pushed)
    }
}

/// As [`until_processed`], with the server's processor time.
pub fn processed(
    bench: &Bench,
    server: &Server,
    requests: &Requests,
    connections: usize,
    measures: usize,
) -> Result<Processed> {
    let before = server.probe.cpu_seconds();
    let Work { done: measures, elapsed, outcome, .. } =
        until_processed(bench, server, requests, connections, measures)?;
    let cpu_seconds = server.probe.cpu_seconds().zip(before).map(|(after, before)| after - before);
    Ok(Processed { measures, pushed: outcome.elapsed, elapsed, cpu_seconds })
}

/// Sends all requests, request `i` over connection `i` modulo their number, and waits until the server has processed
/// them.
pub fn until_processed(
    bench: &Bench,
    server: &Server,
    requests: &Requests,
    connections: usize,
    measures: usize,
) -> Result<Work> {
    let mut load = bench.load(server, requests, connections, Until::Count(requests.distinct()));
    // A measure overtaken by a later one may be too late to count.
    load.order = Order::Lanes;
    let start = Instant::now();
    let outcome = load.run();
    setup::check(&outcome)?;
    let (pushed, waited) = (seconds(outcome.elapsed), seconds(setup::wait_processed(bench, server)?));
    // An interrupted load has sent only a part.
    let share = outcome.calls as f64 / requests.distinct() as f64;
    let work = Work { done: measures as f64 * share, elapsed: start.elapsed(), outcome, notes: Vec::new() };
    Ok(work.note(match server.peer {
        Peer::InfluxDb | Peer::Prometheus => format!("accepted in {pushed}: nothing is processed"),
        Peer::VictoriaMetrics => {
            format!("accepted in {pushed}, made searchable {waited} later: nothing is processed")
        }
        Peer::Limit | Peer::Gnudi | Peer::GnudiOs | Peer::Gnocchi => {
            format!("pushed in {pushed}, processed {waited} later")
        }
    }))
}
