//! The workers: decides when sacks are processed, the aggregates are synced, deleted metrics and old resources are removed, figures are
//! logged.
//!
//! `scheduler` hands sacks to workers in the order of a `policy`, `ring` says who owns which, `checkpoint` makes aggregates durable and lets the incoming store forget,
//! `janitor` cleans up, `reporter` logs. None of them touches points.

mod checkpoint;
mod janitor;
pub mod policy;
mod reporter;
pub mod ring;
pub(crate) mod scheduler;

use std::{sync::Arc, time::Duration};

use gnudi_model::{Timespan, Timestamp};
use policy::Scheduling;
use tokio::{sync::watch, task::JoinHandle};

use crate::Engine;

/// How the workers behave; see `[metricd]` in the configuration.
#[derive(Clone, Debug)]
pub struct MetricdOptions {
    /// How `/v1/status` names the workers of this process.
    pub name: String,
    /// How many sacks are processed at the same time.
    pub workers: usize,
    /// In which order they take sacks.
    pub scheduling: Scheduling,
    /// Process sacks as soon as measures arrive, and not only every `processing_delay`.
    pub greedy: bool,
    /// How often all sacks are looked at where `greedy` is off.
    pub processing_delay: Duration,
    /// How long a sack gathers measures after the first arrival, so that one pass folds many requests.
    pub gather: Duration,
    /// How often aggregates are made durable and the log is trimmed.
    pub checkpoint_delay: Duration,
    /// How often the backlog is logged; `None` for never.
    pub reporting_delay: Option<Duration>,
    /// How often deleted metrics are removed.
    pub cleanup_delay: Duration,
    /// How many metrics the janitor removes at once.
    pub cleanup_batch_metrics: usize,
    /// Resources whose metrics got no measures for so long are ended; `None` for never.
    pub metric_inactive_after: Option<Timespan>,
    /// Resources that ended so long ago are deleted; `None` for never.
    pub resource_cleanup_after: Option<Timespan>,
    /// What the time is.
    pub clock: fn() -> Timestamp,
}

/// The running workers of a process.
pub struct Metricd {
    engine: Arc<Engine>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Metricd {
    /// Starts the workers on the current runtime.
    pub fn start(engine: Arc<Engine>, options: &MetricdOptions) -> Self {
        let _ = engine.workers.set(options.name.clone());
        let (stop, stopped) = watch::channel(false);
        let mut tasks = scheduler::start(&engine, options, &stopped);
        tasks.push(tokio::spawn(checkpoint::run(engine.clone(), options.checkpoint_delay, stopped.clone())));
        tasks.push(tokio::spawn(janitor::run(engine.clone(), options.clone(), stopped.clone())));
        if let Some(delay) = options.reporting_delay {
            tasks.push(tokio::spawn(reporter::run(engine.clone(), delay, stopped)));
        }
        Metricd { engine, stop, tasks }
    }

    /// Lets running passes finish, then makes what they wrote durable. What still waits is processed at the next start.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a worker ended badly");
            }
        }
        checkpoint::checkpoint(&self.engine).await;
    }
}

/// Waits for `delay`; false when the workers stop first.
async fn sleep(delay: Duration, stopped: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(delay) => true,
        _ = stopped.wait_for(|stop| *stop) => false,
    }
}
