//! The workloads. A group of rows shares a freshly started server; all peers run a group before the next group begins,
//! so that compared figures were measured close together.

mod aggregate;
mod arrow;
pub mod batch;
mod memory;
mod metadata;
pub mod process;
pub mod push;
mod read;
pub mod setup;

use anyhow::Result;

use crate::{
    commands::report::ReportOptions,
    context::Context,
    load::{Requests, Until},
    measurement::{Measurement, Row, Work},
    peers::{Peer, Server},
    process::{Probe, own_cpu_seconds},
    results::{Failure, Results, ServerNote},
    table,
};

struct Group {
    rows: &'static [Row],
    /// Whether the peer supports this work.
    suits: fn(Peer) -> bool,
    run: fn(&mut Bench, &mut Server) -> Result<()>,
}

const GROUPS: [Group; 10] = [
    Group { rows: &push::ROWS, suits: |_| true, run: push::run },
    Group { rows: &metadata::METRIC_ROWS, suits: manages_metrics, run: metadata::run_metrics },
    Group { rows: &metadata::RESOURCE_ROWS, suits: manages_metrics, run: metadata::run_resources },
    Group { rows: &read::ROWS, suits: |peer| peer != Peer::GnudiOs, run: read::run },
    Group { rows: &aggregate::ROWS, suits: manages_metrics, run: aggregate::run },
    Group { rows: &aggregate::RESOURCE_ROWS, suits: manages_metrics, run: aggregate::run_resources },
    Group { rows: &process::FOLD_ROWS, suits: |_| true, run: process::run_fold },
    Group { rows: &process::STREAM_ROWS, suits: |_| true, run: process::run_stream },
    Group { rows: &memory::ROWS, suits: has_memory, run: memory::run },
    Group { rows: &process::MANY_ROWS, suits: |_| true, run: process::run_many },
];

/// For work on metrics and resources, which does not depend on the durability of measures.
fn manages_metrics(peer: Peer) -> bool {
    peer.has_gnocchi_api() && peer != Peer::GnudiOs
}

/// For work on stored data, which does not depend on durability.
fn has_memory(peer: Peer) -> bool {
    !matches!(peer, Peer::Limit | Peer::GnudiOs)
}

pub fn all() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.rows)
}

/// The measured rows, in the order of the report, each with its measurements.
pub fn measured(measurements: &[Measurement]) -> impl Iterator<Item = (&'static Row, Vec<&Measurement>)> {
    all().filter_map(|row| {
        let of_row: Vec<&Measurement> = measurements.iter().filter(|found| found.row == row.key).collect();
        (!of_row.is_empty()).then_some((row, of_row))
    })
}

pub struct Bench<'a> {
    pub options: ReportOptions,
    pub context: &'a Context,
    pub results: Results,
}

impl<'a> Bench<'a> {
    pub fn new(options: ReportOptions, context: &'a Context) -> Self {
        Bench { options, context, results: Results::default() }
    }

    /// Measures all selected rows until the run is stopped; prints each group's rows as they are done.
    pub fn run(&mut self) {
        for group in &GROUPS {
            let wanted: Vec<&Row> = group.rows.iter().filter(|row| self.options.wants(row.key)).collect();
            if wanted.is_empty() {
                continue;
            }
            for peer in self.options.peers.clone() {
                if self.context.stop.is_set() {
                    break;
                }
                // It accepts only remote writes, which no row uses.
                let suits = peer != Peer::Prometheus && (group.suits)(peer);
                if suits && self.server_note(peer).is_none_or(|server| server.missing.is_none()) {
                    self.run_group(group, peer);
                }
            }
            for (row, of_row) in measured(&self.results.measurements) {
                if wanted.iter().any(|wanted| wanted.key == row.key) {
                    println!("{}", table::block(row, &of_row));
                }
            }
        }
    }

    fn server_note(&mut self, peer: Peer) -> Option<&mut ServerNote> {
        self.results.servers.iter_mut().find(|server| server.name == peer.name())
    }

    /// A peer that does not start is skipped from then on; one that fails keeps its results so far, and the failure is
    /// reported.
    fn run_group(&mut self, group: &Group, peer: Peer) {
        let outcome = match Server::start(peer, self.context) {
            Ok(mut server) => (group.run)(self, &mut server),
            Err(error) => {
                eprintln!("{}: not measured: {error:#}", peer.name());
                if let Some(server) = self.server_note(peer) {
                    server.missing = Some(format!("{error:#}"));
                }
                return;
            }
        };
        // Checks fail after an interruption.
        if let (Err(error), false) = (outcome, self.context.stop.is_set()) {
            let of_group: Vec<&str> =
                group.rows.iter().map(|row| row.key).filter(|key| self.options.wants(key)).collect();
            let work = of_group.join(", ");
            eprintln!("{}: {work} failed: {error:#}", peer.name());
            let (server, reason) = (peer.name().to_owned(), format!("{error:#}"));
            self.results.failures.push(Failure { work, server, reason });
        }
    }

    /// Runs a load for the fixed time, in which every call counts as `per_call`, and records its cost.
    pub fn measure_load(
        &mut self,
        server: &Server,
        row: &Row,
        requests: &Requests,
        connections: usize,
        per_call: usize,
    ) -> Result<&mut Measurement> {
        let until = Until::Elapsed(self.options.load_time());
        self.measure(server, row, || Ok(Work::of(server.load(requests, connections, until).run(), per_call)))
    }

    /// Drops a row that was measured only because others build on it.
    pub fn drop_unless_selected(&mut self, row: &Row) {
        if !self.options.wants(row.key) {
            self.results.measurements.retain(|measurement| measurement.row != row.key);
        }
    }

    /// Runs a piece of work, and records its cost.
    pub fn measure(
        &mut self,
        server: &Server,
        row: &Row,
        work: impl FnOnce() -> Result<Work>,
    ) -> Result<&mut Measurement> {
        eprintln!("{}: {}", server.peer.name(), row.title);
        let before = (server.probe.cpu_seconds(), generator_seconds(&server.probe));
        let mut work = work()?;
        let after = (server.probe.cpu_seconds(), generator_seconds(&server.probe));
        if self.context.stop.is_set() {
            work.notes.push("cut short".to_owned());
        }
        self.results.measurements.push(Measurement {
            server_cpu_seconds: after.0.zip(before.0).map(|(after, before)| after - before),
            generator_cpu_seconds: after.1 - before.1,
            server_memory_bytes: server.probe.memory_bytes(),
            ..Measurement::of(row, server.peer, work)
        });
        Ok(self.results.measurements.last_mut().expect("it was just added"))
    }
}

/// Processor time of this process, without the no-op server's thread if that is the server measured.
fn generator_seconds(probe: &Probe) -> f64 {
    let own = own_cpu_seconds();
    match probe {
        Probe::Thread(_) => own - probe.cpu_seconds().unwrap_or(0.0),
        _ => own,
    }
}
