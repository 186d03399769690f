//! `gnudi-benchmark engines`: gnudi and Gnocchi on shared engines, and the limit of each engine.
//!
//! Two workloads: pushes in batches of 5,000, and many metrics with an hour of points each, until processed. The
//! engines' processor time counts as the server's.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::{check_peers, in_turn, report::ReportOptions, within};
use crate::{
    context::Context,
    findings::{Findings, Value},
    measurement::{Measurement, Work},
    peers::{
        Peer, Server,
        child::output_of,
        engines::{Engine, Engines, POOL},
        value_name,
    },
    rows::{Bench, process::Push, push, setup},
    sheet::Sheet,
    table::short,
};

/// Measure gnudi and Gnocchi on PostgreSQL with Redis, Ceph or S3, all started and stopped by the tool.
#[derive(Clone, Debug, Args)]
pub struct EnginesOptions {
    /// Engines for incoming measures and aggregates, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Engine::Redis, Engine::Ceph, Engine::S3])]
    only: Vec<Engine>,
    /// Servers, in order: gnudi, gnocchi.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Gnudi, Peer::Gnocchi])]
    peers: Vec<Peer>,
    /// Metrics with an hour of points each.
    #[arg(short, long, value_name = "N", default_value_t = 20_000, value_parser = within(1..=300_000))]
    metrics: usize,
    /// Divisor of the number of metrics for Gnocchi, which is slow: rates are compared.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = within(1..=1_000))]
    gnocchi_divisor: usize,
    /// Duration of the pushes.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// The report's row with batches of 5,000.
const PUSH: &str = "push-5000";
const POINTS: usize = 60;
/// Write size for the engine's own benchmark: about that of a stored batch of 5,000 measures.
const LIMIT_BYTES: usize = 20_000;

/// A server's results on an engine.
struct Done {
    engine: Engine,
    peer: Peer,
    /// Measures accepted per second.
    pushed: f64,
    work: Work,
    /// What the engine's own benchmark tells, beside gnudi.
    limit: Option<String>,
}

pub fn run(options: &EnginesOptions, context: &Context) -> Result<Findings> {
    check_peers(&options.peers, &[Peer::Gnudi, Peer::Gnocchi], "does not use shared engines")?;
    let mut findings = Findings::new("measures pushed and processed on shared engines");
    let turns = options.only.iter().flat_map(|&engine| options.peers.iter().map(move |&peer| (engine, peer)));
    let failed =
        |(engine, peer): (Engine, Peer)| format!("{} on {}: not measured", peer.name(), value_name(&engine));
    let done = in_turn(turns, context, &mut findings, failed, |(engine, peer)| {
        eprintln!("{}: {}", peer.name(), engine.title());
        measure(options, engine, peer, context)
    });
    ensure!(!done.is_empty() || context.stop.is_set(), "nothing was measured: {}", findings.notes.join("; "));
    tell(&mut findings, &done);
    let divisor = options.gnocchi_divisor;
    if options.peers.contains(&Peer::Gnocchi) && divisor > 1 {
        findings.note(format!("gnocchi gets one of {divisor} of the metrics: rates are compared"));
    }
    Ok(findings)
}

fn measure(options: &EnginesOptions, engine: Engine, peer: Peer, context: &Context) -> Result<Done> {
    let mut server = Server::start_on(engine, peer, context)?;
    let (only, seconds) = (vec![PUSH.to_owned()], Some(options.seconds));
    let mut bench = Bench::new(ReportOptions { only, seconds, ..ReportOptions::default() }, context);
    push::run(&mut bench, &mut server)?;
    let pushed = bench.results.measurements.iter().map(Measurement::figure).fold(0.0, f64::max);
    setup::wait_backlog(&server)?;
    let divisor = if peer == Peer::Gnocchi { options.gnocchi_divisor } else { 1 };
    let fold = Push::fold(&server, options.metrics.div_ceil(divisor), POINTS)?;
    let work = fold.run(&server)?;
    fold.check(&server)?;
    let engines = server.engines.as_ref().context("the server was started on engines")?;
    let limit = (peer == Peer::Gnudi).then(|| limit(engines)).transpose()?;
    Ok(Done { engine, peer, pushed, work, limit })
}

/// The result of the engine's own benchmark, as text.
fn limit(engines: &Engines) -> Result<String> {
    let bytes = LIMIT_BYTES.to_string();
    let (tool, what, output, rate) = if let Some(address) = engines.redis_address() {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-t", "set", "--csv", "-c", "8"]);
        let output = output_of(command.args(["-n", "20000", "-d", &bytes]))?;
        ("redis-benchmark", "SETs", output, "\"SET\",")
    } else {
        let ceph = engines.ceph.as_ref().context("what is not Redis lies on Ceph")?;
        let mut command = Command::new("rados");
        command.arg("-c").arg(&ceph.conf).args(["-n", "client.admin", "-p", POOL, "bench", "3", "write"]);
        let output = output_of(command.args(["--write-object", "-t", "16", "-b", &bytes]))?;
        ("rados bench", "objects", output, "Average IOPS:")
    };
    let rate = number_after(rate, &output).with_context(|| format!("{tool} printed no rate: {output}"))?;
    Ok(format!("{tool}: {} {what} of {} kB/s", short(rate), LIMIT_BYTES / 1000))
}

/// The number at the beginning of a line, after this text: of `"SET","29411.76",...` or `Average IOPS:  8015`.
fn number_after(start: &str, output: &str) -> Option<f64> {
    let rest = output.lines().find_map(|line| line.strip_prefix(start))?;
    rest.split(',').next()?.trim_matches(['"', ' ']).parse().ok()
}

fn tell(findings: &mut Findings, done: &[Done]) {
    let mut sheet = Sheet::<Done>::new();
    sheet.text("engines", |done| done.engine.title().to_owned());
    sheet.text("", |done| done.peer.name().to_owned());
    sheet.value("pushed, measures/s", |done| Value::rate(done.pushed, "measure")).figure("push").compared();
    sheet
        .value("processed, measures/s", |done| Value::rate(done.work.rate(), "measure"))
        .figure("process")
        .compared();
    sheet.value("processed in", |done| Value::seconds(done.work.elapsed)).figure("process time");
    sheet.text("the engine allows", |done| done.limit.clone().unwrap_or_default());
    for done in done {
        sheet.add_figures(done, &format!("{} {}", done.peer.name(), value_name(&done.engine)), findings);
    }
    let title = "Batches of 5,000 measures; an hour of points of many metrics, until processed";
    findings.tables.push(sheet.table(title, done, |one| {
        done.iter().find(|other| other.peer == Peer::Gnudi && other.engine == one.engine)
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_the_engines_own_benchmarks_are_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"29411.76\",\"0.1\"\n";
        assert_eq!(number_after("\"SET\",", csv), Some(29411.76));
        let rados = "Write size:             20000\nAverage IOPS:           8015\nStddev IOPS: 3\n";
        assert_eq!(number_after("Average IOPS:", rados), Some(8015.0));
        assert_eq!(number_after("Average IOPS:", "ERR\n"), None);
    }
}
