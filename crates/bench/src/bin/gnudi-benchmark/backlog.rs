//! What waits on a server while it is under load, and its memory, polled by a thread of its own.
//!
//! It looks seldom enough that the load does not feel it, and finds out nothing that the server does not tell.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{context::Context, peers::Server};

/// How often it is looked. gnudi counts the metrics of a large backlog at most once a second, however often it is asked.
const LOOK_DELAY: Duration = Duration::from_millis(50);

/// A look at a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Since the work began.
    pub at: Duration,
    /// Measures that wait.
    pub measures: u64,
    pub memory_bytes: Option<u64>,
}

/// What was seen, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Watched(pub Vec<Look>);

impl Watched {
    pub fn peak_measures(&self) -> u64 {
        self.0.iter().map(|look| look.measures).max().unwrap_or(0)
    }

    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.0.iter().filter_map(|look| look.memory_bytes).max()
    }

    /// Measures that waited, over the seconds.
    pub fn points(&self) -> Vec<(f64, f64)> {
        self.0.iter().map(|look| (look.at.as_secs_f64(), look.measures as f64)).collect()
    }
}

/// Does the work, and looks at the server until it is done, and once more then.
pub fn watch<T>(
    context: &Context,
    server: &Server,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Watched)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| look_until(&done, context, server));
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        let watched = watcher.join().expect("the watching thread does not panic")?;
        Ok((outcome?, watched))
    })
}

fn look_until(done: &AtomicBool, context: &Context, server: &Server) -> Result<Watched> {
    let client = server.client()?;
    let (mut watched, start) = (Watched::default(), Instant::now());
    let mut last = false;
    while !last {
        last = done.load(Ordering::Relaxed);
        // A server under load may refuse: the next look may succeed.
        if let Ok(status) = context.runtime.block_on(client.status()) {
            watched.0.push(Look {
                at: start.elapsed(),
                measures: status.backlog.measures,
                memory_bytes: server.probe.memory_bytes(),
            });
        }
        if !last {
            std::thread::sleep(LOOK_DELAY);
        }
    }
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_of_all_looks() {
        let look = |at, measures, memory_bytes| Look { at: Duration::from_secs(at), measures, memory_bytes };
        let watched = Watched(vec![look(0, 3, Some(5)), look(1, 9, None), look(2, 0, Some(4))]);
        assert_eq!((watched.peak_measures(), watched.peak_memory_bytes()), (9, Some(5)));
        assert_eq!(watched.points()[1], (1.0, 9.0));
        assert_eq!(Watched::default().peak_measures(), 0);
    }
}
