//! Hands sacks to workers: first come, first served, so that no sack starves behind a busy one, unless told otherwise.
//!
//! A sack that gets measures gathers for a moment, then waits for a free worker; in which order is `policy`'s. While all workers are
//! busy the sacks that wait go on gathering, so passes grow with the load by themselves. What waits is bounded: a sack does
//! at most once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_model::SackId;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use super::{
    MetricdOptions,
    policy::{Next, Waiting, Wake},
};
use crate::Engine;

/// How long a sack rests after a failed pass.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The sacks that wait for the workers of this process.
pub(crate) struct Queue {
    /// Its times count from `started`.
    waiting: Mutex<Waiting>,
    bells: Vec<Notify>,
    started: Instant,
}

impl Queue {
    fn new(waiting: Waiting, workers: usize) -> Self {
        let bells = (0..workers).map(|_| Notify::new()).collect();
        Queue { waiting: Mutex::new(waiting), bells, started: Instant::now() }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn push(&self, sack: SackId, since: Duration, due: Duration) {
        match self.waiting.lock().push(sack, since, due) {
            Wake::Bell(bell) => self.bells[bell].notify_one(),
            Wake::All => self.bells.iter().for_each(Notify::notify_one),
            Wake::Nobody => {}
        }
    }

    fn pop(&self, worker: usize) -> Next {
        let mut waiting = self.waiting.lock();
        let next = waiting.pop(worker, self.now());
        if matches!(next, Next::Pass { .. }) && waiting.has_more() {
            // Another worker may take the next one.
            self.bells[waiting.bell_of(worker)].notify_one();
        }
        next
    }

    /// How long the sack has waited that waits longest; zero where none waits.
    pub(crate) fn oldest_age(&self) -> Duration {
        let oldest = self.waiting.lock().oldest();
        oldest.map_or(Duration::ZERO, |since| self.now().saturating_sub(since))
    }
}

pub(super) fn start(
    engine: &Arc<Engine>,
    options: &MetricdOptions,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let waiting = Waiting::new(options.scheduling, options.workers, engine.incoming.numbering().units());
    let queue = Arc::new(Queue::new(waiting, options.workers));
    let _ = engine.waiting.set(queue.clone());
    let mut tasks = vec![tokio::spawn(feed(engine.clone(), queue.clone(), options.clone(), stopped.clone()))];
    for worker in 0..options.workers {
        tasks.push(tokio::spawn(work(engine.clone(), queue.clone(), worker, stopped.clone())));
    }
    tasks
}

/// Queues sacks: as their measures arrive, or all of them from time to time.
async fn feed(
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    options: MetricdOptions,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        if options.greedy {
            let arrivals = tokio::select! {
                arrivals = engine.incoming.arrivals() => arrivals,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            let now = queue.now();
            let numbering = engine.incoming.numbering();
            for sack in arrivals {
                queue.push(numbering.unit_of(sack), now, now + options.gather);
            }
        } else {
            if !super::sleep(options.processing_delay, &mut stopped).await {
                return;
            }
            for sack in engine.incoming.numbering().units().iter() {
                queue.push(sack, queue.now(), queue.now());
            }
        }
    }
}

/// One worker: takes the sack that is its next and passes over it.
async fn work(engine: Arc<Engine>, queue: Arc<Queue>, worker: usize, mut stopped: watch::Receiver<bool>) {
    let bell = queue.waiting.lock().bell_of(worker);
    while !*stopped.borrow() {
        let (sack, since) = match queue.pop(worker) {
            Next::Pass { sack, since } => (sack, since),
            wait => {
                let delay = if let Next::Wait(delay) = wait { delay } else { Duration::MAX };
                tokio::select! {
                    () = queue.bells[bell].notified() => {}
                    () = tokio::time::sleep(delay) => {}
                    _ = stopped.wait_for(|stop| *stop) => return,
                }
                continue;
            }
        };
        match engine.processor.process(sack).await {
            // What is left goes behind the other sacks.
            Ok(outcome) if outcome.more => queue.push(sack, queue.now(), queue.now()),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(sack = sack.0, %error, "a pass failed: trying again");
                queue.push(sack, since, queue.now() + RETRY_DELAY);
            }
        }
    }
}
