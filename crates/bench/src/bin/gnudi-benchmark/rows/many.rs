//! Whether throughput depends on the number of metrics: as many measures over few metrics and over many, until
//! processed.
//!
//! Every metric already has measures before the clock starts.

use anyhow::Result;

use super::{Bench, process::Push};
use crate::{
    measurement::{Row, Unit},
    peers::{Peer, Server},
};

pub const ROWS: [Row; 2] = [
    Row::new(
        "many-few",
        Unit::Measures,
        "5 measures a metric and call over 1,000 metrics (medium), until processed",
    ),
    Row::new("many", Unit::Measures, "the same number of measures over many metrics, until processed"),
];

const FEW_METRICS: usize = 1_000;
const MANY_METRICS: usize = 50_000;
const MEASURES: usize = 1_000_000;
const POINTS: usize = 5;
const BATCH: usize = 50;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    // It would take hours.
    if server.peer == Peer::Gnocchi {
        return Ok(());
    }
    let mut rates = Vec::new();
    for (row, metrics) in ROWS.iter().zip([FEW_METRICS, MANY_METRICS]) {
        let rounds = MEASURES / (metrics * POINTS);
        let push = Push::rounds(server, metrics, [BATCH, POINTS, rounds])?;
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
