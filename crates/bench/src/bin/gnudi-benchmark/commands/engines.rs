//! `gnudi-benchmark engines`: gnudi and Gnocchi on shared engines, and the limit of each engine.
//!
//! Two workloads: pushes in batches of 5,000, and many metrics with an hour of points each, until processed. The
//! engines' processor time counts as the server's.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::{check_peers, in_turn, processing, report};
use crate::{
    context::Context,
    findings::{Findings, Table, Value},
    measurement::Measurement,
    peers::{
        Peer, Server,
        ceph::CephOptions,
        child::output_of,
        engines::{Engine, Engines, LIMIT_TIME, POOL},
    },
    rados::{
        Load, RadosWrite,
        peer::{self as rados_bench, Access},
    },
    rows::{Bench, push},
    table::{short, times},
};

/// Measure gnudi and Gnocchi on PostgreSQL with Redis, Ceph or S3, all started and stopped by the tool.
#[derive(Clone, Debug, Args)]
pub struct EnginesOptions {
    /// Engines for incoming measures and aggregates, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Engine::Redis, Engine::Ceph, Engine::S3])]
    pub only: Vec<Engine>,
    /// Servers, in order: gnudi, gnocchi.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Gnudi, Peer::Gnocchi])]
    pub peers: Vec<Peer>,
    /// Metrics with an hour of points each.
    #[arg(short, long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=300_000))]
    pub metrics: u32,
    /// Divisor of the number of metrics for Gnocchi, which is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub gnocchi_divisor: u32,
    /// Duration of the pushes.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    #[command(flatten)]
    pub ceph: CephOptions,
}

/// The report's row with batches of 5,000.
const PUSH: &str = "push-5000";
const CONNECTIONS: usize = 4;
const POINTS: usize = 60;
/// Write size for the engine's own benchmark: about that of a stored batch of 5,000 measures.
const LIMIT_BYTES: usize = 20_000;

/// A server's results on an engine.
struct Done {
    engine: Engine,
    peer: Peer,
    /// Measures accepted per second.
    pushed: f64,
    /// Measures processed per second, and the total duration in seconds.
    processed: f64,
    seconds: f64,
}

pub fn run(options: &EnginesOptions, context: &mut Context) -> Result<Findings> {
    check_peers(&options.peers, &[Peer::Gnudi, Peer::Gnocchi], "does not use shared engines")?;
    let mut findings = Findings::new("measures pushed and processed on shared engines");
    let mut limits = Vec::new();
    let turns = options.only.iter().flat_map(|&engine| options.peers.iter().map(move |&peer| (engine, peer)));
    let failed =
        |(engine, peer): (Engine, Peer)| format!("{} on {}: not measured", peer.name(), engine.name());
    let done = in_turn(turns, context, &mut findings, failed, |(engine, peer)| {
        eprintln!("{}: {}", peer.name(), engine.title());
        measure(options, engine, peer, context, &mut limits)
    });
    ensure!(!done.is_empty() || context.stop.is_set(), "nothing was measured: {}", findings.notes.join("; "));
    context.mark_partial(&mut findings, "interrupted");
    tell(&mut findings, &done, &limits);
    if options.peers.contains(&Peer::Gnocchi) && options.gnocchi_divisor > 1 {
        let divisor = options.gnocchi_divisor;
        findings.note(format!("gnocchi gets one of {divisor} of the metrics: rates are compared"));
    }
    Ok(findings)
}

