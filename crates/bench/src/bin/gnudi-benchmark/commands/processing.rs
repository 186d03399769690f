//! `gnudi-benchmark processing`: how fast accepted measures are folded into aggregates, and the backlog meanwhile.
//!
//! Three published workloads: many metrics with an hour of points each; single measures streamed over the same number
//! of metrics; and the worst case of a worker, batches of one measure for one metric with many points. After each, the
//! counts in the aggregates are checked, since losing measures would be fast.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::{check_peers, in_turn, report};
use crate::{
    backlog::{self, Watched},
    body::{START_MS, Span, Values},
    context::Context,
    findings::{Axis, Findings, Line, Mark, Plot, Table, Value},
    load::Requests,
    peers::{Peer, Server},
    rows::{
        Bench,
        batch::{self, Metrics},
        process::{self, Processed},
        setup,
    },
    table::{bytes, seconds, short, times},
};

/// Measure how fast measures are folded into aggregates, and the backlog meanwhile.
#[derive(Clone, Debug, Args)]
pub struct ProcessingOptions {
    /// Servers, in order: gnudi, gnocchi.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Gnudi, Peer::Gnocchi])]
    pub peers: Vec<Peer>,
    /// Measure this running server instead; created metrics and measures are not removed.
    #[arg(long, value_name = "URL", conflicts_with = "peers")]
    pub endpoint: Option<String>,
    /// Only these workloads.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Worst, Workload::Fold, Workload::Stream])]
    pub only: Vec<Workload>,
    /// Metrics of fold and stream.
    #[arg(short, long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub metrics: u32,
    /// Measures per metric.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub points: u32,
    /// Batches of one measure in the worst case.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=40_000))]
    pub batches: u32,
    /// Initial measures of the worst case's metric.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=40_000))]
    pub held: u32,
    /// Divisor of Gnocchi's numbers of metrics and worst-case batches, since it is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub gnocchi_divisor: u32,
    /// Connections that push.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub connections: u32,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// All points of a metric in one call, many metrics per call.
    Fold,
    /// One measure of each metric in turn.
    Stream,
    /// Batches of one measure for one metric with many points.
    Worst,
}

/// Requests are built before the clock starts.
const MEASURES_MAX: u64 = 20_000_000;

const POLICY: &str = "medium";

/// Gnocchi 2's policy medium, with which the worst case was published: with a granularity of a day, all measures of the
/// day are raw points that each pass must carry.
const WORST_POLICY: &str = "gnudi-bench-worst";
const WORST_DEFINITION: [(u32, usize); 3] = [(60, 1440), (3600, 168), (86_400, 365)];
const WORST_METHODS: [&str; 8] = ["std", "count", "95pct", "min", "max", "sum", "median", "mean"];
/// 80,000 of them are within a day.
const WORST_STEP_MS: i64 = 1_000;

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Fold => "fold",
            Workload::Stream => "stream",
            Workload::Worst => "worst",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Workload::Fold => "Many points of many metrics",
            Workload::Stream => "Single measures streamed over many metrics",
            Workload::Worst => "The worst case of a worker: batches of one measure for one metric",
        }
    }
}

/// The sizes of a server's workloads.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub metrics: usize,
    pub points: usize,
    pub batches: usize,
    pub held: usize,
    pub connections: usize,
}

impl Counts {
    fn of(options: &ProcessingOptions, peer: Peer) -> Self {
        let divisor = if peer == Peer::Gnocchi { options.gnocchi_divisor } else { 1 };
        let share = |count: u32| count.div_ceil(divisor) as usize;
        Counts {
            metrics: share(options.metrics),
            points: options.points as usize,
            batches: share(options.batches),
            held: options.held as usize,
            connections: options.connections as usize,
        }
    }

    /// A description of the workload.
    fn text(self, part: Workload) -> String {
        let Counts { metrics, points, batches, held, .. } = self;
        match part {
            Workload::Fold => format!("{metrics} metrics x {points} points, batched"),
            Workload::Stream => format!("{} single measures over {metrics} metrics", metrics * points),
            Workload::Worst => format!("{batches} batches of 1 for a metric that holds {held}"),
        }
    }
}

/// A server's results of a workload.
pub struct Done {
    part: Workload,
    peer: Peer,
    text: String,
    pub work: Processed,
    pub watched: Watched,
}

