//! Remote writes to an empty server: samples per second until they can be queried.

use anyhow::{Result, ensure};
use gnudi_model::python::quote;

use super::{
    super::in_turn,
    Footprint, PrometheusOptions, add_disk, ask,
    data::{Instances, Writes, time_of},
};
use crate::{
    context::Context,
    findings::{Findings, Value},
    measurement::Work,
    peers::{Peer, Server},
    rows::process,
    sheet::Sheet,
};

const METRIC: &str = "gnudi_bench_written_bucket";

struct Written {
    peer: Peer,
    /// The first sample of each series.
    first: Work,
    others: Work,
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
        let series = options.write_series / 10 * 10;
        let minutes = (options.write_samples / series).max(2) as i64;
        let &PrometheusOptions { batch, connections, .. } = options;
        let mut instances = Instances::new(METRIC, series);
        let mut spread = |minutes| Writes::spread(&mut instances, minutes, batch, connections);
        Ok(Plan { first: spread(0..1)?, others: spread(1..minutes)?, series, minutes, connections })
    }

    fn samples(&self) -> usize {
        self.first.samples + self.others.samples
    }
}

pub fn run(options: &PrometheusOptions, context: &Context, findings: &mut Findings) -> Result<()> {
    eprintln!("remote write: the messages");
    let mut plan = Plan::new(options)?;
    let failed = |peer: Peer| format!("{}: not written to", peer.name());
    let peers = options.peers.iter().copied();
    let written = in_turn(peers, context, findings, failed, |peer| measure(peer, &mut plan, context));
    if !written.is_empty() {
        tell(&plan, options.batch, &written, findings);
    }
    Ok(())
}

fn measure(peer: Peer, plan: &mut Plan, context: &Context) -> Result<Written> {
    eprintln!("{}: remote write", peer.name());
    let server = Server::start(peer, context)?;
    let write = |writes: &mut Writes| {
        let samples = writes.samples;
        process::until_processed(&server, writes.to(&server), plan.connections, samples)
    };
    let (first, others) = (write(&mut plan.first)?, write(&mut plan.others)?);
    ensure!(!context.stop.is_set(), "cut short");
    if peer == Peer::Limit {
        return Ok(Written { peer, first, others, footprint: None });
    }
    check(&server, plan)?;
    Ok(Written { peer, first, others, footprint: Some(Footprint::take(&server)) })
}

/// Fails if not all samples can be queried.
fn check(server: &Server, plan: &Plan) -> Result<()> {
    let query = quote(&format!("sum(count_over_time({METRIC}[{}m]))", plan.minutes), "");
    let end_s = time_of(plan.minutes - 1);
    let (answer, _) = ask(server, &format!("/api/v1/query?query={query}&time={end_s}"))?;
    let (found, written) = (answer.only_value().unwrap_or(0.0), plan.samples());
    ensure!(found == written as f64, "{found} samples can be queried, not {written}");
    Ok(())
}

fn tell(plan: &Plan, batch: usize, all: &[Written], findings: &mut Findings) {
    let (series, samples) = (plan.series, plan.samples());
    let mut sheet = Sheet::<Written>::new();
    sheet.text("server", |written| written.peer.name().to_owned());
    sheet.value("new series", |written| {
        Value::rate(series as f64 / written.first.elapsed.as_secs_f64(), "series")
    });
    sheet.value("accepted", |written| Value::rate(written.others.accepted(), "sample"));
    sheet
        .value("until they can be queried", |written| Value::rate(written.others.rate(), "sample"))
        .figure("remote write")
        .compared();
    sheet.value("processor time a sample", |written| written.others.cpu_us().map(|us| Value::each(us, "us")));
    sheet
        .value("memory", |written| Some(Value::bytes(written.footprint?.memory_bytes)))
        .figure("memory after remote write");
    add_disk(&mut sheet, samples, "disk after remote write", |written| written.footprint);
    for written in all {
        sheet.add_figures(written, written.peer.name(), findings);
    }
    let title = format!(
        "Remote write: {series} series, {samples} samples by the minute, {batch} a request, {} connections",
        plan.connections
    );
    let gnudi = all.iter().find(|written| written.peer == Peer::Gnudi);
    findings.tables.push(sheet.table(title, all, |_| gnudi));
    for written in all {
        findings.note(format!("{}: {}", written.peer.name(), written.peer.durability()));
    }
    let sent = plan.others.bytes as f64 / plan.others.samples as f64;
    findings.note(format!(
        "a sample is {sent:.1} bytes of a request, labels included; every server was asked for the count of all samples; disk: \
         all that a server has written, logs and index included; a log has a limit, whatever is stored"
    ));
}
