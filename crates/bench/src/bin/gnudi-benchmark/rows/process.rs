//! Measures pushed and processed: from the first call until the backlog is empty.

use std::time::Instant;

use anyhow::Result;

use super::{
    Bench,
    batch::{self, Metrics},
    setup,
};
use crate::{
    body::{Span, Values},
    findings::Value,
    load::{Order, Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
    table::shown,
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

/// Whether throughput depends on the number of metrics: as many measures over few metrics and over many.
pub const MANY_ROWS: [Row; 2] = [
    Row::new(
        "many-few",
        Unit::Measures,
        "5 measures a metric and call over 1,000 metrics (medium), until processed",
    ),
    Row::new("many", Unit::Measures, "the same number of measures over many metrics, until processed"),
];

const POLICY: &str = "medium";
const POINTS: usize = 60;
const FOLD_BATCH: usize = 100;
const STREAM_BATCH: usize = 1_000;
/// Connections that push batches.
pub const CONNECTIONS: usize = 4;
const SINGLE_CONNECTIONS: usize = 64;
const FEW_METRICS: usize = 1_000;
const MANY_METRICS: usize = 50_000;
const MANY_MEASURES: usize = 1_000_000;
const MANY_POINTS: usize = 5;
const MANY_BATCH: usize = 50;

pub fn run_fold(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let metrics = server.peer.sized(20_000, 200);
    let push = Push::fold(server, metrics, POINTS)?;
    push.measure(bench, server, &FOLD_ROWS[0], format!("{metrics} metrics"))
}

pub fn run_stream(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let metrics = server.peer.sized(20_000, 200);
    for row in &STREAM_ROWS {
        if !bench.options.wants(row.key) {
            continue;
        }
        let push = match row.key {
            "stream" => Push::stream(server, metrics, server.peer.sized(60, 10))?,
            _ => Push::singles(server, metrics, server.peer.sized(5, 1))?,
        };
        push.measure(bench, server, row, format!("{} measures over {metrics} metrics", push.measures))?;
    }
    Ok(())
}

/// Every metric already has measures before the clock starts.
pub fn run_many(bench: &mut Bench, server: &mut Server) -> Result<()> {
    // It would take hours.
    if server.peer == Peer::Gnocchi {
        return Ok(());
    }
    let mut rates = Vec::new();
    for (row, metrics) in MANY_ROWS.iter().zip([FEW_METRICS, MANY_METRICS]) {
        let rounds = MANY_MEASURES / (metrics * MANY_POINTS);
        let push = Push::rounds(server, metrics, [MANY_BATCH, MANY_POINTS, rounds])?;
        push.measure(bench, server, row, format!("{} measures over {metrics} metrics", push.measures))?;
        let measurement = bench.results.measurements.last_mut().expect("a row was just measured");
        rates.push(measurement.figure());
        if let [few, many] = rates[..] {
            let percent = 100.0 * many / few;
            measurement.notes.push(format!("{percent:.0} % of the rate with {FEW_METRICS}"));
        }
    }
    Ok(())
}

pub struct Push {
    pub metrics: Metrics,
    pub requests: Requests,
    pub connections: usize,
    pub measures: usize,
    /// Measures that each metric then holds.
    pub held: usize,
}

impl Push {
    /// All `points` of a metric in one call, `FOLD_BATCH` metrics per call.
    pub fn fold(server: &Server, metrics: usize, points: usize) -> Result<Self> {
        let metrics = batch::metrics(server, POLICY, metrics)?;
        let span = Span::minutes(0, points);
        let requests = metrics.requests(server, FOLD_BATCH, span, &mut Values::new(1));
        Ok(Push::new(metrics, requests, CONNECTIONS, points))
    }

    /// In each round one measure of every metric, up to `STREAM_BATCH` metrics per call.
    pub fn stream(server: &Server, metrics: usize, rounds: usize) -> Result<Self> {
        let connections = CONNECTIONS.min(metrics);
        // The batches of a round are a multiple of the connections, so that all measures of a metric use the same one.
        let batches = metrics.div_ceil(STREAM_BATCH * connections) * connections;
        let batches = batches.min(metrics / connections * connections);
        let bound = |index: usize| index * metrics / batches;
        let metrics = batch::metrics(server, POLICY, metrics)?;
        let mut values = Values::new(1);
        let mut requests = Vec::with_capacity(rounds * batches);
        for round in 0..rounds {
            // An interrupted run would not send the rest.
            if round > 0 && server.context.stop.is_set() {
                break;
            }
            requests.extend((0..batches).map(|index| {
                let range = bound(index)..bound(index + 1);
                metrics.request(server, range, Span::minutes(round, 1), &mut values)
            }));
        }
        Ok(Push::new(metrics, requests, connections, rounds))
    }

    /// [`Push::stream`] with a call per measure: to the metric's own URL, if it has one.
    fn singles(server: &Server, metrics: usize, rounds: usize) -> Result<Self> {
        let metrics = batch::metrics(server, POLICY, metrics)?;
        let mut values = Values::new(1);
        let mut requests = Vec::new();
        for span in (0..rounds).map(|round| Span::minutes(round, 1)) {
            match &metrics {
                Metrics::Ids(ids) => requests.extend(ids.iter().map(|id| {
                    let mut body = Vec::new();
                    span.write_gnocchi(&mut values, &mut body);
                    server.headers.post(&format!("/v1/metric/{id}/measures"), &body)
                })),
                Metrics::Numbered(_) => requests.extend(metrics.requests(server, 1, span, &mut values)),
            }
        }
        Ok(Push::new(metrics, requests, SINGLE_CONNECTIONS, rounds))
    }

    /// In each round `points` of every metric, `batch` metrics per call. A first round is sent at once and not timed,
    /// so that every metric already has measures. The batches of a round must be a multiple of the connections.
    pub fn rounds(server: &Server, metrics: usize, [batch, points, rounds]: [usize; 3]) -> Result<Self> {
        let metrics = batch::metrics(server, POLICY, metrics)?;
        let mut values = Values::new(1);
        let mut round = |round: usize| {
            metrics.requests(server, batch, Span::minutes(round * points, points), &mut values)
        };
        let first = Requests::listed(round(0));
        until_processed(server, &first, CONNECTIONS, metrics.len() * points)?;
        let requests = (1..=rounds).flat_map(round).collect();
        let push = Push::new(metrics, requests, CONNECTIONS, rounds * points);
        Ok(Push { held: (rounds + 1) * points, ..push })
    }

    /// Requests that have `each` measures of every metric. The metrics have none yet.
    pub fn new(metrics: Metrics, requests: Vec<Vec<u8>>, connections: usize, each: usize) -> Self {
        let measures = metrics.len() * each;
        Push { metrics, requests: Requests::listed(requests), connections, measures, held: each }
    }

    /// Sends all measures and waits until they are processed.
    pub fn run(&self, server: &Server) -> Result<Work> {
        until_processed(server, &self.requests, self.connections, self.measures)
    }

    /// Checks that the metrics hold the measures.
    pub fn check(&self, server: &Server) -> Result<()> {
        setup::check_counts(server, self.metrics.ids(), self.held)
    }

    /// Runs, checks, and records the figure of a row.
    pub fn measure(&self, bench: &mut Bench, server: &Server, row: &Row, note: String) -> Result<()> {
        bench.measure(server, row, || Ok(self.run(server)?.note(note)))?;
        self.check(server)
    }
}

/// Sends all requests, request `i` over connection `i` modulo their number, and waits until the server has processed
/// them.
pub fn until_processed(
    server: &Server,
    requests: &Requests,
    connections: usize,
    measures: usize,
) -> Result<Work> {
    let mut load = server.load(requests, connections, Until::Count(requests.distinct()));
    // A measure overtaken by a later one may be too late to count.
    load.order = Order::Lanes;
    let before = server.probe.cpu_seconds();
    let start = Instant::now();
    let outcome = load.run();
    setup::check(&outcome)?;
    let waited = setup::wait_processed(server)?;
    let [pushed, waited] = [outcome.elapsed, waited].map(|time| shown(&Value::seconds(time)));
    // An interrupted load has sent only a part.
    let share = outcome.calls as f64 / requests.distinct() as f64;
    let (done, elapsed) = (measures as f64 * share, start.elapsed());
    let cpu_seconds = server.probe.cpu_seconds().zip(before).map(|(after, before)| after - before);
    let work = Work { done, elapsed, outcome, cpu_seconds, notes: Vec::new() };
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
