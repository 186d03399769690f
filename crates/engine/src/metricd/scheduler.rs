//! Hands sacks to workers: first come, first served, so that no sack starves behind a busy one.
//!
//! A sack that gets measures gathers for a moment, then waits in a queue for a free worker. While all workers are busy
//! the queue's sacks go on gathering, so passes grow with the load by themselves. The queue is bounded: a sack is in it
//! at most once.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_model::SackId;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use super::MetricdOptions;
use crate::Engine;

/// How long a sack rests after a failed pass.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order of their arrival, each with the time from which it may be processed.
    queue: VecDeque<(Instant, SackId)>,
    /// Which sacks are in the queue.
    queued: HashSet<SackId>,
}

impl Queue {
    fn push(&self, sack: SackId, due: Instant) {
        let Waiting { queue, queued } = &mut *self.waiting.lock();
        if queued.insert(sack) {
            // Nearly always the newest is due last; a retry may be due later than what comes after it.
            let place = queue.partition_point(|(other, _)| *other <= due);
            queue.insert(place, (due, sack));
            self.arrived.notify_one();
        }
    }

    /// The next sack that is due, else how long to wait for one; `None` where nothing waits.
    fn pop(&self, now: Instant) -> Option<Result<SackId, Duration>> {
        let Waiting { queue, queued } = &mut *self.waiting.lock();
        let (due, sack) = *queue.front()?;
        if due > now {
            return Some(Err(due - now));
        }
        queue.pop_front();
        queued.remove(&sack);
        if !queue.is_empty() {
            // Another worker may take the next one.
            self.arrived.notify_one();
        }
        Some(Ok(sack))
    }
}

pub(super) fn start(
    engine: &Arc<Engine>,
    options: &MetricdOptions,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let queue = Arc::new(Queue::default());
    let mut tasks = vec![tokio::spawn(feed(engine.clone(), queue.clone(), options.clone(), stopped.clone()))];
    for _ in 0..options.workers {
        tasks.push(tokio::spawn(work(engine.clone(), queue.clone(), stopped.clone())));
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
            let due = Instant::now() + options.gather;
            for sack in arrivals {
                queue.push(sack, due);
            }
        } else {
            if !super::sleep(options.processing_delay, &mut stopped).await {
                return;
            }
            for sack in engine.incoming.sack_count().iter() {
                queue.push(sack, Instant::now());
            }
        }
    }
}

/// One worker: takes the sack that is due and passes over it.
async fn work(engine: Arc<Engine>, queue: Arc<Queue>, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let sack = match queue.pop(Instant::now()) {
            Some(Ok(sack)) => sack,
            wait => {
                let delay = wait.and_then(Result::err).unwrap_or(Duration::MAX);
                tokio::select! {
                    () = queue.arrived.notified() => {}
                    () = tokio::time::sleep(delay) => {}
                    _ = stopped.wait_for(|stop| *stop) => return,
                }
                continue;
            }
        };
        match engine.processor.process(sack).await {
            // What is left goes behind the other sacks.
            Ok(outcome) if outcome.more => queue.push(sack, Instant::now()),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(sack = sack.0, %error, "a pass failed: trying again");
                queue.push(sack, Instant::now() + RETRY_DELAY);
            }
        }
    }
}
