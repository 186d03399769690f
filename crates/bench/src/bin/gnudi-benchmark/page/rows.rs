//! The rows of the report: an overview drawing, a table for each, and a plot of pushes by call size.

use serde::Serialize;

use super::words;
use crate::{
    findings::{Axis, Line as PlotLine, Plot},
    measurement::{Measurement, Row, Unit},
    peers::Peer,
    rows, table as text,
};

pub struct Block {
    pub row: &'static Row,
    pub headings: [&'static str; 9],
    pub lines: Vec<Line>,
    pub remarks: Vec<String>,
}

/// A server's line, and that of a variant.
pub struct Line {
    pub name: String,
    pub figure: String,
    /// The bar's share of the greatest figure; the no-op server has none, since its figure would make all bars short.
    pub percent: Option<String>,
    pub style: usize,
    /// Of the last six headings.
    pub cells: [String; 6],
    pub is_ours: bool,
}

/// All measured rows, in order.
pub fn blocks(measurements: &[Measurement]) -> Vec<Block> {
    rows::measured(measurements).map(|(row, of_row)| block(row, &of_row)).collect()
}

fn block(row: &'static Row, measurements: &[&Measurement]) -> Block {
    let bars = measurements.iter().filter(|found| found.peer != Peer::Limit);
    let greatest = bars.map(|found| found.figure()).filter(|figure| figure.is_finite()).fold(0.0, f64::max);
    let line = |(found, cells): (&&Measurement, Vec<String>)| {
        let cells = <[String; 11]>::try_from(cells).expect("as many columns");
        let [name, figure, times, p50, _, p99, _, cpu, _, per_cpu, memory] = cells;
        let share = if greatest > 0.0 { (found.figure() / greatest).clamp(0.0, 1.0) } else { 0.0 };
        Line {
            name,
            figure,
            percent: (found.peer != Peer::Limit).then(|| format!("{:.2}", 100.0 * share)),
            style: found.peer.style(),
            cells: [times, p50, p99, cpu, per_cpu, memory],
            is_ours: found.peer == Peer::Gnudi,
        }
    };
    let remark = |found: &&Measurement| {
        let remarks = text::remarks(found).join("; ");
        (!remarks.is_empty()).then(|| format!("{}: {remarks}", text::name(found)))
    };
    let figure = if row.unit == Unit::Bytes { "memory" } else { row.unit.name() };
    Block {
        row,
        headings: ["server", figure, "", "gnudi is", "p50", "p99", "cpu", "per cpu s", "memory"],
        lines: measurements.iter().zip(text::of_row(row, measurements).rows).map(line).collect(),
        remarks: measurements.iter().filter_map(remark).collect(),
    }
}

/// The whole run in one drawing: a line per server over all rows, with its figure relative to gnudi's.
#[derive(Serialize)]
pub struct Standings {
    pub title: &'static str,
    axis: &'static str,
    /// Their keys and titles.
    rows: Vec<[&'static str; 2]>,
    servers: Vec<Standing>,
}

#[derive(Serialize)]
struct Standing {
    name: &'static str,
    /// In each row; `None` without a figure.
    ratios: Vec<Option<f64>>,
}

/// `None` without peers.
pub fn standings(measurements: &[Measurement], peers: &[Peer]) -> Option<Standings> {
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
        Standing { name: peer.name(), ratios: shown.iter().map(ratio).collect() }
    };
    let mut servers: Vec<Standing> =
        peers.iter().filter(|peer| **peer != Peer::Limit).map(standing).collect();
    servers.retain(|server| server.ratios.iter().any(Option::is_some));
    (servers.len() > 1).then(|| Standings {
        title: "All rows: each server's figure, by its best way, beside gnudi's by JSON",
        axis: "times gnudi's figure; further right is better",
        rows: shown.iter().map(|row| [row.key, row.title]).collect(),
        servers,
    })
}

/// Measures per second by measures per call, a line per server with its best variant; `None` if fewer than two
/// sizes were measured.
pub fn push_plot(measurements: &[Measurement], peers: &[Peer]) -> Option<Plot> {
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
    let (x, y) = (Axis::logarithmic("measures a call"), Axis::logarithmic("measures a second"));
    let title = "Pushes, 8 connections: measures a second by measures a call";
    (!lines.is_empty()).then(|| Plot::new(title, x, y, lines))
}
