//! Metrics without measures: create, show, delete.

use anyhow::Result;

use super::{Bench, setup};
use crate::{
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::Server,
};

pub const ROWS: [Row; 3] = [
    Row::new("create", Unit::Metrics, "create metric, 48 connections"),
    Row::new("show", Unit::Metrics, "show metric, 48 connections"),
    Row::new("delete", Unit::Metrics, "delete metric, 48 connections"),
];

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let [create, show, delete] = &ROWS;
    let mut ids = Vec::new();
    bench.measure(server, create, None, || {
        let (created, outcome) = setup::create_metrics(server, "low", counts.metadata_metrics)?;
        ids = created;
        Ok(Work::of(outcome, 1).note(format!("{} metrics", ids.len())))
    })?;
    for (row, method, until) in
        [(show, "GET", Until::Elapsed(counts.load)), (delete, "DELETE", Until::Count(ids.len() as u64))]
    {
        if bench.options.wants(row.key) {
            let request = |id| server.headers.bare(method, &format!("/v1/metric/{id}"));
            let requests = Requests::Listed(ids.iter().map(request).collect());
            bench.measure_load(server, row, &requests, setup::METADATA_CONNECTIONS, until)?;
        }
    }
    bench.drop_unless_selected(create);
    Ok(())
}