/// Measures each server in turn; failures are noted, and the others continue.
pub fn run(options: &ProcessingOptions, context: &mut Context) -> Result<Findings> {
    let peers = check(options)?;
    if let Some(endpoint) = &options.endpoint {
        context.programs.gnudi_url = Some(endpoint.clone());
    }
    let mut findings = Findings::new("measures pushed until the backlog is empty, and the backlog meanwhile");
    let mut done = Vec::new();
    let failed = |peer: Peer| format!("{}: not measured, or not all of it", peer.name());
    in_turn(peers.iter().copied(), context, &mut findings, failed, |peer| {
        measure(options, peer, context, &mut done)
    });
    ensure!(!done.is_empty() || context.stop.is_set(), "nothing was measured: {}", findings.notes.join("; "));
    context.mark_partial(&mut findings, "interrupted");
    tell(&done, peers.len() > 1, &mut findings);
    if peers.contains(&Peer::Gnocchi) && options.gnocchi_divisor > 1 {
        let divisor = options.gnocchi_divisor;
        findings
            .note(format!("gnocchi gets one of {divisor} of the metrics and batches: rates are compared"));
        findings.note("gnocchi's backlog counts what a call brought for a metric as one");
    }
    Ok(findings)
}

fn check(options: &ProcessingOptions) -> Result<Vec<Peer>> {
    let measures = u64::from(options.metrics) * u64::from(options.points);
    ensure!(measures <= MEASURES_MAX, "{measures} measures, at most {MEASURES_MAX}");
    if options.endpoint.is_some() {
        return Ok(vec![Peer::Gnudi]);
    }
    check_peers(&options.peers, &[Peer::Gnudi, Peer::Gnocchi], "tells of no backlog")?;
    Ok(options.peers.clone())
}

/// All workloads on a server of its own: the worst case first, while nothing else is in memory.
fn measure(options: &ProcessingOptions, peer: Peer, context: &Context, done: &mut Vec<Done>) -> Result<()> {
    let bench = Bench::new(report::ReportOptions::default(), context);
    let server = Server::start(peer, context)?;
    let counts = Counts::of(options, peer);
    for part in [Workload::Worst, Workload::Fold, Workload::Stream] {
        if options.only.contains(&part) && !context.stop.is_set() {
            let text = counts.text(part);
            eprintln!("{}: {text}", peer.name());
            done.push(match part {
                Workload::Fold => fold(&bench, &server, counts, text)?,
                Workload::Stream => stream(&bench, &server, counts, text)?,
                Workload::Worst => worst(&bench, &server, counts, text)?,
            });
        }
    }
    Ok(())
}

/// Pushes all points of each metric, many metrics per call.
pub fn fold(bench: &Bench, server: &Server, counts: Counts, text: String) -> Result<Done> {
    let metrics = batch::metrics(bench, server, POLICY, counts.metrics)?;
    let requests = process::fold_requests(&metrics, server, counts.points);
    let load = (requests, counts.connections, counts.metrics * counts.points);
    let done = push(bench, server, Workload::Fold, text, load)?;
    check_counts(bench, server, &metrics, counts.points)?;
    Ok(done)
}

/// Streams one measure of each metric in turn.
pub fn stream(bench: &Bench, server: &Server, counts: Counts, text: String) -> Result<Done> {
    let metrics = batch::metrics(bench, server, POLICY, counts.metrics)?;
    let connections = counts.connections.min(counts.metrics);
    let requests = process::stream_requests(&metrics, bench, server, counts.points, connections);
    let load = (requests, connections, counts.metrics * counts.points);
    let done = push(bench, server, Workload::Stream, text, load)?;
    check_counts(bench, server, &metrics, counts.points)?;
    Ok(done)
}

fn worst(bench: &Bench, server: &Server, counts: Counts, text: String) -> Result<Done> {
    const HELD_CALL: usize = 5_000;
    let context = bench.context;
    setup::create_policy(context, server, WORST_POLICY, &WORST_DEFINITION, Some(&WORST_METHODS))?;
    let metrics = batch::metrics(bench, server, WORST_POLICY, 1)?;
    let mut values = Values::new(1);
    let mut post = |first: usize, count: usize| {
        let start_ms = START_MS + first as i64 * WORST_STEP_MS;
        metrics.request(server, 0..1, Span { start_ms, step_ms: WORST_STEP_MS, count }, &mut values)
    };
    let held = (0..counts.held).step_by(HELD_CALL);
    let held: Vec<_> = held.map(|first| post(first, HELD_CALL.min(counts.held - first))).collect();
    process::until_processed(bench, server, &Requests::Listed(held), 1, counts.held)?;
    let requests = Requests::Listed((0..counts.batches).map(|index| post(counts.held + index, 1)).collect());
    let done = push(bench, server, Workload::Worst, text, (requests, counts.connections, counts.batches))?;
    check_counts(bench, server, &metrics, counts.held + counts.batches)?;
    Ok(done)
}

