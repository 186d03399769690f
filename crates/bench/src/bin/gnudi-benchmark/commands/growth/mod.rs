//! `gnudi-benchmark growth`: throughput, memory and disk by number of metrics, stored points, sacks and workers; and
//! the disk use of a metric with a full history.
//!
//! It measures gnudi only, on servers that it starts itself; for other servers there is `versus`.

mod trial;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    context::Context,
    findings::{Axis, Findings, Line, Plot, Table, Value},
    rows::counts::Scale,
    sheet::Sheet,
    table::{bytes, short},
};
use trial::{Sample, Store};

/// Measure gnudi's throughput, memory and disk use as its store grows.
#[derive(Clone, Debug, Args)]
pub struct GrowthOptions {
    /// small: about a minute, up to 50,000 metrics; full: some minutes, up to a million.
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    scale: Scale,
    /// What to vary.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Dimension::value_variants().to_vec())]
    only: Vec<Dimension>,
    /// Numbers of metrics to measure, ascending, instead of the scale's.
    #[arg(long, value_delimiter = ',')]
    metrics: Vec<usize>,
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

pub fn run(options: &GrowthOptions, context: &Context) -> Result<Findings> {
    let mut findings = Findings::new("Throughput, memory and disk of gnudi against what grows, each alone");
    findings.note("disk: with what the log of measures keeps reserved, but for the disk of histories");
    let is_small = options.scale == Scale::Small;
    let mut study = Study { context, is_small, findings, by_metrics: Curve::new(), history_bytes: None };
    for dimension in &options.only {
        if context.stop.is_set() {
            break;
        }
        match dimension {
            Dimension::Metrics => study.metrics(&options.metrics)?,
            Dimension::Points => study.points()?,
            Dimension::Sacks => study.sacks()?,
            Dimension::Workers => study.workers()?,
            Dimension::Disk => study.disk()?,
        }
    }
    study.plan();
    Ok(study.findings)
}

/// Policy whose history is planned for.
const PLANNED_POLICY: &str = "medium";
/// Metrics of a planned server.
const SERVER_METRICS: usize = 30;

/// One run of the command.
struct Study<'a> {
    context: &'a Context,
    is_small: bool,
    findings: Findings,
    by_metrics: Curve,
    /// Disk of a metric with a full history in the planned policy.
    history_bytes: Option<f64>,
}

impl Study<'_> {
    /// Takes a sample for each value until the run is stopped, and shows the samples.
    fn curve(
        &mut self,
        what: &str,
        places: &[usize],
        mut sample: impl FnMut(usize) -> Result<Sample>,
    ) -> Result<Curve> {
        let mut taken = Curve::new();
        for &place in places {
            eprintln!("growth: {place} {what}");
            let sample = sample(place);
            // Checks fail after an interruption.
            if self.context.stop.is_set() {
                break;
            }
            taken.push((place, sample?));
        }
        tell(&mut self.findings, what, &taken);
        Ok(taken)
    }

    fn metrics(&mut self, chosen: &[usize]) -> Result<()> {
        let places: &[usize] = if !chosen.is_empty() {
            chosen
        } else if self.is_small {
            &[1_000, 5_000, 20_000, 50_000]
        } else {
            &[1_000, 10_000, 100_000, 300_000, 1_000_000]
        };
        let (context, what) = (self.context, "metrics of policy medium, a measure each a call");
        let taken = self.curve(what, places, |metrics| trial::on_server(context, "", metrics, 500_000))?;
        self.findings.plots.push(memory_plot("metrics", &taken));
        if let [(few, first), .., (many, last)] = &taken[..] {
            let per_metric = Value::bytes(further_metric_bytes(&taken));
            self.findings.compare("memory for each further metric", per_metric);
            let percent = Value::Percent(100.0 * last.work.rate() / first.work.rate());
            self.findings.compare(format!("processed with {many} metrics, of the rate with {few}"), percent);
        }
        self.by_metrics = taken;
        Ok(())
    }

    fn points(&mut self) -> Result<()> {
        const METRICS: usize = 200;
        let places = [60, 1_000, 10_000, 100_000];
        let places = if self.is_small { &places[..3] } else { &places };
        let mut store = Store::new(self.context, METRICS)?;
        let what = format!("points already stored in each of {METRICS} metrics");
        self.curve(&what, places, |points| store.at_points(points, 120_000)).map(drop)
    }

    /// The metrics of servers with a certain number of sacks or workers.
    fn configured_metrics(&self) -> usize {
        if self.is_small { 10_000 } else { 50_000 }
    }

    fn sacks(&mut self) -> Result<()> {
        let (context, metrics) = (self.context, self.configured_metrics());
        let what = format!("sacks, {metrics} metrics");
        let taken = self.curve(&what, &[16, 128, 1_024, 16_384], |sacks| {
            trial::on_server(context, &format!("[incoming]\nsacks = {sacks}\n"), metrics, 500_000)
        })?;
        self.findings.plots.push(memory_plot(&what, &taken));
        Ok(())
    }

    fn workers(&mut self) -> Result<()> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places: Vec<usize> = std::iter::successors(Some(1), |count| Some(2 * count))
            .take_while(|&count| count <= 2 * processors)
            .collect();
        let (context, metrics) = (self.context, self.configured_metrics());
        let what = format!("workers, {metrics} metrics, {processors} processors");
        let sample = |workers| {
            trial::on_server(context, &format!("[metricd]\nworkers = {workers}\n"), metrics, 1_000_000)
        };
        self.curve(&what, &places, sample).map(drop)
    }

    fn disk(&mut self) -> Result<()> {
        let metrics = if self.is_small { 10 } else { 40 };
        let mut table = Table::new(
            format!("on disk: {metrics} metrics that hold all that their policy keeps, with all its methods"),
            "policy | bytes a metric | points kept a metric | bytes a point with all its methods",
            [],
        );
        for history in &trial::HISTORIES {
            let (policy, points) = (history.policy, history.points_kept);
            eprintln!("growth: a full history in policy {policy}");
            let stored = trial::history_bytes(self.context, history, metrics);
            // Checks fail after an interruption.
            if self.context.stop.is_set() {
                break;
            }
            let each = stored? / metrics as f64;
            let cells = [policy.to_owned(), bytes(each), points.to_string(), bytes(each / points as f64)];
            table.rows.push(cells.to_vec());
            self.findings.compare(format!("a full history in policy {policy}, a metric"), Value::bytes(each));
            if policy == PLANNED_POLICY {
                self.history_bytes = Some(each);
            }
        }
        self.findings.tables.push(table);
        Ok(())
    }

    /// What clouds of some sizes take, by arithmetic from the measured figures.
    fn plan(&mut self) {
        let (Some(history_bytes), Some((_, first)), Some((most, _))) =
            (self.history_bytes, self.by_metrics.first(), self.by_metrics.last())
        else {
            return;
        };
        let each_bytes = further_metric_bytes(&self.by_metrics);
        let rows = [1_000, 10_000, 33_000, 100_000, 333_000].map(|servers| {
            let metrics = servers * SERVER_METRICS;
            let measures_a_second = metrics as f64 / 60.0;
            let processors = cpu_us_at(&self.by_metrics, metrics).map(|us| measures_a_second * us / 1e6);
            let extrapolated = if metrics > *most { " (extrapolated)" } else { "" };
            vec![
                servers.to_string(),
                format!("{metrics}{extrapolated}"),
                short(measures_a_second),
                processors.map_or("-".to_owned(), short),
                bytes(first.memory_bytes + each_bytes * metrics as f64),
                bytes(history_bytes * metrics as f64),
            ]
        });
        self.findings.tables.push(Table::new(
            format!(
                "clouds polled by the minute: {SERVER_METRICS} metrics a server, policy {PLANNED_POLICY}; \
                 computed from the figures above"
            ),
            "servers | metrics | measures/s | processors | memory | disk when full",
            rows,
        ));
    }
}

