//! `gnudi-benchmark growth`: throughput, memory and disk by number of metrics, the disk use of a metric with a full
//! history, and what clouds take by these figures.
//!
//! It measures gnudi only, on servers that it starts itself; for other servers there is `versus`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};

use crate::{
    body::{START_MS, Span, Values},
    context::Context,
    disk,
    findings::{Axis, Findings, Line, Plot, Table, Value},
    load::Requests,
    measurement::Work,
    peers::{Peer, Server},
    rows::{
        batch,
        process::{self, CONNECTIONS, Push},
        setup,
    },
    sheet::Sheet,
    table::{bytes, short},
};

/// Measure gnudi's throughput, memory and disk use as its store grows.
#[derive(Clone, Debug, Args)]
pub struct GrowthOptions {
    /// What to measure; it takes some minutes.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Dimension::Metrics, Dimension::Disk])]
    only: Vec<Dimension>,
    /// Numbers of metrics, from small to large. Ten million take a quarter of an hour.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 300_000, 1_000_000])]
    metrics: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dimension {
    /// Metrics with policy medium.
    Metrics,
    /// Disk use of metrics that have all points that their policy keeps.
    Disk,
}

/// Metrics per call; each gets one measure, as if polled.
const BATCH_MAX: usize = 1_000;
/// Measures of all metrics together, at least.
const MEASURES: usize = 500_000;
/// Measures of each metric, at least: the server folds some of a metric at once.
const MEASURES_A_METRIC: usize = 10;
/// Wait for background work before memory and disk are read.
const REST: Duration = Duration::from_secs(2);
/// Policy whose history is planned for.
const PLANNED_POLICY: &str = "medium";
const SERVER_METRICS: usize = 30;

/// The work with a number of metrics, and its cost.
struct Sample {
    metrics: usize,
    work: Work,
    /// The cost of folding the deferred measures, after the work.
    folding: Folding,
    /// To files, a measure, from the work until it is idle.
    written_bytes: Option<f64>,
    /// When idle, after the work.
    memory_bytes: f64,
    disk_bytes: f64,
    /// The durations of a start after a clean stop, and of a start after a kill with a measure of each metric in the log.
    starts: [Duration; 2],
}

/// The cost of folding.
struct Folding {
    elapsed: Duration,
    cpu_seconds: Option<f64>,
}

impl Sample {
    /// Measures per second until all of them are folded into the heads.
    fn folded(&self) -> f64 {
        self.work.done / (self.work.elapsed + self.folding.elapsed).as_secs_f64()
    }

