//! Pushes measures: 1 to 5,000 of one metric per call, over some hundred metrics, for a fixed time.
//!
//! Times advance from call to call: a metric never gets a measure older than one it has. The server's processing time
//! after the last call is reported, but is not part of the rate.

use std::ops::Range;

use anyhow::Result;

use super::{Bench, arrow, counts::Scale, setup};
use crate::{
    body::{START_MS, Span, Values},
    load::{
        Requests, Until,
        requests::{length_header, with_length},
    },
    measurement::{Row, Unit, Work},
    peers::{Peer, Server, influxdb},
};

/// The calls of a row.
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

/// The less informative steps of the published ladder: measured at full scale, or when selected by name.
const BETWEEN: [&str; 4] = ["push-500", "push-2000", "push-3000", "push-4000"];

/// A measure per second.
const STEP_MS: i64 = 1000;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    for (row, shape) in &LADDER {
        let left_out = BETWEEN.contains(&row.key)
            && bench.options.scale == Scale::Small
            && !bench.options.only.iter().any(|only| only == row.key);
        if left_out || !bench.options.wants(row.key) {
            continue;
        }
        if server.peer.has_gnocchi_api() {
            push_gnocchi(bench, server, row, shape, "low", (None, Span::write_gnocchi))?;
            if shape.measures == 5000 && server.peer != Peer::Gnocchi {
                let compact = (Some("compact"), Span::write_gnocchi_compact as Write);
                push_gnocchi(bench, server, row, shape, "low", compact)?;
            }
            if WITH_RAW.contains(&shape.measures) && shape.connections == 8 && server.peer.is_gnudi() {
                let five_minutes_for_a_month = [(300, 8640)];
                setup::create_policy_with_raw(
                    bench.context,
                    server,
                    RAW_POLICY,
                    &five_minutes_for_a_month,
                    None,
                    Some(RAW_SECONDS),
                )?;
                push_gnocchi(bench, server, row, shape, RAW_POLICY, (Some("raw"), Span::write_gnocchi))?;
            }
            if shape.measures == 5000 && server.peer.is_gnudi() {
                push_arrow(bench, server, row, shape)?;
            }
            continue;
        }
        let metrics = bench.number(bench.counts(server.peer).push_metrics);
        if server.peer == Peer::InfluxDb {
            measure(bench, server, row, shape, None, &lines(server, shape, &metrics, &INFLUX))?;
            continue;
        }
        measure(bench, server, row, shape, Some("columns"), &columns(server, shape, &metrics))?;
        if shape.measures >= 100 {
            measure(bench, server, row, shape, Some("lines"), &lines(server, shape, &metrics, &PROMETHEUS))?;
        }
        setup::check_none_ignored(bench, server)?;
    }
    Ok(())
}

/// Policy `low`, with raw points for 15 days.
const RAW_POLICY: &str = "gnudi-bench-low-raw";
const RAW_SECONDS: usize = 15 * 24 * 3600;
/// Measures per call of the rows that are also measured with raw points.
const WITH_RAW: [usize; 3] = [1, 100, 5000];

/// Writes a body.
type Write = fn(Span, &mut Values, &mut Vec<u8>);

