//! The workers: decide when sacks are processed, aggregates synced, deleted metrics and old resources
//! removed, and figures logged.
//!
//! `scheduler` assigns sacks to workers in the order of `waiting`, `checkpoint` makes aggregates durable and
//! trims the incoming store, `janitor` cleans up what by `ages` is old enough, `converter` converts metrics that
//! moved to another policy, or whose policy got other methods, `reporter` logs. If processes share a store,
//! `ownership` leases sacks: `ring` computes the owners, `assignment` what to acquire and release, `membership`
//! keeps this process a member, `settler` ends splits. None of them handles points.

mod ages;
pub mod assignment;
mod checkpoint;
mod converter;
mod janitor;
pub(crate) mod membership;
mod ownership;
mod reporter;
pub mod ring;
pub(crate) mod scheduler;
mod settler;
pub mod waiting;

use std::{pin::Pin, sync::Arc, time::Duration};

use gnudi_model::{Numbering, Sack, Timespan, Timestamp};
use membership::Membership;
use ownership::Owner;
use scheduler::SackQueue;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    Engine,
    process_status::{Observer, ProcessKind},
};

/// A task that runs until it is stopped.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Settings of the workers; see `[metricd]` in the configuration.
#[derive(Clone, Debug)]
pub struct MetricdOptions {
    /// Unique name of this process: shown in `/v1/status`, and known to the other processes.
    pub name: String,
    /// Sacks processed concurrently; on shared stores more, while they wait for requests.
    pub workers: usize,
    /// Process sacks as soon as measures arrive, not only every `processing_delay`.
    pub greedy: bool,
    /// How often all sacks are polled if `greedy` is off.
    pub processing_delay: Duration,
    /// How long a sack gathers measures after the first arrival, so that one pass folds many requests.
    pub gather: Duration,
    /// How often aggregates are made durable and the log is trimmed, at least.
    pub checkpoint_delay: Duration,
    /// How often the backlog is logged; `None` for never.
    pub reporting_delay: Option<Duration>,
    /// How often deleted metrics are removed.
    pub cleanup_delay: Duration,
    /// How many metrics the janitor removes at once.
    pub cleanup_batch_metrics: usize,
    /// Resources whose metrics got no measures for this time are ended; `None` for never.
    pub metric_inactive_after: Option<Timespan>,
    /// Resources that ended this long ago are deleted; `None` for never.
    pub resource_cleanup_after: Option<Timespan>,
    /// Former revisions of resources that ended this long ago are removed; `None` for never.
    pub resource_history_retention: Option<Timespan>,
    /// How long the index's cache of another process may lack a change; zero for a process alone.
    pub caches_lag_max: Duration,
    /// If processes share a store: how long after its last renewal a process loses its sacks. They get new
    /// owners within 1.33 times this.
    pub lease: Duration,
    /// The current time.
    pub clock: fn() -> Timestamp,
}

/// The tasks of a process's workers, not running yet, so that a simulation may schedule them.
pub struct Parts {
    pub stop: watch::Sender<bool>,
    /// They end soon after `stop`, once running passes have ended.
    pub workers: Vec<Task>,
    pub leave: watch::Sender<bool>,
    /// Keeps this process's units if the store is shared; must be ended with `leave`, after the workers.
    pub owner: Option<Task>,
}

impl Parts {
    pub fn new(engine: &Arc<Engine>, options: &MetricdOptions) -> Self {
        let _ = engine.workers.set(options.name.clone());
        let (stop, stopped) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let count = engine.incoming.numbering().units();
        let queue = Arc::new(SackQueue::new(count));
        let _ = engine.waiting.set(queue.clone());
        let mut workers = scheduler::tasks(engine, &queue, options, &stopped);
        workers.push(Box::pin(checkpoint::run(engine.clone(), options.checkpoint_delay, stopped.clone())));
        workers.push(Box::pin(janitor::run(engine.clone(), options.clone(), stopped.clone())));
        workers.push(Box::pin(converter::run(engine.clone(), options.caches_lag_max, stopped.clone())));
        if let Some(delay) = options.reporting_delay {
            workers.push(Box::pin(reporter::run(engine.clone(), delay, stopped.clone())));
        }
        let owner = engine.coordinator.clone().map(|coordinator| -> Task {
            workers.push(Box::pin(settler::run(engine.clone(), stopped.clone())));
            let membership = Membership::new(coordinator, options.name.clone(), options.lease);
            let observer = Observer::new(ProcessKind::Metricd, options.workers, (options.clock)());
            Box::pin(Owner::new(engine.clone(), queue, membership, observer).run(leaving))
        });
        Parts { stop, workers, leave, owner }
    }
}

/// A process's running workers.
pub struct Metricd {
    engine: Arc<Engine>,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
    leave: watch::Sender<bool>,
    owner: Option<JoinHandle<()>>,
}

impl Metricd {
    /// Starts the workers on the current runtime. With shared stores they process what this process owns,
    /// which is nothing at first.
    pub fn start(engine: Arc<Engine>, options: &MetricdOptions) -> Self {
        let Parts { stop, workers, leave, owner } = Parts::new(&engine, options);
        let workers: Vec<_> = workers.into_iter().map(tokio::spawn).collect();
        let owner = owner.map(tokio::spawn);
        engine.tasks.watch(workers.iter().chain(&owner).map(JoinHandle::abort_handle));
        Metricd { engine, stop, workers, leave, owner }
    }

    /// Waits for running passes, makes their writes durable, and releases the sacks. Other processes, or the
    /// next start, process the remaining backlog.
    pub async fn stop(self) {
        self.engine.tasks.forget();
        let _ = self.stop.send(true);
        for task in self.workers {
            ended(task).await;
        }
        checkpoint::checkpoint(&self.engine).await;
        let _ = self.leave.send(true);
        if let Some(owner) = self.owner {
            ended(owner).await;
        }
    }
}

async fn ended(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::error!(%error, "a worker task failed");
    }
}

/// The sacks of this process's units.
fn own_sacks(engine: &Engine, numbering: Numbering) -> Vec<Sack> {
    let own = engine.units.open().into_iter().map(|unit| unit.fence.sack);
    let own = own.filter(|sack| sack.count == numbering.units());
    own.flat_map(|sack| numbering.sacks_of_unit(sack.id)).collect()
}

/// Waits for `delay`; false if the workers are stopped first.
async fn sleep(delay: Duration, stopped: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => false,
        () = tokio::time::sleep(delay) => true,
    }
}