    fn cpu_us(&self) -> Option<f64> {
        Some(self.work.cpu_us()? + 1e6 * self.folding.cpu_seconds? / self.work.done)
    }
}

pub fn run(options: &GrowthOptions, context: &Context) -> Result<Findings> {
    let mut findings = Findings::new("Throughput, memory and disk of gnudi against what grows");
    findings.note("disk includes what the log of measures reserves, except in the table of full histories");
    let mut samples = Vec::new();
    if options.only.contains(&Dimension::Metrics) {
        for &metrics in &options.metrics {
            eprintln!("growth: {metrics} metrics");
            let sample = sample(context, metrics);
            // Checks fail after an interruption.
            if context.stop.is_set() {
                break;
            }
            samples.push(sample?);
        }
        tell(&samples, &mut findings);
    }
    if options.only.contains(&Dimension::Disk) && !context.stop.is_set() {
        let history_bytes = tell_histories(context, &mut findings)?;
        plan(&samples, history_bytes, &mut findings);
    }
    Ok(findings)
}

/// Measures a new server with so many metrics, each of which gets the same number of measures.
fn sample(context: &Context, metrics: usize) -> Result<Sample> {
    let mut server = Server::start(Peer::Gnudi, context)?;
    let rounds = MEASURES.div_ceil(metrics).max(MEASURES_A_METRIC);
    let push = Push::rounds(&server, metrics, [batch_of(metrics), 1, rounds])?;
    let before = server.probe.written_bytes();
    let work = push.run(&server)?;
    let folding = fold_deferred(&server)?;
    ensure!(!context.stop.is_set(), "cut short");
    std::thread::sleep(REST);
    let written = server.probe.written_bytes().zip(before).map(|(after, before)| after - before);
    let written_bytes = written.map(|bytes| bytes as f64 / work.done);
    let memory_bytes = server.probe.memory_bytes().unwrap_or(0) as f64;
    let disk_bytes = disk::used_bytes(&aggregates(&server)?).unwrap_or(0) as f64;
    push.check(&server)?;
    let clean = server.restart()?.context("its own server")?;
    let span = Span::minutes(push.held, 1);
    let last = push.metrics.requests(&server, batch_of(metrics), span, &mut Values::new(2));
    setup::send(&server, last, CONNECTIONS)?;
    let killed = server.restart_killed()?.context("its own server")?;
    Ok(Sample { metrics, work, folding, written_bytes, memory_bytes, disk_bytes, starts: [clean, killed] })
}

/// Makes the server fold its deferred measures. It does so before it changes a policy, so this changes a policy to itself.
fn fold_deferred(server: &Server) -> Result<Folding> {
    let before = server.probe.cpu_seconds();
    let start = Instant::now();
    let (client, runtime) = (server.client()?, &server.context.runtime);
    let path = format!("/v1/archive_policy/{PLANNED_POLICY}");
    let policy = runtime.block_on(client.get_json(path.clone()))?;
    let same = serde_json::json!({ "definition": policy["definition"] }).to_string();
    runtime.block_on(client.send_json("PATCH", path, Some(same.into())))?;
    let cpu_seconds = server.probe.cpu_seconds().zip(before).map(|(after, before)| after - before);
    Ok(Folding { elapsed: start.elapsed(), cpu_seconds })
}

/// Metrics per call, such that the calls of a round are a multiple of the connections: all measures of a metric use the
/// same connection.
fn batch_of(metrics: usize) -> usize {
    let calls_a_connection = metrics.div_ceil(CONNECTIONS * BATCH_MAX);
    metrics.div_ceil(CONNECTIONS * calls_a_connection)
}

/// A line of a plot: its name, and what it shows of a sample.
type Shown = (&'static str, fn(&Sample) -> f64);

/// A table, plots, and figures of the first and the last sample.
fn tell(samples: &[Sample], findings: &mut Findings) {
    const METRICS: &str = "metrics of policy medium";
    let mut sheet = Sheet::<Sample>::new();
    sheet.text(METRICS, |sample| sample.metrics.to_string());
    sheet.value("accepted", |sample| Value::rate(sample.work.accepted(), "measure"));
    sheet.value("processed", |sample| Value::rate(sample.work.rate(), "measure"));
    sheet.value("folded", |sample| Value::rate(sample.folded(), "measure"));
    sheet.value("processor time a measure", |sample| sample.cpu_us().map(|us| Value::each(us, "us")));
    sheet.value("written a measure", |sample| sample.written_bytes.map(Value::bytes));
    sheet.value("memory", |sample| Value::bytes(sample.memory_bytes));
    sheet.value("disk", |sample| Value::bytes(sample.disk_bytes));
    sheet.value("start", |sample| Value::seconds(sample.starts[0]));
    sheet.value("start after a kill", |sample| Value::seconds(sample.starts[1]));
    findings.tables.push(sheet.table("by metrics, a measure each a call", samples, |_| None));
    let rates: [Shown; 2] = [
        ("accepted", |sample| sample.work.accepted()),
        ("pushed and processed", |sample| sample.work.rate()),
    ];
    let sizes: [Shown; 2] = [("memory", |sample| sample.memory_bytes), ("disk", |sample| sample.disk_bytes)];
    for (title, y, shown) in [
        ("Measures a second by metrics", Axis::linear("measures a second"), rates),
        ("Memory and disk by metrics", Axis::logarithmic("bytes"), sizes),
    ] {
        let line = |(name, value): Shown| {
            Line::new(name, samples.iter().map(|sample| (sample.metrics as f64, value(sample))))
        };
        findings.plots.push(Plot::new(title, Axis::logarithmic(METRICS), y, shown.map(line).to_vec()));
    }
    if let [first, .., last] = samples {
        let per_metric = Value::bytes(further_metric_bytes(samples));
        findings.compare("memory for each further metric", per_metric);
        let percent = Value::Percent(100.0 * last.work.rate() / first.work.rate());
        let name = format!("processed with {} metrics, of the rate with {}", last.metrics, first.metrics);
        findings.compare(name, percent);
    }
}

fn further_metric_bytes(samples: &[Sample]) -> f64 {
    match samples {
        [first, .., last] => {
            let more = last.memory_bytes - first.memory_bytes;
            (more / (last.metrics - first.metrics) as f64).max(0.0)
        }
        _ => 0.0,
    }
}

/// The processor time per measure with so many metrics: that of the next larger sample, or else of the last one.
fn cpu_us_at(samples: &[Sample], metrics: usize) -> Option<f64> {
    samples.iter().find(|sample| sample.metrics >= metrics).or(samples.last())?.cpu_us()
}

/// The measures that fill a metric of a policy with all points that the policy keeps, as if polled by the minute. A span is
/// a number of measures and their distance in seconds. Where only hours are kept, three measures an hour stand for sixty.
struct History {
    policy: &'static str,
    spans: &'static [(usize, i64)],
    /// Points of all granularities together.
    points_kept: usize,
}

const DAY: usize = 24 * 60;

const HISTORIES: [History; 3] = [
    History { policy: "low", spans: &[(30 * DAY, 60)], points_kept: 30 * DAY / 5 },
    History { policy: "medium", spans: &[(358 * 72, 1_200), (7 * DAY, 60)], points_kept: 365 * 24 + 7 * DAY },
    History {
        policy: "high",
        spans: &[(358 * 72, 1_200), (7 * DAY - 60, 60), (3_600, 1)],
        points_kept: 365 * 24 + 7 * DAY + 3_600,
    },
];

/// A table; returns the disk of a metric with a full history in the planned policy.
fn tell_histories(context: &Context, findings: &mut Findings) -> Result<Option<f64>> {
    const METRICS: usize = 40;
    let mut planned = None;
    let mut table = Table::new(
        format!("on disk: {METRICS} metrics that hold all that their policy keeps, with all its methods"),
        "policy | bytes a metric | points kept a metric | bytes a point with all its methods",
        [],
    );
    for history in &HISTORIES {
        let (policy, points) = (history.policy, history.points_kept);
        eprintln!("growth: a full history in policy {policy}");
        let stored = history_bytes(context, history, METRICS);
        // Checks fail after an interruption.
        if context.stop.is_set() {
            break;
        }
        let each = stored? / METRICS as f64;
        let cells = [policy.to_owned(), bytes(each), points.to_string(), bytes(each / points as f64)];
        table.rows.push(cells.to_vec());
        findings.compare(format!("a full history in policy {policy}, a metric"), Value::bytes(each));
        if policy == PLANNED_POLICY {
            planned = Some(each);
        }
    }
    findings.tables.push(table);
    Ok(planned)
}

/// The disk use of the aggregates of metrics with a full history. The metrics are so few that all of it is still in the
/// store's log, in which only heads are written more than once.
fn history_bytes(context: &Context, history: &History, metrics: usize) -> Result<f64> {
    const PIECE: usize = 3 * DAY;
    let server = Server::start(Peer::Gnudi, context)?;
    let metrics = batch::metrics(&server, history.policy, metrics)?;
    let mut values = Values::new(1);
    let mut start_ms = START_MS;
    for &(measures, step_s) in history.spans {
        for from in (0..measures).step_by(PIECE) {
            let span = Span { start_ms, step_ms: step_s * 1_000, count: PIECE.min(measures - from) };
            start_ms += span.count as i64 * span.step_ms;
            let requests = Requests::listed(metrics.requests(&server, 1, span, &mut values));
            process::until_processed(&server, &requests, 1, span.count * metrics.len())?;
        }
    }
    std::thread::sleep(REST);
    Ok(disk::written_bytes(&aggregates(&server)?).context("the size of the store")? as f64)
}

/// The directory of its own server's aggregates.
fn aggregates(server: &Server) -> Result<PathBuf> {
    Ok(server.data().context("its own server")?.join("aggregates"))
}

/// What clouds of some sizes take, by arithmetic from the measured figures.
fn plan(samples: &[Sample], history_bytes: Option<f64>, findings: &mut Findings) {
    let (Some(history_bytes), [first, .., last]) = (history_bytes, samples) else { return };
    let each_bytes = further_metric_bytes(samples);
    let rows = [1_000, 10_000, 33_000, 100_000, 333_000].map(|servers| {
        let metrics = servers * SERVER_METRICS;
        let measures_a_second = metrics as f64 / 60.0;
        let processors = cpu_us_at(samples, metrics).map(|us| measures_a_second * us / 1e6);
        let extrapolated = if metrics > last.metrics { " (extrapolated)" } else { "" };
        vec![
            servers.to_string(),
            format!("{metrics}{extrapolated}"),
            short(measures_a_second),
            processors.map_or("-".to_owned(), short),
            bytes(first.memory_bytes + each_bytes * metrics as f64),
            bytes(history_bytes * metrics as f64),
        ]
    });
    findings.tables.push(Table::new(
        format!(
            "clouds polled by the minute: {SERVER_METRICS} metrics a server, policy {PLANNED_POLICY}; computed from the \
             figures above"
        ),
        "servers | metrics | measures/s | processors | memory | disk when full",
        rows,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Outcome;

    fn sample(metrics: usize, seconds: f64) -> Sample {
        let elapsed = Duration::from_secs_f64(seconds);
        let outcome = Outcome { elapsed: elapsed / 2, ..Outcome::default() };
        let cpu_seconds = Some(seconds / 1_000.0);
        let work = Work { done: 1_000.0, elapsed, outcome, cpu_seconds, notes: Vec::new() };
        let starts = [Duration::from_millis(100), Duration::from_millis(200)];
        let folding = Folding { elapsed, cpu_seconds: Some(0.0) };
        let (written_bytes, memory_bytes) = (Some(150.0), 2e6 * seconds);
        Sample { metrics, work, folding, written_bytes, memory_bytes, disk_bytes: 3e6, starts }
    }

    #[test]
    fn every_connection_has_as_many_calls_of_a_round() {
        for metrics in [200, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 300_000, 1_000_000] {
            let batch = batch_of(metrics);
            let even = metrics.div_ceil(batch).is_multiple_of(CONNECTIONS);
            assert!(batch <= BATCH_MAX && even, "{metrics}: {batch}");
        }
    }

    #[test]
    fn what_lies_between_samples_costs_what_the_next_larger_does() {
        let samples = [sample(1_000, 1.0), sample(1_001_000, 3.0)];
        assert_eq!(further_metric_bytes(&samples), 4.0);
        for (metrics, us) in [(10, 1.0), (1_000, 1.0), (1_001, 3.0), (5_000_000, 3.0)] {
            assert_eq!(cpu_us_at(&samples, metrics), Some(us), "{metrics}");
        }
        assert_eq!((further_metric_bytes(&[]), cpu_us_at(&[], 1)), (0.0, None));
    }

    #[test]
    fn samples_become_tables_and_plots() {
        let mut findings = Findings::default();
        let samples = [sample(16, 1.0), sample(128, 2.0)];
        tell(&samples, &mut findings);
        assert_eq!(
            findings.tables[0].rows[1],
            ["128", "1.00k/s", "500/s", "250/s", "2.00 us", "150B", "4.00MB", "3.00MB", "0.10 s", "0.20 s"]
        );
        assert_eq!(findings.plots[0].lines[1].points, [(16.0, 1_000.0), (128.0, 500.0)]);
        plan(&samples, Some(80e3), &mut findings);
        assert_eq!(findings.tables[1].rows[0][1], "30000 (extrapolated)");
    }
}
