//! `gnudi-benchmark processing`: how fast accepted measures are folded into aggregates, and the backlog meanwhile.
//!
//! Three published workloads: many metrics with an hour of points each; single measures streamed over the same number
//! of metrics; and the worst case of a worker, batches of one measure for one metric with many points. After each, the
//! counts in the aggregates are checked, since losing measures would be fast.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gnudi_bench::progress;
use gnudi_client::ArchivePolicySpec;

use super::{check_peers, in_turn, within};
use crate::{
    body::{START_MS, Span, Values},
    context::Context,
    findings::{Axis, Findings, Line, Mark, Plot, Value},
    load::Requests,
    measurement::Work,
    peers::{Peer, Server, value_name},
    rows::{
        batch,
        process::{self, CONNECTIONS, Push},
        setup,
    },
    sheet::Sheet,
    table::short,
};

/// Measure how fast measures are folded into aggregates, and the backlog meanwhile.
#[derive(Clone, Debug, Args)]
pub struct ProcessingOptions {
    /// Servers, in order: gnudi, gnocchi.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Gnudi, Peer::Gnocchi])]
    peers: Vec<Peer>,
    /// Measure this running server instead; created metrics and measures are not removed.
    #[arg(long, value_name = "URL", conflicts_with = "peers")]
    endpoint: Option<String>,
    /// Only these workloads.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Worst, Workload::Fold, Workload::Stream])]
    only: Vec<Workload>,
    /// Metrics of fold and stream.
    #[arg(short, long, value_name = "N", default_value_t = 20_000, value_parser = within(1..=1_000_000))]
    metrics: usize,
    /// Measures per metric.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = within(1..=10_000))]
    points: usize,
    /// Batches of one measure in the worst case.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = within(1..=40_000))]
    batches: usize,
    /// Initial measures of the worst case's metric.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = within(1..=40_000))]
    held: usize,
    /// Divisor of Gnocchi's numbers of metrics and worst-case batches, since it is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = within(1..=1_000))]
    gnocchi_divisor: usize,
}

/// A workload, in the order of measuring: the worst case first, while nothing else is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Batches of one measure for one metric with many points.
    Worst,
    /// All points of a metric in one call, many metrics per call.
    Fold,
    /// One measure of each metric in turn.
    Stream,
}

/// Requests are built before the clock starts.
const MEASURES_MAX: usize = 20_000_000;

/// Gnocchi 2's policy medium, with which the worst case was published: with a granularity of a day, all measures of the
/// day are raw points that each pass must carry.
const WORST_POLICY: &str = "gnudi-bench-worst";
const WORST_DEFINITION: [(u32, usize); 3] = [(60, 1440), (3600, 168), (86_400, 365)];
const WORST_METHODS: [&str; 8] = ["std", "count", "95pct", "min", "max", "sum", "median", "mean"];
/// 80,000 of them are within a day.
const WORST_STEP_MS: i64 = 1_000;

/// gnudi counts the metrics of a large backlog at most once a second.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Workload {
    fn title(self) -> &'static str {
        match self {
            Workload::Fold => "Many points of many metrics",
            Workload::Stream => "Single measures streamed over many metrics",
            Workload::Worst => "The worst case of a worker: batches of one measure for one metric",
        }
    }

    /// A description with its sizes.
    fn text(self, sizes: &ProcessingOptions) -> String {
        let ProcessingOptions { metrics, points, batches, held, .. } = sizes;
        match self {
            Workload::Fold => format!("{metrics} metrics x {points} points, batched"),
            Workload::Stream => format!("{} single measures over {metrics} metrics", metrics * points),
            Workload::Worst => format!("{batches} batches of 1 for a metric that holds {held}"),
        }
    }

    fn push(self, sizes: &ProcessingOptions, server: &Server) -> Result<Push> {
        let ProcessingOptions { metrics, points, .. } = *sizes;
        match self {
            Workload::Fold => Push::fold(server, metrics, points),
            Workload::Stream => Push::stream(server, metrics, points),
            Workload::Worst => worst(sizes, server),
        }
    }
}

