//! The rows of the report: an overview drawing, a table for each, and a plot of pushes by call size.

use super::{
    html::{Cell, Line, escape, folded, list, table},
    words,
};
use crate::{
    findings::{Axis, Line as PlotLine, Plot},
    measurement::{Measurement, Row, Unit},
    peers::Peer,
    plot::{
        self,
        standings::{self, NamedRow, Standing},
    },
    rows, table as text,
};

/// A row's table: a line per server and variant, with a bar.
pub fn block(row: &Row, measurements: &[&Measurement]) -> String {
    let greatest = measurements
        .iter()
        .filter(|found| found.peer != Peer::Limit)
        .map(|found| found.figure())
        .filter(|figure| figure.is_finite())
        .fold(0.0, f64::max);
    let rows = text::of_row(row, measurements).rows;
    let line = |(measurement, row): (&&Measurement, Vec<String>)| Line {
        cells: cells(measurement, row, greatest),
        ours: measurement.peer == Peer::Gnudi,
    };
    let lines: Vec<Line> = measurements.iter().zip(rows).map(line).collect();
    let figure = if row.unit == Unit::Bytes { "memory" } else { row.unit.name() };
    let headings = ["server", figure, "", "gnudi is", "p50", "p99", "cpu", "per cpu s", "memory"];
    let table = table("", &headings, &lines);
    format!("<h3 id=\"{}\">{}</h3>\n{table}{}", escape(row.key), escape(row.title), remarks(measurements))
}

/// Remarks on a row's figures, collapsed.
fn remarks(measurements: &[&Measurement]) -> String {
    let of_one = |found: &&Measurement| {
        let remarks = text::remarks(found).join("; ");
        (!remarks.is_empty()).then(|| format!("{}: {remarks}", text::name(found)))
    };
    let all: Vec<String> = measurements.iter().filter_map(of_one).collect();
    if all.is_empty() { String::new() } else { folded("remarks", &list(&all)) }
}

fn cells(measurement: &Measurement, row: Vec<String>, greatest: f64) -> Vec<Cell> {
    // The no-op server's figure would make all bars short.
    let share = (measurement.peer != Peer::Limit).then(|| measurement.figure() / greatest);
    let bar = Cell::Bar(share, measurement.peer.style());
    let row = <[String; 11]>::try_from(row).expect("as many columns");
    let [name, figure, times, p50, _, p99, _, cpu, _, per_cpu, memory] = row;
    let mut cells = vec![Cell::Text(name), Cell::Figure(figure), bar];
    cells.extend([times, p50, p99, cpu, per_cpu, memory].map(Cell::Figure));
    cells
}

/// All measured rows, in order.
pub fn blocks(measurements: &[Measurement]) -> String {
    rows::measured(measurements).map(|(row, of_row)| block(row, &of_row)).collect()
}

/// The whole run in one drawing: a line per server over all rows, with its figure relative to gnudi's; empty without
/// peers.
pub fn overview(measurements: &[Measurement], peers: &[Peer]) -> String {
    const TITLE: &str = "All rows: each server's figure, by its best way, beside gnudi's by JSON";
    let shown: Vec<&Row> = rows::all()
        .filter(|row| measurements.iter().any(|found| found.row == row.key && found.peer == Peer::Gnudi))
        .collect();
    let standing = |&peer: &Peer| {
        let pairs = words::pairs(measurements, Peer::Gnudi, peer);
        let ratio = |row: &&Row| {
            let pair = pairs.iter().find(|pair| pair.row.key == row.key)?;
            // Others are compared with gnudi's JSON figure, not with its best variant.
            Some(if peer == Peer::Gnudi { 1.0 } else { 1.0 / pair.times })
        };
        Standing { name: peer.name(), style: peer.style(), ratios: shown.iter().map(ratio).collect() }
    };
    let mut servers: Vec<Standing> =
        peers.iter().filter(|peer| **peer != Peer::Limit).map(standing).collect();
    servers.retain(|server| server.ratios.iter().any(Option::is_some));
    if servers.len() < 2 {
        return String::new();
    }
    let rows: Vec<NamedRow> = shown.iter().map(|row| (row.key, row.title)).collect();
    let drawing = standings::svg(TITLE, "times gnudi's figure; further right is better", &rows, &servers);
    format!("<figure><figcaption>{TITLE}</figcaption>\n{drawing}</figure>\n")
}

/// Measures per second by measures per call, a line per server with its best variant; empty if fewer than two sizes
/// were measured.
pub fn push_plot(measurements: &[Measurement], peers: &[Peer]) -> String {
    let rate = |peer: Peer, size: u32| {
        let of_row =
            measurements.iter().filter(|found| found.peer == peer && found.row == format!("push-{size}"));
        of_row.map(Measurement::figure).fold(0.0, f64::max)
    };
    let line = |&peer: &Peer| {
        let sizes = [1, 10, 100, 500, 1000, 2000, 3000, 4000, 5000];
        let points = sizes.map(|size| (f64::from(size), rate(peer, size)));
        PlotLine::new(peer.name(), points.into_iter().filter(|point| point.1 > 0.0))
    };
    let lines: Vec<PlotLine> = peers.iter().map(line).filter(|line| line.points.len() > 1).collect();
    if lines.is_empty() {
        return String::new();
    }
    let (x, y) = (Axis::logarithmic("measures a call"), Axis::logarithmic("measures a second"));
    figure(&Plot::new("Pushes, 8 connections: measures a second by measures a call", x, y, lines))
}

/// A plot with its title above.
pub fn figure(plot: &Plot) -> String {
    format!("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escape(&plot.title), plot::svg(plot))
}
