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
    let [create, show, delete] = &ROWS;
    let count = server.peer.sized(20_000, 1_000);
    let mut ids = Vec::new();
    bench.measure(server, create, || {
        let (created, outcome) = setup::create_metrics(server, "low", count)?;
        ids = created;
        Ok(Work::of(outcome, 1).note(format!("{count} metrics")))
    })?;
    let requests = |method| {
        let request = |id| server.headers.bare(method, &format!("/v1/metric/{id}"));
        Requests::listed(ids.iter().map(request).collect())
    };
    if bench.options.wants(show.key) {
        bench.measure_load(server, show, &requests("GET"), setup::METADATA_CONNECTIONS, 1)?;
    }
    if bench.options.wants(delete.key) {
        let (requests, until) = (requests("DELETE"), Until::Count(count as u64));
        bench.measure(server, delete, || {
            Ok(Work::of(server.load(&requests, setup::METADATA_CONNECTIONS, until).run(), 1))
        })?;
    }
    bench.drop_unless_selected(create);
    Ok(())
}
