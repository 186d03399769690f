//! Assigns sacks to workers: first come, first served, so that no sack starves behind a busy one.
//!
//! A sack that gets measures gathers for a moment, then waits for a free worker (`waiting`). While all
//! workers are busy the waiting sacks keep gathering, so passes grow with the load. The queue is bounded: it
//! has each sack at most once.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use gnudi_drivers::aggregates::StoreError;
use gnudi_model::{Sack, SackCount, SackId};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    MetricdOptions, Task,
    waiting::{Next, WaitingSacks},
};
use crate::{Engine, EngineError, folding::panic_text, units::Unit};

/// A worker's passes at once on shared stores, where a pass mostly waits for requests.
const SHARED_PASSES: usize = 4;
/// On shared stores a sack gathers for this many times the duration of a pass, up to the maximum: a pass there takes as
/// many requests for one measure as for thousands, and passes that hardly gather take the store's time from the log.
const GATHER_PASSES: u32 = 5;
const GATHER_MAX: Duration = Duration::from_millis(500);
/// Delay of a sack after a failed pass.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay after a pass failed because of an outage: at first, and at most; doubled from pass to pass.
pub const OUTAGE_DELAY: Duration = Duration::from_millis(100);
pub const OUTAGE_DELAY_MAX: Duration = Duration::from_secs(3);

/// The queue of sacks (units) for this process's workers.
pub(crate) struct SackQueue {
    /// Its times count from `started`.
    waiting: Mutex<WaitingSacks>,
    /// Notified for each queued sack that may be processed.
    bell: Notify,
    /// The smoothed duration of a pass.
    pass_time: Mutex<Duration>,
    started: Instant,
}

impl SackQueue {
    pub(super) fn new(count: SackCount) -> Self {
        let waiting = Mutex::new(WaitingSacks::new(count));
        SackQueue { waiting, bell: Notify::new(), pass_time: Mutex::default(), started: Instant::now() }
    }

    /// Clears the queue for another sack count.
    pub(super) fn renumber(&self, count: SackCount) {
        *self.waiting.lock() = WaitingSacks::new(count);
    }

    /// Queues a sack to be processed at once.
    pub(super) fn push_now(&self, sack: SackId) {
        self.push(sack, self.now(), self.now());
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn push(&self, sack: SackId, since: Duration, due: Duration) {
        let mut waiting = self.waiting.lock();
        // The count may just have changed: units of the new one are queued when opened.
        if waiting.contains(sack) && waiting.push(sack, since, due) {
            self.bell.notify_one();
        }
    }

    fn pop(&self) -> Next {
        let mut waiting = self.waiting.lock();
        let next = waiting.pop(self.now());
        if matches!(next, Next::Pass { .. }) && !waiting.is_empty() {
            // Another worker may take the next one.
            self.bell.notify_one();
        }
        next
    }

    fn end(&self, sack: SackId) {
        if self.waiting.lock().end(sack) {
            self.bell.notify_one();
        }
    }

    fn passed(&self, time: Duration) {
        let mut smoothed = self.pass_time.lock();
        *smoothed = (*smoothed * 7 + time) / 8;
    }

    /// How long a sack of a shared store gathers measures, if the configuration does not demand more.
    fn shared_gather(&self) -> Duration {
        (*self.pass_time.lock() * GATHER_PASSES).min(GATHER_MAX)
    }

    /// How long the longest waiting sack has waited; zero if none waits.
    pub(crate) fn oldest_age(&self) -> Duration {
        let oldest = self.waiting.lock().oldest();
        oldest.map_or(Duration::ZERO, |since| self.now().saturating_sub(since))
    }
}

/// A running pass over a sack.
struct Running<'a> {
    queue: &'a SackQueue,
    sack: SackId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.queue.end(self.sack);
    }
}

/// The tasks that fill the queue, and the workers.
pub(super) fn tasks(
    engine: &Arc<Engine>,
    queue: &Arc<SackQueue>,
    options: &MetricdOptions,
    stopped: &watch::Receiver<bool>,
) -> Vec<Task> {
    let mut tasks: Vec<Task> =
        vec![Box::pin(feed(engine.clone(), queue.clone(), options.clone(), stopped.clone()))];
    let mut passes = options.workers;
    if engine.coordinator.is_some() {
        tasks.push(Box::pin(sweep(engine.clone(), queue.clone(), options.lease, stopped.clone())));
        passes *= SHARED_PASSES;
    }
    engine.processor.allow_workers(options.workers);
    for _ in 0..passes {
        tasks.push(Box::pin(work(engine.clone(), queue.clone(), stopped.clone())));
    }
    tasks
}

/// Queues sacks: as their measures arrive, or all of them at intervals.
async fn feed(
    engine: Arc<Engine>,
    queue: Arc<SackQueue>,
    options: MetricdOptions,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        if options.greedy {
            let arrivals = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                arrivals = engine.incoming.arrivals() => arrivals,
            };
            let now = queue.now();
            let numbering = engine.incoming.numbering();
            let mut gather = options.gather;
            if engine.coordinator.is_some() {
                gather = gather.max(queue.shared_gather());
            }
            for sack in arrivals {
                let unit = numbering.unit_of(sack);
                if engine.units.is_open(Sack { count: numbering.units(), id: unit }) {
                    queue.push(unit, now, now + gather);
                }
            }
        } else {
            if !super::sleep(options.processing_delay, &mut stopped).await {
                return;
            }
            for unit in engine.units.open() {
                queue.push_now(unit.fence.sack.id);
            }
        }
    }
}

