//! Whether throughput depends on the number of metrics: as many measures over few metrics and over many, until
//! processed.
//!
//! Every metric already has measures before the clock starts.

use anyhow::Result;

use super::{Bench, batch, process, setup};
use crate::{
    body::{Span, Values},
    load::Requests,
    measurement::{Row, Unit},
    peers::Server,
};

pub const ROWS: [Row; 2] = [
    Row::new(
        "many-few",
        Unit::Measures,
        "5 measures a metric and call over 1,000 metrics (medium), until processed",
    ),
    Row::new("many", Unit::Measures, "the same number of measures over many metrics, until processed"),
];

const POINTS: usize = 5;
/// The batches of a round are a multiple of the connections, so that all measures of a metric use the same one.
const BATCH: usize = 50;
const CONNECTIONS: usize = 4;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    if counts.many_metrics == 0 {
        return Ok(());
    }
    let [few, many] = &ROWS;
    let mut rates = Vec::new();
    for (row, count) in [(few, counts.few_metrics), (many, counts.many_metrics)] {
        let metrics = batch::metrics(bench, server, "medium", count)?;
        let rounds = (counts.many_measures / (count * POINTS)).max(1);
        let mut values = Values::new(1);
        let mut round = |round: usize| {
            metrics.requests(server, BATCH, Span::minutes(round * POINTS, POINTS), &mut values)
        };
        process::until_processed(bench, server, &Requests::Listed(round(0)), CONNECTIONS, count * POINTS)?;
        let requests = Requests::Listed((1..=rounds).flat_map(round).collect());
        let measures = count * POINTS * rounds;
        let measurement = bench.measure(server, row, None, |bench| {
            let work = process::until_processed(bench, server, &requests, CONNECTIONS, measures)?;
            Ok(work.note(format!("{measures} measures over {count} metrics")))
        })?;
        rates.push(measurement.figure());
        if let [few, many] = rates[..] {
            let percent = 100.0 * many / few;
            measurement.notes.push(format!("{percent:.0} % of the rate with {}", counts.few_metrics));
        }
        setup::check_counts(bench, server, metrics.ids(), POINTS * (rounds + 1))?;
    }
    Ok(())
}
