//! `gnudi-benchmark prometheus`: gnudi's Prometheus API beside Prometheus and VictoriaMetrics, on the same data: remote
//! write, and query times.
//!
//! Responses of all servers are compared; a figure is reported only if the response is right.

mod answer;
mod asking;
mod data;
mod question;
mod writing;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::{check_peers, within};
use crate::{
    context::Context,
    disk,
    findings::{Findings, Value},
    load::Requests,
    peers::{Peer, Server},
    rows::setup,
    sheet::Sheet,
};
use answer::Answer;

/// Measure remote write and queries of Prometheus' API, on gnudi, Prometheus and VictoriaMetrics.
#[derive(Clone, Debug, Args)]
pub struct PrometheusOptions {
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Write, Part::Query])]
    only: Vec<Part>,
    /// Servers, in order. limit and gnudi-os get no queries.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = PEERS)]
    peers: Vec<Peer>,
    /// Series to write to an empty server.
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = within(100..=1_000_000))]
    write_series: usize,
    /// Samples of all of them together.
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = within(100..=50_000_000))]
    write_samples: usize,
    /// Connections that write, each its share of the series.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 4, value_parser = within(1..=64))]
    connections: usize,
    /// Samples per remote write.
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = within(1..=100_000))]
    batch: usize,
    /// Series to query.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = within(200..=100_000))]
    series: usize,
    /// Days of history.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = within(1..=60))]
    days: usize,
    /// Repetitions of each query; fewer for slow ones.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within(1..=1_000))]
    rounds: usize,
}

const PEERS: [Peer; 5] = [Peer::Limit, Peer::Gnudi, Peer::GnudiOs, Peer::Prometheus, Peer::VictoriaMetrics];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Remote writes to an empty server.
    Write,
    /// Queries over a history of 30 days.
    Query,
}

/// An idle server uses less of a processor than this.
const IDLE_SHARE: f64 = 0.05;
/// After this time VictoriaMetrics has written data to disk.
const WRITE_BACK_MAX: Duration = Duration::from_secs(6);
/// Time limit of waiting for an idle server.
const SETTLE_MAX: Duration = Duration::from_mins(5);

pub fn run(options: &PrometheusOptions, context: &Context) -> Result<Findings> {
    check_peers(&options.peers, &PEERS, "takes no remote writes")?;
    let mut findings = Findings::new("remote write and queries of Prometheus' API");
    for part in &options.only {
        if context.stop.is_set() {
            break;
        }
        match part {
            Part::Write => writing::run(options, context, &mut findings)?,
            Part::Query => asking::run(options, context, &mut findings)?,
        }
    }
    ensure!(!findings.tables.is_empty() || context.stop.is_set(), "nothing was measured");
    Ok(findings)
}

/// The response to a query, and its time.
fn ask(server: &Server, path: &str) -> Result<(Answer, Duration)> {
    let (body, elapsed) = setup::first_answer(server, &get(server, path))?;
    Ok((Answer::read(&body)?, elapsed))
}

fn get(server: &Server, path: &str) -> Requests {
    // It would answer repetitions from its cache.
    let uncached = if server.peer == Peer::VictoriaMetrics { "&nocache=1" } else { "" };
    Requests::listed(vec![server.headers.bare("GET", &format!("{path}{uncached}"))])
}

/// Memory and disk use of an idle server.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    memory_bytes: f64,
    disk_bytes: f64,
    /// Of these, its write-ahead logs: their size has a limit, whatever is stored.
    log_bytes: f64,
    /// It was still busy at the time limit.
    is_busy: bool,
}

impl Footprint {
    /// Waits until the server has finished background work.
    fn take(server: &Server) -> Self {
        if server.peer == Peer::VictoriaMetrics {
            std::thread::sleep(WRITE_BACK_MAX);
        }
        let (start, mut is_busy) = (Instant::now(), true);
        while is_busy && start.elapsed() < SETTLE_MAX && !server.context.stop.is_set() {
            let (before, second) = (server.probe.cpu_seconds(), Instant::now());
            std::thread::sleep(Duration::from_secs(1));
            let used = server.probe.cpu_seconds().zip(before).map_or(0.0, |(after, before)| after - before);
            is_busy = used >= IDLE_SHARE * second.elapsed().as_secs_f64();
        }
        let written = |below: &str| {
            let path = server.data().map(|data| data.join(below));
            path.and_then(|path| disk::written_bytes(&path).ok()).unwrap_or(0) as f64
        };
        Footprint {
            memory_bytes: server.probe.memory_bytes().unwrap_or(0) as f64,
            disk_bytes: written(""),
            log_bytes: server.peer.logs().iter().map(|log| written(log)).sum(),
            is_busy,
        }
    }
}

/// Columns of what a server has on disk after `samples`; `figure` names the figure of the whole.
fn add_disk<'a, T>(
    sheet: &mut Sheet<'a, T>,
    samples: usize,
    figure: &'static str,
    footprint: impl Fn(&T) -> Option<Footprint> + Copy + 'a,
) {
    let each = move |bytes: f64| Value::each(bytes / samples as f64, "B");
    let disk = move |result: &T| Some(footprint(result)?.disk_bytes);
    sheet.value("disk", move |result| disk(result).map(Value::bytes)).figure(figure);
    sheet.value("a sample", move |result| disk(result).map(each));
    let tables = move |result: &T| footprint(result).map(|found| found.disk_bytes - found.log_bytes);
    sheet.value("without logs", move |result| tables(result).map(Value::bytes));
    sheet.value("a sample", move |result| tables(result).map(each));
}
