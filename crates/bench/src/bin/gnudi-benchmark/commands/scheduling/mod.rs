//! `gnudi-benchmark scheduling`: simulates orders in which workers process sacks, and their effect on backlog and
//! starvation.
//!
//! Simulated for 1 to 64 workers, since a local store is too fast to fall behind on available machines.

mod orders;
mod simulation;

use std::{num::NonZeroU16, time::Duration};

use clap::Args;
use gnudi_model::SackCount;

use crate::{
    context::Context,
    findings::{Axis, Findings, Line, Plot, Table, Value},
    sheet::Sheet,
    table::short,
};
use orders::{FRONT_BLOCK_SACKS, Order};
use simulation::{Outcome, Setup};

/// Compare the orders in which workers may process sacks: backlog and starvation.
#[derive(Clone, Debug, Args)]
pub struct SchedulingOptions {
    /// Numbers of workers to simulate.
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 18, 32, 54, 64],
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Vec<u16>,
    /// Metrics that get single measures in turn.
    #[arg(short, long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub metrics: u32,
    /// Measures per metric.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Measures per second, over all metrics.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: u32,
    /// Fixed cost of a pass in microseconds [default: three calls to a store at 3.15 ms each].
    #[arg(long, value_name = "US", default_value_t = 3 * 3150, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub pass_us: u32,
    /// Cost per metric in a pass, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 5)]
    pub metric_us: u32,
    /// Cost per measure in a pass, in nanoseconds.
    #[arg(long, value_name = "NS", default_value_t = 200)]
    pub measure_ns: u32,
    /// Number of sacks in the cases by sack; the others schedule metric by metric.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    pub sacks: u16,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Gathering time of a sack, `[metricd] gather_ms`.
const GATHER: Duration = Duration::from_millis(200);

/// An order, and its unit of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SchedulingCase {
    name: &'static str,
    order: Order,
    /// Whether the unit is a sack with many metrics, or about one metric.
    sacks: bool,
}

const KINDS: [SchedulingCase; 4] = [
    SchedulingCase { name: "front, by metric", order: Order::Front, sacks: false },
    SchedulingCase { name: "shared, by metric", order: Order::Shared, sacks: false },
    SchedulingCase { name: "ring, by metric", order: Order::Ring, sacks: false },
    SchedulingCase { name: "ring, by sack", order: Order::Ring, sacks: true },
];

/// The result of a case with this number of workers.
struct Simulated {
    kind: SchedulingCase,
    workers: u16,
    outcome: Outcome,
}

pub fn run(options: &SchedulingOptions, context: &Context) -> Findings {
    let title = format!(
        "{} single measures over {} metrics: today's order of sacks beside Gnocchi 3's order of metrics",
        u64::from(options.metrics) * u64::from(options.rounds),
        options.metrics
    );
    let mut findings = Findings::new(title);
    let simulated = simulate(options, context);
    tell(&simulated, options, &mut findings);
    findings
}

fn simulate(options: &SchedulingOptions, context: &Context) -> Vec<Simulated> {
    let mut simulated = Vec::new();
    for &workers in &options.workers {
        for kind in KINDS {
            if context.stop.is_set() {
                return simulated;
            }
            eprintln!("simulating {}, {workers} workers", kind.name);
            let sacks = if kind.sacks { NonZeroU16::new(options.sacks) } else { None };
            let outcome = simulation::run(Setup {
                metrics: options.metrics,
                rounds: options.rounds,
                rate: options.rate,
                seed: options.seed,
                pass: Duration::from_micros(options.pass_us.into()),
                metric: Duration::from_micros(options.metric_us.into()),
                measure: Duration::from_nanos(options.measure_ns.into()),
                order: kind.order,
                workers: workers.into(),
                sacks: SackCount(sacks.unwrap_or(NonZeroU16::MAX)),
                gather: GATHER,
            });
            simulated.push(Simulated { kind, workers, outcome });
        }
    }
    simulated
}