/// Writes a body, with the name of the variant if there are several.
type Style = (Option<&'static str>, Write);

fn push_gnocchi(
    bench: &mut Bench,
    server: &Server,
    row: &Row,
    shape: &Shape,
    policy: &str,
    style: Style,
) -> Result<()> {
    // Fresh metrics: measures of an earlier row would make these late.
    let (ids, _) = setup::create_metrics(bench, server, policy, bench.counts(server.peer).push_metrics)?;
    let heads =
        ids.iter().map(|id| server.headers.open_json_head(&format!("/v1/metric/{id}/measures"))).collect();
    measure(bench, server, row, shape, style.0, &Requests::Grid { heads, bodies: bodies(shape, style.1) })?;
    note_processing(bench, server)
}

/// The same measures as Arrow streams.
fn push_arrow(bench: &mut Bench, server: &Server, row: &Row, shape: &Shape) -> Result<()> {
    let (ids, _) = setup::create_metrics(bench, server, "low", bench.counts(server.peer).push_metrics)?;
    let ids = ids.iter().map(|id| id.to_string().into_bytes()).collect();
    let requests = arrow::pushes(server, ids, (0..shape.steps).map(|step| span(shape, step)))?;
    measure(bench, server, row, shape, Some(arrow::VARIANT), &requests)?;
    note_processing(bench, server)
}

fn measure(
    bench: &mut Bench,
    server: &Server,
    row: &Row,
    shape: &Shape,
    variant: Option<&'static str>,
    requests: &Requests,
) -> Result<()> {
    let until = Until::Elapsed(bench.counts(server.peer).load);
    bench.measure(server, row, variant, |bench| {
        let outcome = bench.load(server, requests, shape.connections, until).run();
        let began_again =
            outcome.calls > requests.distinct() && (server.peer.is_gnudi() || server.peer == Peer::InfluxDb);
        let work = Work::of(outcome, shape.measures);
        Ok(if began_again { work.note("time began again: measures came late") } else { work })
    })?;
    Ok(())
}

/// Notes how long the server processed after the last call. Gnocchi takes minutes: it is not waited for.
fn note_processing(bench: &mut Bench, server: &Server) -> Result<()> {
    if !server.peer.is_gnudi() {
        return Ok(());
    }
    let waited = setup::wait_processed(bench, server)?.as_secs_f64();
    let last = bench.measurements.last_mut().expect("a row was just measured");
    let rate = crate::table::short(last.done / (last.seconds + waited));
    last.notes.push(format!("all processed {waited:.2} s later: {rate}/s"));
    Ok(())
}

fn span(shape: &Shape, step: usize) -> Span {
    let start_ms = START_MS + (step * shape.measures) as i64 * STEP_MS;
    Span { start_ms, step_ms: STEP_MS, count: shape.measures }
}

fn bodies(shape: &Shape, write: fn(Span, &mut Values, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut values = Values::new(1);
    (0..shape.steps)
        .map(|step| {
            let mut body = Vec::new();
            write(span(shape, step), &mut values, &mut body);
            with_length(&body, 0)
        })
        .collect()
}

fn columns(server: &Server, shape: &Shape, metrics: &Range<usize>) -> Requests {
    let mut values = Values::new(1);
    let names: Vec<Vec<u8>> =
        metrics.clone().map(|metric| setup::series_object(metric).into_bytes()).collect();
    let name_bytes = names[0].len();
    let open_head = server.headers.open_json_head("/api/v1/import");
    let (mut heads, mut bodies) = (Vec::new(), Vec::new());
    for step in 0..shape.steps {
        let mut body = Vec::new();
        span(shape, step).write_columns(&mut values, &mut body);
        heads.push([open_head.as_slice(), &length_header(name_bytes + body.len())].concat());
        bodies.push(body);
    }
    Requests::Named { heads, names, bodies }
}

/// A text with a line per measure, which names its metric.
struct Lines {
    path: &'static str,
    name: fn(usize) -> String,
    write: fn(Span, &str, &mut Values, &mut Vec<u8>),
    /// Over all requests: they share no memory, so there are fewer of them, and times may repeat.
    measures_max: usize,
}

const PROMETHEUS: Lines = Lines {
    path: "/api/v1/import/prometheus",
    name: setup::series_name,
    write: Span::write_lines,
    measures_max: 1_000_000,
};

/// Repeated measures are expensive for it, so times repeat late.
const INFLUX: Lines = Lines {
    path: influxdb::WRITE_PATH,
    name: influxdb::series_name,
    write: Span::write_influx,
    measures_max: 4_000_000,
};

fn lines(server: &Server, shape: &Shape, metrics: &Range<usize>, style: &Lines) -> Requests {
    const REQUESTS_MAX: usize = 200_000;
    let mut values = Values::new(1);
    let open_head = server.headers.open_head("POST", style.path);
    let requests = (0..REQUESTS_MAX.min(style.measures_max / shape.measures))
        .map(|index| {
            let mut body = Vec::new();
            let name = (style.name)(metrics.start + index % metrics.len());
            (style.write)(span(shape, index / metrics.len()), &name, &mut values, &mut body);
            [open_head.as_slice(), &with_length(&body, 0)].concat()
        })
        .collect();
    Requests::Listed(requests)
}