fn measure(
    options: &EnginesOptions,
    engine: Engine,
    peer: Peer,
    context: &Context,
    limits: &mut Vec<(Engine, String)>,
) -> Result<Done> {
    let mut server = Server::start_on(engine, &options.ceph, peer, context)?;
    let report = report::ReportOptions {
        only: vec![PUSH.to_owned()],
        seconds: Some(options.seconds),
        ..report::ReportOptions::default()
    };
    let mut bench = Bench::new(report, context);
    push::run(&mut bench, &mut server)?;
    let pushed = bench.measurements.iter().map(Measurement::figure).fold(0.0, f64::max);
    crate::rows::setup::wait_backlog(context, &server)?;
    let metrics = match peer {
        Peer::Gnocchi => options.metrics.div_ceil(options.gnocchi_divisor),
        _ => options.metrics,
    };
    let metrics = metrics as usize;
    let counts =
        processing::Counts { metrics, points: POINTS, batches: 0, held: 0, connections: CONNECTIONS };
    let fold = processing::fold(&bench, &server, counts, String::new())?;
    let engines = server.engines().context("the server was started on engines")?;
    if !limits.iter().any(|(known, _)| *known == engine) {
        limits.push((engine, limit(engines, context)?));
    }
    Ok(Done { engine, peer, pushed, processed: fold.work.rate(), seconds: fold.work.elapsed.as_secs_f64() })
}

/// The result of the engine's own benchmark, as text.
fn limit(engines: &Engines, context: &Context) -> Result<String> {
    if let Some(address) = engines.redis_address() {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-t", "set", "--csv", "-c", "8"]);
        command.args(["-n", "20000", "-d", &LIMIT_BYTES.to_string()]);
        let rate = requests_per_second(&output_of(command)?).context("redis-benchmark printed no rate")?;
        return Ok(format!("redis-benchmark: {} SETs of {} kB/s", short(rate), LIMIT_BYTES / 1000));
    }
    let ceph = engines.ceph().context("what is not Redis lies on Ceph")?;
    let access = Access { conf: ceph.conf(), user: "admin".to_owned(), keyring: None };
    let load =
        Load { kind: RadosWrite::WriteObject, in_flight: 16, block_bytes: LIMIT_BYTES, duration: LIMIT_TIME };
    let outcome = rados_bench::run(&access, POOL, &load, false, ceph.directory(), context)?;
    Ok(format!("rados bench: {} objects of {} kB/s", short(outcome.rate()), LIMIT_BYTES / 1000))
}

/// The rate in `"SET","29411.76",...`.
fn requests_per_second(csv: &str) -> Option<f64> {
    let line = csv.lines().find(|line| line.starts_with("\"SET\""))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

fn tell(findings: &mut Findings, done: &[Done], limits: &[(Engine, String)]) {
    for done in done {
        let name = |figure: &str| format!("{} {} {figure}", done.peer.name(), done.engine.name());
        findings.compare(name("push"), Value::Rate(done.pushed, "measure"));
        findings.compare(name("process"), Value::Rate(done.processed, "measure"));
        findings.compare(name("process time"), Value::Seconds(done.seconds));
    }
    let rows = done.iter().map(|one| {
        let gnudi = done.iter().find(|other| other.peer == Peer::Gnudi && other.engine == one.engine);
        let gnudi = gnudi.filter(|_| one.peer != Peer::Gnudi);
        let ratio = |of: fn(&Done) -> f64| gnudi.map_or_else(String::new, |gnudi| times(of(gnudi) / of(one)));
        let limit = limits.iter().find(|(engine, _)| *engine == one.engine && one.peer == Peer::Gnudi);
        vec![
            one.engine.title().to_owned(),
            one.peer.name().to_owned(),
            short(one.pushed),
            ratio(|done| done.pushed),
            short(one.processed),
            ratio(|done| done.processed),
            format!("{:.2} s", one.seconds),
            limit.map(|(_, text)| text.clone()).unwrap_or_default(),
        ]
    });
    findings.tables.push(Table::new(
        "Batches of 5,000 measures; an hour of points of many metrics, until processed",
        "engines | | pushed, measures/s | gnudi is | processed, measures/s | gnudi is | processed in | the engine allows",
        rows,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_redis_benchmark_is_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"29411.76\",\"0.1\"\n";
        assert_eq!(requests_per_second(csv), Some(29411.76));
        assert_eq!(requests_per_second("ERR\n"), None);
    }
}
