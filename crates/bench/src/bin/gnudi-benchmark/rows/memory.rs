//! Memory of a server with idle metrics, each with one processed measure.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, batch, process};
use crate::{
    body::{START_MS, Span, Values},
    load::Requests,
    measurement::{Row, Unit, Work},
    peers::Server,
};

pub const ROWS: [Row; 2] = [
    Row::new("memory", Unit::Bytes, "memory with 20,000 idle metrics (medium)"),
    Row::new("memory-restart", Unit::Bytes, "memory of the same after a restart"),
];

const BATCH: usize = 1_000;
/// Wait for background work before memory and disk are read.
const REST: Duration = Duration::from_secs(2);

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let [idle, restarted] = &ROWS;
    let metrics = batch::metrics(server, "medium", server.peer.sized(20_000, 200))?;
    let span = Span { start_ms: START_MS, step_ms: 1, count: 1 };
    let requests = metrics.requests(server, BATCH, span, &mut Values::new(1));
    process::until_processed(server, &Requests::listed(requests), 1, metrics.len())?;
    std::thread::sleep(REST);
    let note = format!("{} metrics", metrics.len());
    measure(bench, server, idle, &note)?;
    if bench.options.wants(restarted.key) && server.restart()?.is_some() {
        std::thread::sleep(REST);
        measure(bench, server, restarted, &note)?;
    }
    Ok(())
}

/// Records the memory; nothing if it is unknown.
fn measure(bench: &mut Bench, server: &Server, row: &Row, note: &str) -> Result<()> {
    let Some(bytes) = server.probe.memory_bytes() else { return Ok(()) };
    bench.measure(server, row, || Ok(Work { done: bytes as f64, ..Work::default() }.note(note)))?;
    Ok(())
}
