//! One sample: a fresh server, metrics that already have measures, then timed work.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{
    body::{START_MS, Span, Values},
    context::Context,
    load::{Requests, Until},
    measurement::Work,
    peers::{Peer, Server},
    rows::{
        batch::{self, Metrics},
        process::{self, Push},
        setup,
    },
};

/// Metrics per call; each gets one measure, as if polled.
const BATCH_MAX: usize = 1_000;
const CONNECTIONS: usize = 4;
/// Wait for background work before memory and disk are read.
const REST: Duration = Duration::from_secs(2);
/// Keeps all points.
const POLICY: &str = "gnudi-bench-growth";

/// The work and its cost.
#[derive(Debug)]
pub struct Sample {
    pub work: Work,
    /// When idle, after the work.
    pub memory_bytes: f64,
    pub disk_bytes: f64,
    /// Median time to read a metric's last hour.
    pub read: Option<Duration>,
}

/// On a server with these lines of configuration and so many metrics, each of which gets the same number of measures,
/// at least `measures` together.
pub fn on_server(context: &Context, configuration: &str, metrics: usize, measures: usize) -> Result<Sample> {
    let server = Server::start_configured(Peer::Gnudi, configuration, context)?;
    let push = Push::rounds(&server, metrics, [batch_of(metrics), 1, measures.div_ceil(metrics)])?;
    let sample = sample(&server, push.run(&server)?)?;
    push.check(&server)?;
    Ok(sample)
}

/// A server with metrics that keep all points, and fill up between samples.
pub struct Store<'a> {
    server: Server<'a>,
    metrics: Metrics,
    values: Values,
    /// Per metric.
    points: usize,
}

impl<'a> Store<'a> {
    pub fn new(context: &'a Context, metrics: usize) -> Result<Self> {
        let server = Server::start(Peer::Gnudi, context)?;
        setup::create_policy(&server, &setup::policy(POLICY, &[(60, 10 * 365 * 24 * 60)]))?;
        let metrics = batch::metrics(&server, POLICY, metrics)?;
        Ok(Store { server, metrics, values: Values::new(1), points: 0 })
    }

    /// Fills up to this number of points, then takes a sample with at least `measures`.
    pub fn at_points(&mut self, points: usize, measures: usize) -> Result<Sample> {
        const FILL: usize = 1_000;
        let metrics = self.metrics.len();
        while self.points < points {
            let count = FILL.min(points - self.points);
            let requests = Requests::Listed(self.requests(1, count));
            process::until_processed(&self.server, &requests, CONNECTIONS, count * metrics)?;
        }
        let rounds = measures.div_ceil(metrics);
        let requests = (0..rounds).flat_map(|_| self.requests(batch_of(metrics), 1)).collect();
        let requests = Requests::Listed(requests);
        let work = process::until_processed(&self.server, &requests, CONNECTIONS, metrics * rounds)?;
        let mut sample = sample(&self.server, work)?;
        sample.read = Some(self.read()?);
        setup::check_counts(&self.server, self.metrics.ids(), self.points)?;
        Ok(sample)
    }

    /// The next points of every metric.
    fn requests(&mut self, batch: usize, count: usize) -> Vec<Vec<u8>> {
        let span = Span::minutes(self.points, count);
        self.points += count;
        self.metrics.requests(&self.server, batch, span, &mut self.values)
    }

    /// Reads the last hour of one metric after another.
    fn read(&self) -> Result<Duration> {
        let start = START_MS / 1_000 + (self.points as i64 - 60) * 60;
        let get = |id| {
            let path = format!("/v1/metric/{id}/measures?granularity=60&start={start}");
            self.server.headers.bare("GET", &path)
        };
        let requests = Requests::Listed(self.metrics.ids().iter().map(get).collect());
        let outcome = self.server.load(&requests, 1, Until::Count(1_000)).run();
        setup::check(&outcome)?;
        Ok(outcome.latency.percentile(0.5))
    }
}

/// Metrics per call, such that the calls of a round are a multiple of the connections: all measures of a metric use the
/// same connection.
fn batch_of(metrics: usize) -> usize {
    let calls_a_connection = metrics.div_ceil(CONNECTIONS * BATCH_MAX);
    metrics.div_ceil(CONNECTIONS * calls_a_connection)
}

/// Reads memory and disk after the work, once the server is idle.
fn sample(server: &Server, work: Work) -> Result<Sample> {
    ensure!(!server.context.stop.is_set(), "cut short");
    std::thread::sleep(REST);
    Ok(Sample {
        work,
        memory_bytes: server.probe.memory_bytes().unwrap_or(0) as f64,
        disk_bytes: server.disk_bytes().unwrap_or(0) as f64,
        read: None,
    })
}

/// What fills a metric of a policy with all that it keeps, polled by the minute: spans, each of so many measures so many seconds apart.
/// Where only hours are kept, three measures for each stand for the sixty.
#[derive(Debug)]
pub struct History {
    pub policy: &'static str,
    spans: &'static [(usize, i64)],
    /// Points of all granularities together.
    pub points_kept: usize,
}

const DAY: usize = 24 * 60;

pub const HISTORIES: [History; 3] = [
    History { policy: "low", spans: &[(30 * DAY, 60)], points_kept: 30 * DAY / 5 },
    History { policy: "medium", spans: &[(358 * 72, 1_200), (7 * DAY, 60)], points_kept: 365 * 24 + 7 * DAY },
    History {
        policy: "high",
        spans: &[(358 * 72, 1_200), (7 * DAY - 60, 60), (3_600, 1)],
        points_kept: 365 * 24 + 7 * DAY + 3_600,
    },
];

/// What the aggregates of metrics with a full history take on disk. So few metrics that the store's log takes them all in: nothing in
/// it was written twice but the heads.
pub fn history_bytes(context: &Context, history: &History, metrics: usize) -> Result<f64> {
    const PIECE: usize = 3 * DAY;
    let server = Server::start(Peer::Gnudi, context)?;
    let metrics = batch::metrics(&server, history.policy, metrics)?;
    let mut values = Values::new(1);
    let mut start_ms = START_MS;
    for &(measures, step_s) in history.spans {
        for from in (0..measures).step_by(PIECE) {
            let span = Span { start_ms, step_ms: step_s * 1_000, count: PIECE.min(measures - from) };
            start_ms += span.count as i64 * span.step_ms;
            let requests = Requests::Listed(metrics.requests(&server, 1, span, &mut values));
            process::until_processed(&server, &requests, 1, span.count * metrics.len())?;
        }
    }
    std::thread::sleep(REST);
    Ok(server.aggregates_bytes().context("the size of the store")? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_as_many_calls_of_a_round() {
        for metrics in [200, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 300_000, 1_000_000] {
            let batch = batch_of(metrics);
            let even = metrics.div_ceil(batch).is_multiple_of(CONNECTIONS);
            assert!(batch <= BATCH_MAX && even, "{metrics}: {batch}");
        }
    }
}
