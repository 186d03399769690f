//! Polls the backlog and the memory of a server under load, on a thread of its own.
//!
//! Polling is rare, so that it does not slow down the load.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::peers::Server;

/// gnudi counts the metrics of a large backlog at most once a second.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of one poll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Since the start of the work.
    pub at: Duration,
    /// Measures in the backlog.
    pub measures: u64,
    pub memory_bytes: Option<u64>,
}

/// Observations in order of time.
#[derive(Clone, Debug, Default)]
pub struct Watched(pub Vec<Observation>);

impl Watched {
    pub fn peak_measures(&self) -> u64 {
        self.0.iter().map(|seen| seen.measures).max().unwrap_or(0)
    }

    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.0.iter().filter_map(|seen| seen.memory_bytes).max()
    }

    /// The backlog over time, in seconds.
    pub fn points(&self) -> Vec<(f64, f64)> {
        self.0.iter().map(|seen| (seen.at.as_secs_f64(), seen.measures as f64)).collect()
    }
}

/// Runs the work, polls the server meanwhile, and once more at the end.
pub fn watch<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<(T, Watched)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| poll_until(&done, server));
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        let watched = watcher.join().expect("the polling thread does not panic")?;
        Ok((outcome?, watched))
    })
}

fn poll_until(done: &AtomicBool, server: &Server) -> Result<Watched> {
    let client = server.client()?;
    let (mut watched, start) = (Watched::default(), Instant::now());
    let mut last = false;
    while !last {
        last = done.load(Ordering::Relaxed);
        // A server under load may refuse: the next poll may succeed.
        if let Ok(status) = server.context.runtime.block_on(client.status()) {
            watched.0.push(Observation {
                at: start.elapsed(),
                measures: status.backlog.measures,
                memory_bytes: server.probe.memory_bytes(),
            });
        }
        if !last {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(watched)
}
