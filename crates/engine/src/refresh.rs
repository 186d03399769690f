//! Waits until other processes' sacks are processed.
//!
//! However many callers wait, a single task polls, for all sacks in one call, with a growing delay, while
//! anybody waits.

use std::{
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use gnudi_drivers::incoming::{Consume, IncomingError, Position, Positions};
use gnudi_model::{Numbering, Sack};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Delay between two polls, at first and at most.
pub const POLL_DELAY: Duration = Duration::from_millis(5);
pub const POLL_DELAY_MAX: Duration = Duration::from_millis(50);

pub(crate) struct Watcher {
    incoming: Arc<dyn Consume>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asking: bool,
    /// Added since the last poll.
    new: Vec<Wait>,
}

/// A waiting caller.
struct Wait {
    /// With the newest positions at their first poll.
    sacks: Vec<(Sack, Option<Position>)>,
    done: oneshot::Sender<Result<(), IncomingError>>,
}

impl Watcher {
    pub(crate) fn new(incoming: Arc<dyn Consume>) -> Arc<Self> {
        Arc::new(Watcher { incoming, state: Mutex::default() })
    }

    /// Returns once everything accepted before the call is in the aggregates. Cancel by dropping the future.
    pub(crate) async fn processed(self: &Arc<Self>, sacks: Vec<Sack>) -> Result<(), IncomingError> {
        let (done, answer) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.new.push(Wait { sacks: sacks.into_iter().map(|sack| (sack, None)).collect(), done });
            if !state.asking {
                state.asking = true;
                let own = self.clone();
                tokio::spawn(async move {
                    if let Err(panic) = AssertUnwindSafe(own.ask()).catch_unwind().await {
                        own.give_up();
                        resume_unwind(panic);
                    }
                });
            }
        }
        answer.await.unwrap_or_else(|_| Err(IncomingError::Unavailable("the process is stopping".to_owned())))
    }

    /// After a panic of the polling task: fails the callers that it has not seen. The next caller starts it again.
    fn give_up(&self) {
        let mut state = self.state.lock();
        state.asking = false;
        state.new.clear();
    }

    async fn ask(&self) {
        let mut waits: Vec<Wait> = Vec::new();
        let mut delay = POLL_DELAY;
        loop {
            {
                let mut state = self.state.lock();
                waits.retain(|wait| !wait.done.is_closed());
                if !state.new.is_empty() {
                    delay = POLL_DELAY;
                    waits.append(&mut state.new);
                }
                if waits.is_empty() {
                    state.asking = false;
                    return;
                }
            }
            let sacks: BTreeSet<Sack> =
                waits.iter().flat_map(|wait| &wait.sacks).map(|(sack, _)| *sack).collect();
            let sacks: Vec<Sack> = sacks.into_iter().collect();
            match self.incoming.reachable_positions(&sacks).await {
                Ok(positions) => {
                    let numbering = self.incoming.numbering();
                    let positions: HashMap<Sack, Positions> = positions.into_iter().collect();
                    let still = waits.into_iter().filter_map(|wait| wait.after(&positions, numbering));
                    waits = still.collect();
                }
                Err(error) => {
                    for wait in waits.drain(..) {
                        let _ = wait.done.send(Err(error.clone()));
                    }
                }
            }
            if !waits.is_empty() {
                tokio::time::sleep(delay).await;
                delay = (delay * 3 / 2).min(POLL_DELAY_MAX);
            }
        }
    }
}

impl Wait {
    /// Removes the sacks that have reached their positions; notifies the caller when none is left, or if a position is
    /// unknown.
    fn after(mut self, positions: &HashMap<Sack, Positions>, numbering: Numbering) -> Option<Self> {
        if let Some((sack, _)) = self.sacks.iter().find(|(sack, _)| !positions.contains_key(sack)) {
            let reason = format!("the server of sack {} does not respond", sack.id.0);
            let _ = self.done.send(Err(IncomingError::Unavailable(reason)));
            return None;
        }
        self.sacks.retain_mut(|(sack, newest)| {
            let Positions { acknowledged, newest: now } = positions[sack];
            let newest = *newest.get_or_insert(now);
            // A sack of an earlier count is gone: it was idle when the split ended.
            acknowledged < newest && sack.count >= numbering.units()
        });
        if self.sacks.is_empty() {
            let _ = self.done.send(Ok(()));
            return None;
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use gnudi_drivers::incoming::Pending;
    use gnudi_model::{SackCount, SackId};

    use super::*;

    fn count() -> SackCount {
        SackCount(2.try_into().unwrap())
    }

    /// Panics at its first poll.
    struct PanicsOnce(AtomicBool);

    #[async_trait]
    impl Consume for PanicsOnce {
        fn numbering(&self) -> Numbering {
            Numbering::settled(count())
        }

        async fn pending(&self, _: Sack, _: Position, _: usize) -> Result<Pending, IncomingError> {
            unreachable!("only positions are read")
        }

        async fn acknowledge(&self, _: Sack, _: Position) -> Result<(), IncomingError> {
            unreachable!("only positions are read")
        }

        async fn trim(&self, _: &[(Sack, Position)]) -> Result<(), IncomingError> {
            unreachable!("only positions are read")
        }

        async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
            assert!(self.0.swap(true, Ordering::Relaxed), "a defect of a driver");
            Ok(vec![Positions::default(); sacks.len()])
        }

        async fn arrivals(&self) -> Vec<Sack> {
            unreachable!("only positions are read")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_after_a_panic_are_served() {
        let watcher = Watcher::new(Arc::new(PanicsOnce(AtomicBool::new(false))));
        let sack = Sack { count: count(), id: SackId(0) };
        for succeeds in [false, true] {
            let processed = tokio::time::timeout(Duration::from_mins(1), watcher.processed(vec![sack])).await;
            assert_eq!(processed.unwrap().is_ok(), succeeds);
        }
    }

    /// In a cluster of Redis.
    #[test]
    fn a_server_that_is_down_fails_only_those_who_wait_for_its_sacks() {
        let [up, down] = [0, 1].map(|id| Sack { count: count(), id: SackId(id) });
        let positions = HashMap::from([(up, Positions::default())]);
        let succeeded = [up, down].map(|sack| {
            let (done, mut answer) = oneshot::channel();
            let wait = Wait { sacks: vec![(sack, None)], done };
            assert!(wait.after(&positions, Numbering::settled(count())).is_none());
            answer.try_recv().unwrap().is_ok()
        });
        assert_eq!(succeeded, [true, false]);
    }
}
