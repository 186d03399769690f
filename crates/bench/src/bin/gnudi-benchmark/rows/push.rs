//! Pushes measures: 1 to 5,000 of one metric per call, over some hundred metrics, for a fixed time.
//!
//! Times advance from call to call: a metric never gets a measure older than one it has. The server's processing time
//! after the last call is reported, but is not part of the rate.

use std::ops::Range;

use anyhow::Result;
use gnudi_model::MetricId;

use super::{
    Bench, arrow,
    batch::{COLUMNS, Dialect, INFLUX, LINES},
    setup,
};
use crate::{
    body::{START_MS, Span, Values},
    load::{Requests, requests::with_length},
    measurement::{Row, Unit},
    peers::{Peer, Server},
};

#[derive(Clone, Copy)]
struct Shape {
    measures: usize,
    /// Distinct bodies, each later than the previous one: enough that times do not repeat within a run.
    steps: usize,
    connections: usize,
}

const fn step(key: &'static str, title: &'static str, shape: [usize; 3]) -> (Row, Shape) {
    let [measures, steps, connections] = shape;
    (Row::new(key, Unit::Measures, title), Shape { measures, steps, connections })
}

/// Each row with its measures per call, steps and connections.
const LADDER: [(Row, Shape); 12] = [
    step("push-1", "push, 1 measure a call, 8 connections", [1, 4096, 8]),
    step("push-1-c64", "push, 1 measure a call, 64 connections", [1, 4096, 64]),
    step("push-10", "push, 10 measures a call, 8 connections", [10, 2048, 8]),
    step("push-10-c64", "push, 10 measures a call, 64 connections", [10, 2048, 64]),
    step("push-100", "push, 100 measures a call, 8 connections", [100, 1024, 8]),
    step("push-100-c64", "push, 100 measures a call, 64 connections", [100, 1024, 64]),
    step("push-500", "push, 500 measures a call, 8 connections", [500, 512, 8]),
    step("push-1000", "push, 1,000 measures a call, 8 connections", [1000, 256, 8]),
    step("push-2000", "push, 2,000 measures a call, 8 connections", [2000, 160, 8]),
    step("push-3000", "push, 3,000 measures a call, 8 connections", [3000, 128, 8]),
    step("push-4000", "push, 4,000 measures a call, 8 connections", [4000, 112, 8]),
    step("push-5000", "push, 5,000 measures a call, 8 connections", [5000, 96, 8]),
];

pub const ROWS: [Row; LADDER.len()] = {
    let mut rows = [LADDER[0].0; LADDER.len()];
    let mut index = 1;
    while index < rows.len() {
        rows[index] = LADDER[index].0;
        index += 1;
    }
    rows
};

/// The less informative steps of the published ladder: measured when selected by name.
const BETWEEN: [&str; 4] = ["push-500", "push-2000", "push-3000", "push-4000"];

const STEP_MS: i64 = 1000;

/// Policy `low`, with raw points for 15 days.
const RAW_POLICY: &str = "gnudi-bench-low-raw";
const RAW_SECONDS: usize = 15 * 24 * 3600;
/// Measures per call of the rows that are also measured with raw points.
const WITH_RAW: [usize; 3] = [1, 100, 5000];

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let metrics = server.peer.sized(200, 100);
    let durable_limit =
        (server.peer == Peer::Limit).then(|| Server::durable_limit(server.context)).transpose()?;
    for (row, shape) in &LADDER {
        let left_out = BETWEEN.contains(&row.key) && !bench.options.only.iter().any(|only| only == row.key);
        if left_out || !bench.options.wants(row.key) {
            continue;
        }
        let mut push = Pushes { bench, server, row, shape, metrics };
        match server.peer {
            Peer::InfluxDb => push.lines(None, &server.number(metrics), &INFLUX, 4_000_000)?,
            Peer::VictoriaMetrics => push.push_columns_and_lines()?,
            _ => push.push_json_and_arrow()?,
        }
        if let Some(server) = &durable_limit {
            push.server = server;
            push.json("low", Some("durable"), Span::write_gnocchi)?;
        }
    }
    Ok(())
}

type Write = fn(Span, &mut Values, &mut Vec<u8>);

struct Pushes<'a, 'b> {
    bench: &'a mut Bench<'b>,
    server: &'a Server<'a>,
    row: &'static Row,
    shape: &'static Shape,
    metrics: usize,
}

impl Pushes<'_, '_> {
    fn push_json_and_arrow(&mut self) -> Result<()> {
        let (server, Shape { measures, connections, .. }) = (self.server, *self.shape);
        self.json("low", None, Span::write_gnocchi)?;
        if measures == 5000 && server.peer != Peer::Gnocchi {
            self.json("low", Some("compact"), Span::write_gnocchi_compact)?;
        }
        if WITH_RAW.contains(&measures) && connections == 8 && server.peer.is_gnudi() {
            let five_minutes_for_a_month = [(300, 8640)];
            let policy = setup::policy(RAW_POLICY, &five_minutes_for_a_month);
            setup::create_policy(server, &setup::with_raw(RAW_SECONDS, policy))?;
            self.json(RAW_POLICY, Some("raw"), Span::write_gnocchi)?;
        }
        if measures == 5000 && server.peer.is_gnudi() {
            self.arrow()?;
        }
        Ok(())
    }

