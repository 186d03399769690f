//! The same stream against a real gnudi, once for each order, with as many workers as this machine has processors.
//!
//! Measures come in as fast as they are accepted, and sacks hold few metrics and gather nothing, so that the workers fall behind.

use std::time::Duration;

use anyhow::Result;
use gnudi_engine::metricd::policy::Scheduling;

use super::Options;
use crate::{
    commands::{
        processing::{self, Counts},
        report,
    },
    context::Context,
    findings::{Axis, Better, Findings, Line, Plot, Table, Value},
    peers::Server,
    rows::Bench,
};

/// Sacks hold so many metrics each.
const METRICS_PER_SACK: u32 = 4;
const CONNECTIONS: usize = 4;

/// What an order made of the stream.
pub struct Real {
    pub scheduling: Scheduling,
    pub workers: usize,
    pub peak: u64,
    pub drained_after: Duration,
    /// The greatest age of the sack that had waited longest, as often as it was looked.
    pub longest_wait: Duration,
    /// (seconds, measures waiting).
    backlog: Vec<(f64, f64)>,
}

pub fn name(scheduling: Scheduling) -> &'static str {
    match scheduling {
        Scheduling::Shared => "shared",
        Scheduling::Ring => "ring",
        Scheduling::Front => "front",
    }
}

/// Each order in turn, on a server of its own.
pub fn measure(options: &Options, context: &Context) -> Result<Vec<Real>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let sacks = options.metrics.div_ceil(METRICS_PER_SACK);
    let defaults = report::Options::default();
    let bench = Bench::new(&defaults, context);
    let mut measured = Vec::new();
    for scheduling in [Scheduling::Front, Scheduling::Shared, Scheduling::Ring] {
        if context.stop.is_set() {
            break;
        }
        let configuration = format!(
            "[metricd]\nworkers = {workers}\nscheduling = {}\ngather_ms = 0\n[incoming]\nsacks = {sacks}\n",
            name(scheduling)
        );
        let server = Server::start_configured(&configuration, context)?;
        let counts = Counts {
            metrics: options.metrics as usize,
            points: options.rounds as usize,
            batches: 0,
            held: 0,
            connections: CONNECTIONS,
        };
        eprintln!("gnudi with {}, {workers} workers", name(scheduling));
        let done = processing::stream(&bench, &server, counts, String::new())?;
        measured.push(Real {
            scheduling,
            workers,
            peak: done.watched.peak_measures(),
            drained_after: done.elapsed.saturating_sub(done.pushed),
            longest_wait: done.watched.longest_wait().unwrap_or_default(),
            backlog: done.watched.points(),
        });
    }
    Ok(measured)
}

pub fn tell(measured: &[Real], findings: &mut Findings) {
    let seconds = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
    for real in measured {
        let name = |figure: &str| format!("measured, {}: {figure}", name(real.scheduling));
        findings.compare(name("backlog peak"), Value::Count(real.peak), Better::Lower);
        findings.compare(
            name("drained after"),
            Value::Seconds(real.drained_after.as_secs_f64()),
            Better::Lower,
        );
        findings.compare(
            name("longest wait"),
            Value::Seconds(real.longest_wait.as_secs_f64()),
            Better::Lower,
        );
    }
    let rows = measured.iter().map(|real| {
        let order = format!("{}, {} workers", name(real.scheduling), real.workers);
        vec![order, real.peak.to_string(), seconds(real.drained_after), seconds(real.longest_wait)]
    });
    findings.tables.push(Table {
        title: "Measured on this machine: each order".to_owned(),
        headings: ["order", "backlog peak", "drained after", "longest wait"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    });
    findings.plots.push(Plot {
        title: "Measured on this machine: what waits".to_owned(),
        x: Axis::linear("seconds"),
        y: Axis::linear("measures waiting"),
        lines: measured
            .iter()
            .map(|real| Line { name: name(real.scheduling).to_owned(), points: real.backlog.clone() })
            .collect(),
        marks: Vec::new(),
    });
    findings.note(format!(
        "measured: a gnudi of its own for each order, {METRICS_PER_SACK} metrics a sack, no gathering, measures as fast as they are \
         accepted; the longest wait is that of a sack for a worker, seen every 50 ms"
    ));
}
