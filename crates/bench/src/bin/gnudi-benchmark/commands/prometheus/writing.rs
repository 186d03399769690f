//! Remote writes to an empty server: samples per second until they can be queried.

use anyhow::{Result, ensure};
use gnudi_model::python::quote;

use super::{
    super::in_turn,
    Footprint, PrometheusOptions, ask,
    data::{Instances, Writes, time_of},
    gnudi_is,
};
use crate::{
    findings::{Findings, Table, Value},
    peers::{Peer, Server},
    rows::{
        Bench,
        process::{self, Processed},
    },
    table::{bytes, short},
};

const METRIC: &str = "gnudi_bench_written_bucket";

/// A server's results.
struct Written {
    peer: Peer,
    /// The first sample of each series.
    first: Processed,
    /// All other samples.
    others: Processed,
    /// `None` if the server stores nothing.
    footprint: Option<Footprint>,
}

/// The same remote writes for every server.
struct Plan {
    series: usize,
    minutes: i64,
    connections: usize,
    first: Writes,
    others: Writes,
}

impl Plan {
    fn new(options: &PrometheusOptions) -> Result<Self> {
        let series = options.scaled(options.write_series, 40_000, 10_000) / 10 * 10;
        let samples = options.scaled(options.write_samples, 10_000_000, 1_000_000);
        let minutes = (samples / series).max(2) as i64;
        let (batch, connections) = (options.batch as usize, options.connections as usize);
        let mut instances = Instances::new(METRIC, series);
        let mut spread = |minutes| Writes::spread(&mut instances, minutes, batch, connections);
        Ok(Plan { first: spread(0..1)?, others: spread(1..minutes)?, series, minutes, connections })
    }
}

pub fn run(options: &PrometheusOptions, bench: &Bench, findings: &mut Findings) -> Result<()> {
    eprintln!("remote write: the messages");
    let mut plan = Plan::new(options)?;
    let failed = |peer: Peer| format!("{}: not written to", peer.name());
    let peers = options.peers.iter().copied();
    let written = in_turn(peers, bench.context, findings, failed, |peer| measure(peer, &mut plan, bench));
    if !written.is_empty() {
        tell(&plan, options.batch as usize, &written, findings);
    }
    Ok(())
}

fn measure(peer: Peer, plan: &mut Plan, bench: &Bench) -> Result<Written> {
    eprintln!("{}: remote write", peer.name());
    let server = Server::start(peer, bench.context)?;
    let write = |writes: &mut Writes| {
        let samples = writes.samples;
        process::processed(bench, &server, writes.to(&server), plan.connections, samples)
    };
    let (first, others) = (write(&mut plan.first)?, write(&mut plan.others)?);
    ensure!(!bench.context.stop.is_set(), "cut short");
    if peer == Peer::Limit {
        return Ok(Written { peer, first, others, footprint: None });
    }
    check(&server, plan, bench)?;
    Ok(Written { peer, first, others, footprint: Some(Footprint::take(bench, &server)) })
}

/// Fails if not all samples can be queried.
fn check(server: &Server, plan: &Plan, bench: &Bench) -> Result<()> {
    let query = quote(&format!("sum(count_over_time({METRIC}[{}m]))", plan.minutes), "");
    let end_s = time_of(plan.minutes - 1);
    let (answer, _) = ask(bench, server, &format!("/api/v1/query?query={query}&time={end_s}"))?;
    let (found, written) = (answer.only_value().unwrap_or(0.0), plan.first.samples + plan.others.samples);
    ensure!(found == written as f64, "{found} samples can be queried, not {written}");
    Ok(())
}

fn tell(plan: &Plan, batch: usize, all: &[Written], findings: &mut Findings) {
    let samples = plan.first.samples + plan.others.samples;
    let gnudi = all.iter().find(|written| written.peer == Peer::Gnudi);
    let rows = all.iter().map(|written| {
        let Written { peer, first, others, footprint } = written;
        let name = peer.name();
        findings.compare(format!("{name} remote write"), Value::Rate(others.rate(), "sample"));
        let seconds = |written: &Written| Some(written.others.elapsed.as_secs_f64());
        let cpu = others.cpu_seconds.map(|seconds| 1e6 * seconds / others.measures);
        let mut row = vec![
            name.to_owned(),
            short(plan.series as f64 / first.elapsed.as_secs_f64()) + "/s",
            short(others.accepted()) + "/s",
            short(others.rate()) + "/s",
            match gnudi {
                Some(gnudi) if *peer != Peer::Gnudi => gnudi_is(seconds(gnudi), seconds(written)),
                _ => "-".to_owned(),
            },
            cpu.map_or_else(|| "-".to_owned(), |us| format!("{us:.2} us")),
        ];
        let Some(Footprint { memory_bytes, disk_bytes, .. }) = *footprint else {
            row.extend(["-"; 3].map(str::to_owned));
            return row;
        };
        findings.compare(format!("{name} memory after remote write"), Value::Bytes(memory_bytes as u64));
        findings.compare(format!("{name} disk after remote write"), Value::Bytes(disk_bytes as u64));
        row.extend([bytes(memory_bytes), bytes(disk_bytes), format!("{:.2} B", disk_bytes / samples as f64)]);
        row
    });
    let rows: Vec<_> = rows.collect();
    let title = format!(
        "Remote write: {} series, {samples} samples by the minute, {batch} a request, {} connections",
        plan.series, plan.connections
    );
    let headings = "server | new series | accepted | until they can be queried | gnudi is | processor time a sample | memory | disk | \
                    a sample";
    findings.tables.push(Table::new(title, headings, rows));
    for written in all {
        findings.note(format!("{}: {}", written.peer.name(), written.peer.durability()));
    }
    let sent = plan.others.bytes as f64 / plan.others.samples as f64;
    findings.note(format!(
        "a sample is {sent:.1} bytes of a request, labels included; every server was asked for the count of all samples; disk: \
         all that a server has written, logs and index included"
    ));
}
