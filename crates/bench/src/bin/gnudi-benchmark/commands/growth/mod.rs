//! `gnudi-benchmark growth`: throughput, memory and disk by number of metrics, stored points, sacks and workers; and
//! the disk use of a metric with a full history.
//!
//! It measures gnudi only, on servers that it starts itself; for other servers there is `versus`.

mod trial;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    commands::report,
    context::Context,
    findings::{Axis, Findings, Line, Plot, Table, Value},
    rows::{Bench, counts::Scale},
    table::{bytes, short},
};
use trial::{Sample, Trial};

/// Measure gnudi's throughput, memory and disk use as its store grows.
#[derive(Clone, Debug, Args)]
pub struct GrowthOptions {
    /// small: about a minute, up to 50,000 metrics; full: some minutes, up to a million.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    scale: Scale,
    /// What to vary.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Dimension::value_variants().to_vec())]
    only: Vec<Dimension>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dimension {
    /// Metrics with policy medium.
    Metrics,
    /// Points that each metric already has.
    Points,
    /// Sacks of the store.
    Sacks,
    /// Workers.
    Workers,
    /// Disk use of metrics that have all points that their policy keeps.
    Disk,
}

/// Samples by the value that was varied.
type Curve = Vec<(usize, Sample)>;

pub fn run(options: &GrowthOptions, context: &mut Context) -> Result<Findings> {
    let mut findings = Findings::new("Throughput, memory and disk of gnudi against what grows, each alone");
    let bench = Bench::new(report::ReportOptions::default(), context);
    findings.note("disk: with what the log of measures keeps reserved, but for the disk of histories");
    for kind in &options.only {
        if context.stop.is_set() {
            break;
        }
        let measure = match kind {
            Dimension::Metrics => metrics,
            Dimension::Points => points,
            Dimension::Sacks => sacks,
            Dimension::Workers => workers,
            Dimension::Disk => disk,
        };
        let outcome = measure(&bench, options.scale, &mut findings);
        // Checks fail after an interruption.
        if !context.stop.is_set() {
            outcome?;
        }
    }
    context.mark_partial(&mut findings, "the run was interrupted");
    Ok(findings)
}

/// Takes a sample for each value until one fails or the run is stopped; earlier samples are kept.
fn curve(
    bench: &Bench,
    what: &str,
    places: &[usize],
    mut sample: impl FnMut(usize) -> Result<Sample>,
) -> (Curve, Result<()>) {
    let mut taken = Vec::new();
    for &place in places {
        eprintln!("growth: {place} {what}");
        match sample(place) {
            Ok(sample) => taken.push((place, sample)),
            Err(error) => return (taken, Err(error)),
        }
        if bench.context.stop.is_set() {
            break;
        }
    }
    (taken, Ok(()))
}

fn metrics(bench: &Bench, scale: Scale, findings: &mut Findings) -> Result<()> {
    let places: &[usize] = match scale {
        Scale::Small => &[1_000, 5_000, 20_000, 50_000],
        Scale::Full => &[1_000, 10_000, 100_000, 300_000, 1_000_000],
    };
    let trial = Trial { metrics: 0, measures: 500_000 };
    let (taken, outcome) = curve(bench, "metrics", places, |metrics| trial.at_metrics(bench, metrics));
    tell(findings, "metrics of policy medium, a measure each a call", &taken);
    findings.plots.push(memory_plot("metrics", &taken));
    if let [(few, first), .., (many, last)] = &taken[..] {
        let per_metric = (last.memory_bytes - first.memory_bytes) / (many - few) as f64;
        findings.compare("memory for each further metric", Value::Bytes(per_metric.max(0.0) as u64));
        let percent = Value::Percent(100.0 * last.work.rate() / first.work.rate());
        findings.compare(format!("processed with {many} metrics, of the rate with {few}"), percent);
    }
    outcome
}

fn points(bench: &Bench, scale: Scale, findings: &mut Findings) -> Result<()> {
    let places: &[usize] = match scale {
        Scale::Small => &[60, 1_000, 10_000],
        Scale::Full => &[60, 1_000, 10_000, 100_000],
    };
    let trial = Trial { metrics: 200, measures: 120_000 };
    let mut store = trial.store_of_points(bench)?;
    let (taken, outcome) =
        curve(bench, "points stored in a metric", places, |points| store.at_points(bench, points));
    tell(findings, "points already stored in each of 200 metrics", &taken);
    outcome
}

fn sacks(bench: &Bench, scale: Scale, findings: &mut Findings) -> Result<()> {
    let metrics = if scale == Scale::Small { 10_000 } else { 50_000 };
    let trial = Trial { metrics, measures: 500_000 };
    let (taken, outcome) = curve(bench, "sacks", &[16, 128, 1_024, 16_384], |sacks| {
        trial.configured(bench, &format!("[incoming]\nsacks = {sacks}\n"))
    });
    tell(findings, &format!("sacks, {metrics} metrics"), &taken);
    findings.plots.push(memory_plot(&format!("sacks, {metrics} metrics"), &taken));
    outcome
}

fn workers(bench: &Bench, scale: Scale, findings: &mut Findings) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let places: Vec<usize> = std::iter::successors(Some(1), |count| Some(2 * count))
        .take_while(|&count| count <= 2 * processors)
        .collect();
    let metrics = if scale == Scale::Small { 10_000 } else { 50_000 };
    let trial = Trial { metrics, measures: 1_000_000 };
    let (taken, outcome) = curve(bench, "workers", &places, |workers| {
        trial.configured(bench, &format!("[metricd]\nworkers = {workers}\n"))
    });
    tell(findings, &format!("workers, {metrics} metrics, {processors} processors"), &taken);
    outcome
}