/// Pushes `(requests, connections, measures)` until the backlog is empty.
fn push(
    bench: &Bench,
    server: &Server,
    part: Workload,
    text: String,
    (requests, connections, measures): (Requests, usize, usize),
) -> Result<Done> {
    let (work, watched) = backlog::watch(bench.context, server, || {
        process::processed(bench, server, &requests, connections, measures)
    })?;
    Ok(Done { part, peer: server.peer, text, work, watched })
}

/// An interrupted run has fewer measures.
fn check_counts(bench: &Bench, server: &Server, metrics: &Metrics, measures: usize) -> Result<()> {
    if bench.context.stop.is_set() {
        return Ok(());
    }
    setup::check_counts(bench, server, metrics.ids(), measures)
}

fn tell(done: &[Done], several: bool, findings: &mut Findings) {
    let mut parts: Vec<Workload> = Vec::new();
    for done in done {
        if !parts.contains(&done.part) {
            parts.push(done.part);
        }
        let name = |figure: &str| {
            let peer = if several { format!("{} ", done.peer.name()) } else { String::new() };
            format!("{peer}{} {figure}", done.part.name())
        };
        findings.tell(name("measures"), Value::Count(done.work.measures as u64));
        findings.compare(name("time"), Value::Seconds(done.work.elapsed.as_secs_f64()));
        findings.compare(name("speed"), Value::Rate(done.work.rate(), "measure"));
        findings.compare(name("drained after"), Value::Seconds(done.work.drained_after().as_secs_f64()));
        findings.compare(name("backlog peak"), Value::Count(done.watched.peak_measures()));
        if let Some(bytes) = done.watched.peak_memory_bytes() {
            findings.compare(name("memory peak"), Value::Bytes(bytes));
        }
    }
    for part in parts {
        let of_part: Vec<&Done> = done.iter().filter(|done| done.part == part).collect();
        findings.tables.push(table(part, &of_part));
        findings.plots.extend(of_part.iter().map(|done| plot(done)));
    }
}

/// One line per server.
fn table(part: Workload, done: &[&Done]) -> Table {
    let gnudi = done.iter().find(|done| done.peer == Peer::Gnudi);
    let rows = done.iter().map(|done| {
        let ratio =
            gnudi.filter(|_| done.peer != Peer::Gnudi).map(|gnudi| gnudi.work.rate() / done.work.rate());
        let per_cpu = done
            .work
            .cpu_seconds
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| done.work.measures / seconds);
        vec![
            done.peer.name().to_owned(),
            done.text.clone(),
            seconds(done.work.pushed),
            seconds(done.work.drained_after()),
            seconds(done.work.elapsed),
            short(done.work.rate()),
            ratio.map(times).unwrap_or_default(),
            per_cpu.map(short).unwrap_or_default(),
            done.watched.peak_measures().to_string(),
            done.watched.peak_memory_bytes().map(|memory| bytes(memory as f64)).unwrap_or_default(),
        ]
    });
    let headings = "| work | pushed in | drained after | together | measures/s | gnudi is | a cpu s | backlog peak | memory peak";
    Table::new(part.title(), headings, rows)
}

/// The backlog over time, one plot per server: times and sizes differ too much for a common one.
fn plot(done: &Done) -> Plot {
    let title = format!("{}: backlog, {}", done.text, done.peer.name());
    let line = Line::new(done.peer.name(), done.watched.points());
    let (x, y) = (Axis::linear("seconds"), Axis::linear("measures waiting"));
    let marks = vec![Mark::new(done.work.pushed.as_secs_f64(), "all pushed")];
    Plot { marks, ..Plot::new(title, x, y, vec![line]) }
}

#[cfg(test)]
mod tests {
    use super::{super::parse_options, *};

    fn parse(words: &[&str]) -> ProcessingOptions {
        parse_options(words)
    }

    #[test]
    fn gnocchi_gets_its_share() {
        let options = parse(&["--metrics", "100", "--gnocchi-divisor", "30"]);
        assert_eq!(Counts::of(&options, Peer::Gnudi).metrics, 100);
        let counts = Counts::of(&options, Peer::Gnocchi);
        assert_eq!((counts.metrics, counts.batches, counts.held, counts.points), (4, 334, 10_000, 60));
    }

    #[test]
    fn only_servers_with_a_backlog_are_measured() {
        assert_eq!(check(&parse(&["--peers", "gnocchi,gnudi"])).unwrap(), [Peer::Gnocchi, Peer::Gnudi]);
        assert_eq!(check(&parse(&["--endpoint", "http://h"])).unwrap(), [Peer::Gnudi]);
        assert!(check(&parse(&["--peers", "limit"])).is_err());
        assert!(check(&parse(&["--metrics", "1000000", "--points", "10000"])).is_err());
    }
}