fn tell(simulated: &[Simulated], options: &SchedulingOptions, findings: &mut Findings) {
    let of = |kind: SchedulingCase| simulated.iter().filter(move |found| found.kind == kind);
    let (front, today) = (KINDS[0], KINDS[3]);
    for (old, new) in of(front).zip(of(today)) {
        let workers = old.workers;
        let share = 100.0 * new.outcome.peak as f64 / old.outcome.peak as f64;
        let name = format!("workers {workers}: backlog peak of ring by sack, of front's");
        findings.tell(name, Value::Percent(share));
        for (order, found) in [("front", old), ("ring by sack", new)] {
            let name = format!("workers {workers}: longest wait with {order}");
            findings.tell(name, Value::seconds(found.outcome.longest_wait));
        }
    }
    // As published: Gnocchi 4 with a third of the workers.
    let ring = KINDS[2];
    for (old, new) in of(front).flat_map(|old| of(ring).map(move |new| (old, new))) {
        if old.workers == 3 * new.workers {
            let share = 100.0 * new.outcome.peak as f64 / old.outcome.peak as f64;
            let name = format!(
                "workers {}, ring by metric: peak of the backlog, of front's with {}",
                new.workers, old.workers
            );
            findings.tell(name, Value::Percent(share));
        }
    }
    findings.tables.push(table(simulated));
    let series = |name: &str, value: fn(&Outcome) -> f64| {
        let line = |kind: &SchedulingCase| {
            let points = of(*kind).map(|found| (f64::from(found.workers), value(&found.outcome)));
            Line::new(kind.name, points)
        };
        let (x, y) = (Axis::logarithmic("workers"), Axis::logarithmic(name));
        Plot::new(format!("Simulated: {name}"), x, y, KINDS.iter().map(line).collect())
    };
    findings.plots.push(series("peak of the backlog, in measures", |outcome| outcome.peak as f64));
    findings
        .plots
        .push(series("longest wait of a measure, in seconds", |outcome| outcome.longest_wait.as_secs_f64()));
    for workers in &options.workers {
        let of_workers = simulated.iter().filter(|found| found.workers == *workers);
        let lines = of_workers.map(|found| Line::new(found.kind.name, found.outcome.backlog.clone()));
        findings.plots.push(Plot::new(
            format!("Simulated: backlog, {workers} workers"),
            Axis::linear("seconds"),
            Axis::linear("measures waiting"),
            lines.collect(),
        ));
    }
    notes(options, findings);
}

fn table(simulated: &[Simulated]) -> Table {
    let mut sheet = Sheet::<Simulated>::new();
    sheet.text("workers", |found| found.workers.to_string());
    sheet.text("order", |found| found.kind.name.to_owned());
    sheet.text("backlog peak", |found| short(found.outcome.peak as f64));
    sheet.value("drained after", |found| Value::seconds(found.outcome.drained_after));
    sheet.value("longest wait", |found| Value::seconds(found.outcome.longest_wait));
    sheet.value("mean wait", |found| Value::seconds(found.outcome.mean_wait));
    sheet.text("never reached", |found| found.outcome.never_reached.to_string());
    sheet.text("passes", |found| found.outcome.passes.to_string());
    sheet.table("Simulated: each order by the number of workers", simulated, |_| None)
}

fn notes(options: &SchedulingOptions, findings: &mut Findings) {
    findings.note(format!(
        "simulated in virtual time, not measured: {} measures/s come in, a pass costs \
         {} us, and {} us a metric, {} ns a measure in it (seed {})",
        options.rate, options.pass_us, options.metric_us, options.measure_ns, options.seed
    ));
    findings.note(format!(
        "front: each worker takes its block of {FRONT_BLOCK_SACKS} from the sorted list of metrics that wait, as Gnocchi 3 did, again and again, \
         without its lists growing and without what listing costs; shared: first come, first served, what gnudi does within a \
         process; ring: each worker has its own by consistent hashing"
    ));
    findings.note(format!(
        "by metric: a pass is over one metric, so that only the order differs; by sack: over one of {} sacks, as today",
        options.sacks
    ));
    findings.note("never reached: metrics not processed once when the last measure came");
}