/// Memory for a further metric, from the first sample to the last.
fn further_metric_bytes(by_metrics: &Curve) -> f64 {
    match &by_metrics[..] {
        [(few, first), .., (many, last)] => {
            ((last.memory_bytes - first.memory_bytes) / (many - few) as f64).max(0.0)
        }
        _ => 0.0,
    }
}

/// Processor time of a measure with so many metrics: of the next larger sample, else of the last.
fn cpu_us_at(by_metrics: &Curve, metrics: usize) -> Option<f64> {
    let (_, sample) = by_metrics.iter().find(|(count, _)| *count >= metrics).or(by_metrics.last())?;
    sample.work.cpu_us()
}

/// A table, and a plot of the rates.
fn tell(findings: &mut Findings, what: &str, taken: &Curve) {
    let first = what.split(',').next().unwrap_or(what);
    let mut sheet = Sheet::<(usize, Sample)>::new();
    sheet.text(first, |(place, _)| place.to_string());
    sheet.value("accepted", |(_, sample)| Value::rate(sample.work.accepted(), "measure"));
    sheet.value("processed", |(_, sample)| Value::rate(sample.work.rate(), "measure"));
    sheet.value("processor time a measure", |(_, sample)| {
        sample.work.cpu_us().map(|us| Value::each(us, "us"))
    });
    sheet.value("memory", |(_, sample)| Value::bytes(sample.memory_bytes));
    sheet.value("disk", |(_, sample)| Value::bytes(sample.disk_bytes));
    sheet.value("read the last hour", |(_, sample)| sample.read.map(Value::latency));
    findings.tables.push(sheet.table(format!("against {what}"), taken, |_| None));
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
    use crate::{load::Outcome, measurement::Work};

    fn sample(seconds: f64) -> Sample {
        Sample {
            work: Work {
                done: 1_000.0,
                elapsed: Duration::from_secs_f64(seconds),
                outcome: Outcome { elapsed: Duration::from_secs_f64(seconds / 2.0), ..Outcome::default() },
                cpu_seconds: Some(seconds / 1_000.0),
                notes: Vec::new(),
            },
            memory_bytes: 2e6 * seconds,
            disk_bytes: 3e6,
            read: None,
        }
    }

    #[test]
    fn what_lies_between_samples_costs_what_the_next_larger_does() {
        let curve = vec![(1_000, sample(1.0)), (1_001_000, sample(3.0))];
        assert_eq!(further_metric_bytes(&curve), 4.0);
        for (metrics, us) in [(10, 1.0), (1_000, 1.0), (1_001, 3.0), (5_000_000, 3.0)] {
            assert_eq!(cpu_us_at(&curve, metrics), Some(us), "{metrics}");
        }
        assert_eq!((further_metric_bytes(&vec![]), cpu_us_at(&vec![], 1)), (0.0, None));
    }

    #[test]
    fn a_curve_becomes_a_table_and_a_plot() {
        let mut findings = Findings::default();
        tell(&mut findings, "sacks, 10 metrics", &vec![(16, sample(1.0)), (128, sample(2.0))]);
        assert_eq!(findings.tables[0].headings[0], "sacks");
        assert_eq!(
            findings.tables[0].rows[1],
            ["128", "1.00k/s", "500/s", "2.00 us", "4.00MB", "3.00MB", "-"]
        );
        assert_eq!(findings.plots[0].lines[1].points, [(16.0, 1_000.0), (128.0, 500.0)]);
    }
}