/// Queues units of this process that have a backlog without a reported arrival: a shared store may miss
/// arrivals.
async fn sweep(
    engine: Arc<Engine>,
    queue: Arc<SackQueue>,
    delay: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    while super::sleep(delay, &mut stopped).await {
        let numbering = engine.incoming.numbering();
        let sacks = super::own_sacks(&engine, numbering);
        // Where it fails, so do the workers' passes, which log it.
        let Ok(positions) = engine.incoming.reachable_positions(&sacks).await else { continue };
        for (sack, positions) in positions {
            if !positions.is_idle() {
                queue.push_now(numbering.unit_of(sack));
            }
        }
    }
}

/// Takes the next sack and makes a pass over it, one after the other.
async fn work(engine: Arc<Engine>, queue: Arc<SackQueue>, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let (sack, since) = match queue.pop() {
            Next::Pass { sack, since } => (sack, since),
            wait => {
                let delay = if let Next::Wait(delay) = wait { delay } else { Duration::MAX };
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stop| *stop) => return,
                    () = queue.bell.notified() => {}
                    () = tokio::time::sleep(delay) => {}
                }
                continue;
            }
        };
        let running = Running { queue: &queue, sack };
        let own = Sack { count: engine.incoming.numbering().units(), id: sack };
        let Some(unit) = engine.units.get(own) else {
            if engine.units.is_open(own) {
                // A late renewal of the lease may still succeed.
                queue.push(sack, since, queue.now() + OUTAGE_DELAY);
            }
            continue;
        };
        let started = Instant::now();
        let passed = AssertUnwindSafe(engine.processor.process(&unit)).catch_unwind().await;
        drop(running);
        queue.passed(started.elapsed());
        match passed.unwrap_or_else(|panic| Err(EngineError::Panicked(panic_text(&*panic)))) {
            Ok(outcome) => {
                unit.succeeded();
                if outcome.measures > 0 {
                    engine.outage.answered();
                }
                if outcome.more {
                    // The rest is queued behind the other sacks.
                    queue.push_now(sack);
                }
            }
            Err(error) => {
                if let Some(delay) = failed(&engine, &unit, &error) {
                    queue.push(sack, since, queue.now() + delay);
                }
            }
        }
    }
}

/// Logs a failed pass; returns the delay before the next, or `None` if another process owns the unit now.
fn failed(engine: &Engine, unit: &Unit, error: &EngineError) -> Option<Duration> {
    let sack = unit.fence.sack;
    match error {
        EngineError::Store(StoreError::Fenced { .. }) => {
            tracing::warn!(%sack, %error, "a pass was refused: the sack has another owner");
            None
        }
        // `ownership` logs it, once for all sacks.
        EngineError::Store(StoreError::Closed) => None,
        error if error.is_outage() => {
            engine.outage.failed(error);
            Some(outage_delay(sack.id, unit.failed()))
        }
        error => {
            tracing::error!(%sack, %error, "a pass failed: trying again");
            Some(RETRY_DELAY)
        }
    }
}

/// Grows with consecutive failures. Differs between sacks, so that they do not retry all at once.
fn outage_delay(sack: SackId, failures: u32) -> Duration {
    let longest = OUTAGE_DELAY.saturating_mul(1 << failures.min(10)).min(OUTAGE_DELAY_MAX);
    let stirred = (u64::from(sack.0) << 32 | u64::from(failures)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    longest.mul_f64(0.5 + 0.5 * stirred as f64 / f64::from(1 << 24))
}

#[cfg(test)]
mod tests {
    use gnudi_drivers::{
        aggregates::{Fence, memory::MemoryAggregates},
        coordination::memory::MemoryCoordinator,
        incoming::memory::MemoryIncoming,
    };
    use gnudi_indexer::MemoryIndexer;
    use gnudi_model::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sack_waits_while_the_lease_is_renewed() {
        let count = SackCount::DEFAULT;
        let incoming = Arc::new(MemoryIncoming::new(count, u64::MAX));
        let store = Arc::new(MemoryAggregates::default());
        let coordinator = Arc::new(MemoryCoordinator::by_machine_clock());
        let indexer = Arc::new(MemoryIndexer::default());
        let engine = Arc::new(Engine::shared(indexer, incoming, store, coordinator, || Timestamp::EPOCH));
        let sack = Sack { count, id: SackId(7) };
        // The lease has expired.
        engine.units.insert(Fence { sack, token: 1 });
        let queue = Arc::new(SackQueue::new(count));
        queue.push_now(sack.id);
        let (_stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(work(engine.clone(), queue.clone(), stopped));
        let expired = 2 * OUTAGE_DELAY;
        tokio::time::sleep(expired).await;
        assert!(queue.oldest_age() >= expired);
        engine.units.extend(Instant::now() + Duration::from_hours(1));
        tokio::time::sleep(expired).await;
        assert!(queue.oldest_age().is_zero());
        worker.abort();
    }

    #[test]
    fn delays_grow_to_a_bound_and_differ() {
        let delays: Vec<_> = (1..100).map(|failures| outage_delay(SackId(7), failures)).collect();
        assert!(delays[0] >= OUTAGE_DELAY && delays[0] <= 2 * OUTAGE_DELAY);
        assert!(delays.iter().all(|delay| *delay <= OUTAGE_DELAY_MAX));
        assert!(delays[20] >= OUTAGE_DELAY_MAX / 2);
        let of_sacks: std::collections::HashSet<_> =
            (0..100).map(|sack| outage_delay(SackId(sack), 9)).collect();
        assert!(of_sacks.len() > 90);
    }
}