fn disk(bench: &Bench, scale: Scale, findings: &mut Findings) -> Result<()> {
    let metrics = if scale == Scale::Small { 10 } else { 40 };
    let mut table = Table::new(
        format!("on disk: {metrics} metrics that hold all that their policy keeps, with all its methods"),
        "policy | bytes a metric | points kept a metric | bytes a point with all its methods",
        [],
    );
    let mut outcome = Ok(());
    for history in &trial::HISTORIES {
        eprintln!("growth: a full history in policy {}", history.policy);
        match trial::history_bytes(bench, history, metrics) {
            Ok(stored) => {
                let each = stored / metrics as f64;
                table.rows.push(vec![
                    history.policy.to_owned(),
                    bytes(each),
                    history.points_kept.to_string(),
                    bytes(each / history.points_kept as f64),
                ]);
                let name = format!("a full history in policy {}, a metric", history.policy);
                findings.compare(name, Value::Bytes(each as u64));
            }
            Err(error) => outcome = Err(error),
        }
        if bench.context.stop.is_set() || outcome.is_err() {
            break;
        }
    }
    findings.tables.push(table);
    outcome
}

/// A table, and a plot of the rates.
fn tell(findings: &mut Findings, what: &str, taken: &Curve) {
    let cpu_us = |sample: &Sample| Some(1e6 * sample.work.cpu_seconds? / sample.work.measures);
    let rows = taken.iter().map(|(place, sample)| {
        vec![
            place.to_string(),
            short(sample.work.accepted()) + "/s",
            short(sample.work.rate()) + "/s",
            cpu_us(sample).map_or("-".to_owned(), |us| format!("{us:.2} us")),
            bytes(sample.memory_bytes),
            bytes(sample.disk_bytes),
            sample.read_us.map_or("-".to_owned(), |us| format!("{} us", short(us))),
        ]
    });
    let first = what.split(',').next().unwrap_or(what);
    let headings = format!(
        "{first} | accepted | processed | processor time a measure | memory | disk | read the last hour"
    );
    findings.tables.push(Table::new(format!("against {what}"), &headings, rows));
    findings.plots.push(Plot::new(
        format!("Measures a second against {what}"),
        Axis::logarithmic(what),
        Axis::linear("measures a second"),
        vec![
            line("accepted", taken, |sample| sample.work.accepted()),
            line("pushed and processed", taken, |sample| sample.work.rate()),
        ],
    ));
}

fn line(name: &str, taken: &Curve, value: fn(&Sample) -> f64) -> Line {
    Line::new(name, taken.iter().map(|(place, sample)| (*place as f64, value(sample))))
}

fn memory_plot(what: &str, taken: &Curve) -> Plot {
    Plot::new(
        format!("Memory and disk against {what}"),
        Axis::logarithmic(what),
        Axis::logarithmic("bytes"),
        vec![
            line("memory", taken, |sample| sample.memory_bytes),
            line("disk", taken, |sample| sample.disk_bytes),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rows::process::Processed;

    #[test]
    fn a_curve_becomes_a_table_and_a_plot() {
        let sample = |seconds| Sample {
            work: Processed {
                measures: 1_000.0,
                pushed: Duration::from_secs_f64(seconds / 2.0),
                elapsed: Duration::from_secs_f64(seconds),
                cpu_seconds: Some(0.001),
            },
            memory_bytes: 2e6,
            disk_bytes: 3e6,
            read_us: None,
        };
        let mut findings = Findings::default();
        tell(&mut findings, "sacks, 10 metrics", &vec![(16, sample(1.0)), (128, sample(2.0))]);
        assert_eq!(findings.tables[0].headings[0], "sacks");
        assert_eq!(
            findings.tables[0].rows[1],
            ["128", "1.00k/s", "500/s", "1.00 us", "2.00MB", "3.00MB", "-"]
        );
        assert_eq!(findings.plots[0].lines[1].points, [(16.0, 1_000.0), (128.0, 500.0)]);
    }
}