    fn json(&mut self, policy: &str, variant: Option<&'static str>, write: Write) -> Result<()> {
        // Fresh metrics: measures of an earlier row would make these late.
        let (ids, _) = setup::create_metrics(self.server, policy, self.metrics)?;
        let spans = (0..self.shape.steps).map(|step| self.span(step));
        let requests = grid(self.server, &ids, spans, write);
        self.measure(variant, &requests)?;
        self.note_processing()
    }

    /// The same measures as Arrow streams.
    fn arrow(&mut self) -> Result<()> {
        let (ids, _) = setup::create_metrics(self.server, "low", self.metrics)?;
        let ids = ids.iter().map(|id| id.to_string().into_bytes()).collect();
        let spans = (0..self.shape.steps).map(|step| self.span(step));
        let requests = arrow::pushes(self.server, ids, spans)?;
        self.measure(Some(arrow::VARIANT), &requests)?;
        self.note_processing()
    }

    fn push_columns_and_lines(&mut self) -> Result<()> {
        let metrics = self.server.number(self.metrics);
        self.measure(Some("columns"), &self.columns(metrics.clone()))?;
        if self.shape.measures >= 100 {
            self.lines(Some("lines"), &metrics, &LINES, 1_000_000)?;
        }
        setup::check_none_ignored(self.server)
    }

    fn columns(&self, metrics: Range<usize>) -> Requests {
        let mut values = Values::new(1);
        let names: Vec<Vec<u8>> = metrics.map(|metric| (COLUMNS.name)(metric).into_bytes()).collect();
        let body = |step| {
            let mut behind = Vec::new();
            self.span(step).write_columns("", &mut values, &mut behind);
            [Vec::new(), behind]
        };
        Requests::named(&COLUMNS.open_head(self.server), names, (0..self.shape.steps).map(body))
    }

    /// A line per measure, which names its metric. Over all requests `measures_max`: they share no memory, so there are
    /// fewer of them, and times may repeat (late for InfluxDB, to which repeated measures are expensive).
    fn lines(
        &mut self,
        variant: Option<&'static str>,
        metrics: &Range<usize>,
        dialect: &Dialect,
        measures_max: usize,
    ) -> Result<()> {
        const REQUESTS_MAX: usize = 200_000;
        let mut values = Values::new(1);
        let request = |index| {
            let metric = metrics.start + index % metrics.len();
            dialect.request(self.server, metric..metric + 1, self.span(index / metrics.len()), &mut values)
        };
        let count = REQUESTS_MAX.min(measures_max / self.shape.measures);
        self.measure(variant, &Requests::listed((0..count).map(request).collect()))
    }

    fn measure(&mut self, variant: Option<&'static str>, requests: &Requests) -> Result<()> {
        let (server, shape) = (self.server, self.shape);
        let Shape { connections, measures, .. } = *shape;
        let row = Row { variant, ..*self.row };
        let measurement = self.bench.measure_load(server, &row, requests, connections, measures)?;
        let is_sensitive = server.peer.is_gnudi() || server.peer == Peer::InfluxDb;
        if is_sensitive && measurement.calls > requests.distinct() {
            measurement.notes.insert(0, "time began again: measures came late".to_owned());
        }
        Ok(())
    }

    /// Notes how long the server processed after the last call. Gnocchi takes minutes: it is not waited for.
    fn note_processing(&mut self) -> Result<()> {
        if !self.server.peer.is_gnudi() {
            return Ok(());
        }
        let waited = setup::wait_processed(self.server)?.as_secs_f64();
        let last = self.bench.results.measurements.last_mut().expect("a row was just measured");
        let rate = crate::table::short(last.done / (last.seconds + waited));
        last.notes.push(format!("all processed {waited:.2} s later: {rate}/s"));
        Ok(())
    }

    fn span(&self, step: usize) -> Span {
        let measures = self.shape.measures;
        Span { start_ms: START_MS + (step * measures) as i64 * STEP_MS, step_ms: STEP_MS, count: measures }
    }
}

/// A call for each span and each metric, to the metric's own URL.
pub fn grid(server: &Server, ids: &[MetricId], spans: impl Iterator<Item = Span>, write: Write) -> Requests {
    let mut values = Values::new(1);
    let head = |id| server.headers.open_json_head(&format!("/v1/metric/{id}/measures"));
    let body = |span| {
        let mut body = Vec::new();
        write(span, &mut values, &mut body);
        with_length(&body, 0)
    };
    Requests::grid(ids.iter().map(head).collect(), spans.map(body).collect())
}
