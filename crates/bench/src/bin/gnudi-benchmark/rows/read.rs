//! Reads one metric by the minute: a month, a year, and the last day of many metrics.

use anyhow::{Context as _, Result, ensure};
use gnudi_model::{Timestamp, python::quote};

use super::{Bench, arrow, batch, batch::Metrics, setup};
use crate::{
    body::{START_MS, Span},
    load::Requests,
    measurement::{Row, Unit},
    noop::{self, DAY_POINTS, YEAR_ARGUMENT, YEAR_POINTS},
    peers::{Peer, Server, influxdb},
};

pub const ROWS: [Row; 3] = [
    Row::new("read", Unit::Points, "get 43,200 points of a metric, 4 connections"),
    Row::new("read-year", Unit::Points, "get a year by the minute of a metric, 1 connection"),
    Row::new("read-day", Unit::Points, "get the last day by the minute of 280 metrics, 4 connections"),
];

const POLICY: &str = "gnudi-bench-minute";
const RAW_POLICY: &str = "gnudi-bench-minute-raw";
const POINTS_MAX: usize = 366 * 24 * 60;
const STEP_MS: i64 = 60_000;
/// Measures per call while a metric is written.
const BATCH: usize = 4_320;
/// Days that the published run read per second.
const PUBLISHED_DAYS: f64 = 280.0;

struct Shape {
    metrics: usize,
    /// Per metric.
    stored: usize,
    /// The last points of each metric: all that are stored, or fewer.
    read: usize,
    connections: usize,
}

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let shape = |metrics, stored, read, connections| Shape { metrics, stored, read, connections };
    let month = shape(server.peer.sized(4, 1), noop::POINTS, noop::POINTS, 4);
    let year_points = server.peer.sized(YEAR_POINTS, 60 * DAY_POINTS);
    let year = shape(1, year_points, year_points, 1);
    let days = shape(server.peer.sized(280, 20), 2 * DAY_POINTS, DAY_POINTS, 4);
    if server.peer.has_gnocchi_api() {
        setup::create_policy(server, &setup::policy(POLICY, &[(60, POINTS_MAX)]))?;
    }
    for (row, shape) in ROWS.iter().zip([month, year, days]) {
        if bench.options.wants(row.key) {
            measure(bench, server, row, &shape, POLICY, &[MEANS, MEANS_AS_ARROW])?;
            if server.peer.is_gnudi() {
                let policy = setup::policy(RAW_POLICY, &[(60, POINTS_MAX)]);
                setup::create_policy(server, &setup::with_raw(60 * POINTS_MAX, policy))?;
                measure(bench, server, row, &shape, RAW_POLICY, &[RAW, RAW_AS_ARROW])?;
            }
        }
    }
    Ok(())
}

/// A form of request and response for the same points.
#[derive(Clone, Copy)]
struct Form {
    variant: Option<&'static str>,
    aggregation: &'static str,
    is_arrow: bool,
}

const MEANS: Form = Form { variant: None, aggregation: "mean&granularity=60", is_arrow: false };
const MEANS_AS_ARROW: Form = Form { variant: Some(arrow::VARIANT), is_arrow: true, ..MEANS };
const RAW: Form = Form { variant: Some("raw"), aggregation: "raw", is_arrow: false };
const RAW_AS_ARROW: Form = Form { variant: Some("raw, arrow"), is_arrow: true, ..RAW };

/// Fills metrics of a policy, and reads them in each form that the server has.
fn measure(
    bench: &mut Bench,
    server: &Server,
    row: &Row,
    shape: &Shape,
    policy: &str,
    forms: &[Form],
) -> Result<()> {
    let metrics = batch::metrics(server, policy, shape.metrics)?;
    metrics.fill(server, &pieces(shape.stored))?;
    let speaks_arrow = server.peer.is_gnudi() || server.peer == Peer::Limit;
    for form in forms.iter().filter(|form| !form.is_arrow || speaks_arrow) {
        let requests = requests(server, shape, &metrics, *form);
        let (answer, _) = setup::first_answer(server, &requests)?;
        let points = match server.peer {
            // Its streams are of the right size, and no more.
            Peer::Limit if form.is_arrow => shape.read,
            _ if form.is_arrow => arrow::rows(&answer)?,
            peer => points(peer, &answer)?,
        };
        ensure!(points == shape.read, "{points} points, not {}", shape.read);
        let row = Row { variant: form.variant, ..*row };
        let measurement = bench.measure_load(server, &row, &requests, shape.connections, points)?;
        let bytes = crate::table::short(answer.len() as f64);
        let mut notes = vec![format!("{points} points and {bytes}B an answer")];
        if row.key == "read-day" {
            let days_seconds = measurement.seconds / measurement.calls.max(1) as f64 * PUBLISHED_DAYS;
            notes.push(format!("{PUBLISHED_DAYS} metrics in {days_seconds:.3} s"));
        }
        measurement.notes.splice(0..0, notes);
    }
    Ok(())
}

