//! Polls the backlog and the memory of a server under load, on a thread of its own.
//!
//! Polling is rare, so that it does not slow down the load.

use std::time::{Duration, Instant};

use anyhow::Result;
use gnudi_bench::progress;

use crate::peers::Server;

/// gnudi counts the metrics of a large backlog at most once a second.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What the polls have seen.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The backlog over time, in seconds since the start of the work.
    pub points: Vec<(f64, f64)>,
    pub peak_measures: u64,
    pub peak_memory_bytes: Option<u64>,
}

/// Runs the work, polls the server meanwhile, and once more at the end.
pub fn watch<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, Watched)> {
    let client = server.client()?;
    let (mut watched, start) = (Watched::default(), Instant::now());
    let outcome = progress::watch(POLL_INTERVAL, work, || {
        // A server under load may refuse: the next poll may succeed.
        if let Ok(status) = server.context.runtime.block_on(client.status()) {
            let measures = status.backlog.measures;
            watched.points.push((start.elapsed().as_secs_f64(), measures as f64));
            watched.peak_measures = watched.peak_measures.max(measures);
            watched.peak_memory_bytes = watched.peak_memory_bytes.max(server.probe.memory_bytes());
        }
    });
    Ok((outcome?, watched))
}
