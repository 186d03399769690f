//! Metrics without measures: create, show, delete.

use anyhow::Result;

use super::{Bench, setup};
use crate::{
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::Server,
};

pub const ROWS: [Row; 3] = [
    Row { key: "create", title: "create metric, 48 connections", unit: Unit::Metrics },
    Row { key: "show", title: "show metric, 48 connections", unit: Unit::Metrics },
    Row { key: "delete", title: "delete metric, 48 connections", unit: Unit::Metrics },
];

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let [create, show, delete] = &ROWS;
    let mut ids = Vec::new();
    bench.measure(server, create, None, |bench| {
        let (created, outcome) = setup::create_metrics(bench, server, "low", counts.metadata_metrics)?;
        ids = created;
        Ok(Work::of(outcome, 1).note(format!("{} metrics", ids.len())))
    })?;
    let requests = |method: &str| {
        Requests::Listed(
            ids.iter().map(|id| server.headers.bare(method, &format!("/v1/metric/{id}"))).collect(),
        )
    };
    if bench.options.wants(show.key) {
        let (requests, until) = (requests("GET"), Until::Elapsed(counts.load));
        bench.measure(server, show, None, |bench| {
            Ok(Work::of(bench.load(server, &requests, setup::METADATA_CONNECTIONS, until).run(), 1))
        })?;
    }
    if bench.options.wants(delete.key) {
        let (requests, until) = (requests("DELETE"), Until::Count(ids.len() as u64));
        bench.measure(server, delete, None, |bench| {
            Ok(Work::of(bench.load(server, &requests, setup::METADATA_CONNECTIONS, until).run(), 1))
        })?;
    }
    if !bench.options.wants(create.key) {
        bench.measurements.retain(|measurement| measurement.row != create.key);
    }
    Ok(())
}