/// A metric's measures in pieces.
fn pieces(points: usize) -> Vec<Span> {
    (0..points).step_by(BATCH).map(|start| Span::minutes(start, BATCH.min(points - start))).collect()
}

fn requests(server: &Server, shape: &Shape, metrics: &Metrics, form: Form) -> Requests {
    // The minute of the first requested measure.
    let first_ms = START_MS + (shape.stored - shape.read) as i64 * STEP_MS;
    let start_ms = (shape.read < shape.stored).then(|| first_ms - first_ms.rem_euclid(STEP_MS));
    let get = |path: String| {
        if form.is_arrow { arrow::get(server, &path) } else { server.headers.bare("GET", &path) }
    };
    let aggregation = form.aggregation;
    let requests = match metrics {
        Metrics::Ids(ids) => {
            let start = start_ms.map_or_else(String::new, |start_ms| {
                "&start=".to_owned() + &Timestamp(start_ms * 1_000_000).to_iso().replace('+', "%2B")
            });
            let is_limits_year = server.peer == Peer::Limit && shape.read == YEAR_POINTS;
            let year = if is_limits_year { YEAR_ARGUMENT } else { "" };
            let path = |id| format!("/v1/metric/{id}/measures?aggregation={aggregation}{start}{year}");
            ids.iter().map(|id| get(path(id))).collect()
        }
        Metrics::Numbered(numbers) if server.peer == Peer::InfluxDb => {
            numbers.clone().map(|metric| get(influxdb::read_path(metric, start_ms))).collect()
        }
        Metrics::Numbered(numbers) => {
            let start = start_ms.map_or_else(String::new, |start_ms| format!("&start={}", start_ms / 1000));
            let path = |metric| {
                let name = quote(&setup::series_name(metric), "");
                format!("/api/v1/export?match[]={name}{start}")
            };
            numbers.clone().map(|metric| get(path(metric))).collect()
        }
    };
    Requests::listed(requests)
}

fn points(peer: Peer, answer: &[u8]) -> Result<usize> {
    Ok(match peer {
        Peer::Limit | Peer::Gnudi | Peer::GnudiOs | Peer::Gnocchi => {
            serde_json::from_slice::<Vec<serde_json::Value>>(answer)?.len()
        }
        Peer::InfluxDb => influxdb::points(&serde_json::from_slice(answer)?),
        Peer::Prometheus => unreachable!("no row asks it"),
        // Lines, one per block of the series' points.
        Peer::VictoriaMetrics => answer
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                let line: serde_json::Value = serde_json::from_slice(line).context("an exported line")?;
                Ok(line["values"].as_array().map_or(0, Vec::len))
            })
            .sum::<Result<usize>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_no_gap() {
        let spans = pieces(2 * BATCH + 7);
        assert_eq!(spans.iter().map(|span| span.count).collect::<Vec<_>>(), [BATCH, BATCH, 7]);
        assert_eq!(spans[2].start_ms, START_MS + 2 * BATCH as i64 * STEP_MS);
    }

    #[test]
    fn points_are_counted_in_every_form() {
        let count = |peer, answer: &str| points(peer, answer.as_bytes()).unwrap();
        assert_eq!(count(Peer::Gnocchi, r#"[["t", 60.0, 1.0], ["t", 60.0, 2.0]]"#), 2);
        assert_eq!(count(Peer::VictoriaMetrics, "{\"values\":[1,2]}\n{\"values\":[3]}\n"), 3);
        let influx = r#"{"results": [{"series": [{"values": [[1, 2.5]]}]}]}"#;
        assert_eq!(count(Peer::InfluxDb, influx), 1);
        assert!(points(Peer::Gnudi, b"{}").is_err());
    }
}