/// A server's results of a workload.
struct Done {
    workload: Workload,
    peer: Peer,
    text: String,
    work: Work,
    watched: Watched,
}

/// Measures each server in turn; failures are noted, and the others continue.
pub fn run(options: &ProcessingOptions, context: &Context) -> Result<Findings> {
    let peers = check(options)?;
    let mut findings = Findings::new("measures pushed until the backlog is empty, and the backlog meanwhile");
    let mut done = Vec::new();
    let failed = |peer: Peer| format!("{}: not measured, or not all of it", peer.name());
    in_turn(peers.iter().copied(), context, &mut findings, failed, |peer| {
        measure(&options.for_peer(peer), peer, context, &mut done)
    });
    ensure!(!done.is_empty() || context.stop.is_set(), "nothing was measured: {}", findings.notes.join("; "));
    tell(&done, peers.len() > 1, &mut findings);
    let divisor = options.gnocchi_divisor;
    if peers.contains(&Peer::Gnocchi) && divisor > 1 {
        findings
            .note(format!("gnocchi gets one of {divisor} of the metrics and batches: rates are compared"));
        findings.note("gnocchi's backlog counts what a call brought for a metric as one");
    }
    Ok(findings)
}

fn check(options: &ProcessingOptions) -> Result<Vec<Peer>> {
    let measures = options.metrics * options.points;
    ensure!(measures <= MEASURES_MAX, "{measures} measures, at most {MEASURES_MAX}");
    if options.endpoint.is_some() {
        return Ok(vec![Peer::Gnudi]);
    }
    check_peers(&options.peers, &[Peer::Gnudi, Peer::Gnocchi], "tells of no backlog")?;
    Ok(options.peers.clone())
}

impl ProcessingOptions {
    /// The sizes of a server's workloads.
    fn for_peer(&self, peer: Peer) -> Self {
        let divisor = if peer == Peer::Gnocchi { self.gnocchi_divisor } else { 1 };
        let (metrics, batches) = (self.metrics.div_ceil(divisor), self.batches.div_ceil(divisor));
        ProcessingOptions { metrics, batches, ..self.clone() }
    }
}

/// All workloads on a server of its own.
fn measure(sizes: &ProcessingOptions, peer: Peer, context: &Context, done: &mut Vec<Done>) -> Result<()> {
    let server = match &sizes.endpoint {
        Some(url) => Server::running(url, context)?,
        None => Server::start(peer, context)?,
    };
    for &workload in Workload::value_variants() {
        if sizes.only.contains(&workload) && !context.stop.is_set() {
            let text = workload.text(sizes);
            eprintln!("{}: {text}", peer.name());
            let push = workload.push(sizes, &server)?;
            let (work, watched) = watch(&server, || push.run(&server))?;
            push.check(&server)?;
            done.push(Done { workload, peer, text, work, watched });
        }
    }
    Ok(())
}

/// What the polls have seen.
#[derive(Default)]
struct Watched {
    /// The backlog over time, in seconds since the start of the work.
    points: Vec<(f64, f64)>,
    peak_measures: u64,
    peak_memory_bytes: Option<u64>,
}

/// Runs the work, polls the backlog and the memory of the server meanwhile, on another thread, and once more at the end.
/// Polling is rare, so that it does not slow down the load.
fn watch<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, Watched)> {
    let client = server.client()?;
    let (mut watched, start) = (Watched::default(), Instant::now());
    let outcome = progress::watch(POLL_INTERVAL, work, || {
        // A server under load may refuse: the next poll may succeed.
        if let Ok(status) = server.context.runtime.block_on(client.status()) {
            let measures = status.backlog.measures;
            watched.points.push((start.elapsed().as_secs_f64(), measures as f64));
            watched.peak_measures = watched.peak_measures.max(measures);
            watched.peak_memory_bytes = watched.peak_memory_bytes.max(server.probe.memory_bytes());
        }
    });
    Ok((outcome?, watched))
}

