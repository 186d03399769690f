//! Waits until other processes' sacks are processed.
//!
//! However many callers wait, a single task polls, for all sacks in one call, with a growing delay, while
//! anybody waits.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

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
                tokio::spawn(async move { own.ask().await });
            }
        }
        answer.await.unwrap_or_else(|_| Err(IncomingError::Unavailable("the process is stopping".to_owned())))
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
    use gnudi_model::{SackCount, SackId};

    use super::*;

    /// In a cluster of Redis.
    #[test]
    fn a_server_that_is_down_fails_only_those_who_wait_for_its_sacks() {
        let count = SackCount(2.try_into().unwrap());
        let [up, down] = [0, 1].map(|id| Sack { count, id: SackId(id) });
        let positions = HashMap::from([(up, Positions::default())]);
        let succeeded = [up, down].map(|sack| {
            let (done, mut answer) = oneshot::channel();
            let wait = Wait { sacks: vec![(sack, None)], done };
            assert!(wait.after(&positions, Numbering::settled(count)).is_none());
            answer.try_recv().unwrap().is_ok()
        });
        assert_eq!(succeeded, [true, false]);
    }
}