fn worst(sizes: &ProcessingOptions, server: &Server) -> Result<Push> {
    const HELD_CALL: usize = 5_000;
    let (held, batches) = (sizes.held, sizes.batches);
    let methods = Some(WORST_METHODS.map(str::to_owned).to_vec());
    let policy = setup::policy(WORST_POLICY, &WORST_DEFINITION);
    setup::create_policy(server, &ArchivePolicySpec { aggregation_methods: methods, ..policy })?;
    let metrics = batch::metrics(server, WORST_POLICY, 1)?;
    let mut values = Values::new(1);
    let mut post = |first: usize, count: usize| {
        let start_ms = START_MS + first as i64 * WORST_STEP_MS;
        metrics.request(server, 0..1, Span { start_ms, step_ms: WORST_STEP_MS, count }, &mut values)
    };
    let first = (0..held).step_by(HELD_CALL).map(|first| post(first, HELD_CALL.min(held - first)));
    process::until_processed(server, &Requests::listed(first.collect()), 1, held)?;
    let requests = (0..batches).map(|index| post(held + index, 1)).collect();
    Ok(Push { held: held + batches, ..Push::new(metrics, requests, CONNECTIONS, batches) })
}

fn tell(done: &[Done], several: bool, findings: &mut Findings) {
    let mut sheet = Sheet::<Done>::new();
    sheet.text("", |done| done.peer.name().to_owned());
    sheet.text("work", |done| done.text.clone());
    sheet.value("pushed in", |done| Value::seconds(done.work.outcome.elapsed));
    sheet.value("drained after", |done| Value::seconds(done.work.drained_after())).figure("drained after");
    sheet.value("together", |done| Value::seconds(done.work.elapsed)).figure("time");
    sheet.value("measures/s", |done| Value::rate(done.work.rate(), "measure")).figure("speed").compared();
    sheet.text("a cpu s", |done| {
        let us = done.work.cpu_us().filter(|us| *us > 0.0);
        us.map_or_else(String::new, |us| short(1e6 / us))
    });
    sheet.value("backlog peak", |done| Value::Count(done.watched.peak_measures)).figure("backlog peak");
    sheet.value("memory peak", |done| done.watched.peak_memory_bytes.map(Value::Bytes)).figure("memory peak");
    for done in done {
        let peer = if several { format!("{} ", done.peer.name()) } else { String::new() };
        let name = peer + &value_name(&done.workload);
        findings.tell(format!("{name} measures"), Value::Count(done.work.done as u64));
        sheet.add_figures(done, &name, findings);
    }
    for &workload in Workload::value_variants() {
        let of_workload = || done.iter().filter(|done| done.workload == workload);
        let gnudi = of_workload().find(|done| done.peer == Peer::Gnudi);
        if of_workload().next().is_some() {
            findings.tables.push(sheet.table(workload.title(), of_workload(), |_| gnudi));
        }
        findings.plots.extend(of_workload().map(plot));
    }
}

/// The backlog over time, one plot per server: times and sizes differ too much for a common one.
fn plot(done: &Done) -> Plot {
    let title = format!("{}: backlog, {}", done.text, done.peer.name());
    let line = Line::new(done.peer.name(), done.watched.points.iter().copied());
    let (x, y) = (Axis::linear("seconds"), Axis::linear("measures waiting"));
    let pushed = Mark::new(done.work.outcome.elapsed.as_secs_f64(), "all pushed");
    Plot { marks: vec![pushed], ..Plot::new(title, x, y, vec![line]) }
}

#[cfg(test)]
mod tests {
    use super::{super::parse_options as parse, *};

    #[test]
    fn gnocchi_gets_its_share() {
        let options: ProcessingOptions = parse(&["--metrics", "100", "--gnocchi-divisor", "30"]);
        assert_eq!(options.for_peer(Peer::Gnudi).metrics, 100);
        let sizes = options.for_peer(Peer::Gnocchi);
        assert_eq!((sizes.metrics, sizes.batches, sizes.held, sizes.points), (4, 334, 10_000, 60));
    }
}
