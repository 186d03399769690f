//! Orders in which workers may process sacks: the engine's own, and two for comparison.
//!
//! Pure, like the engine's: times are arguments, relative to a common origin.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use gnudi_engine::metricd::{
    ring::Ring,
    waiting::{Next, WaitingSacks},
};
use gnudi_model::{SackCount, SackId};

/// Sacks that a worker takes from the front of the list at once, as Gnocchi 3's workers took metrics.
pub const FRONT_BLOCK_SACKS: usize = 16;

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One queue, first come, first served: the engine's.
    Shared,
    /// Each worker has a queue for the sacks that it owns by consistent hashing.
    Ring,
    /// As in Gnocchi 3: worker `i` repeatedly takes the block at `i` times [`FRONT_BLOCK_SACKS`] of all sorted waiting
    /// sacks. Sacks at the front that keep getting measures are processed again before the tail is reached.
    Front,
}

/// Which workers to wake for a new sack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    One(usize),
    All,
    /// None: the sack was already queued.
    None,
}

/// The queued sacks; each at most once.
#[derive(Debug)]
pub enum Waiting {
    Shared(WaitingSacks),
    Ring { ring: Ring, queues: Vec<WaitingSacks> },
    Front(Front),
}

impl Waiting {
    pub fn new(order: Order, workers: usize, sacks: SackCount) -> Self {
        match order {
            Order::Shared => Waiting::Shared(WaitingSacks::new(sacks)),
            Order::Ring => {
                // Further workers would own nothing.
                let members = workers.min(usize::from(sacks.get()));
                let names: Vec<String> = (0..members).map(|worker| worker.to_string()).collect();
                let queues = (0..workers).map(|_| WaitingSacks::new(sacks)).collect();
                Waiting::Ring { ring: Ring::new(&names, sacks), queues }
            }
            Order::Front => {
                Waiting::Front(Front { waiting: BTreeMap::new(), blocks: vec![VecDeque::new(); workers] })
            }
        }
    }

    /// Queues a sack that has waited since `since` and may be processed from `due` on.
    pub fn push(&mut self, sack: SackId, since: Duration, due: Duration) -> Wake {
        let (is_new, wake) = match self {
            Waiting::Shared(queue) => (queue.push(sack, since, due), Wake::All),
            Waiting::Ring { ring, queues } => {
                let owner = ring.owner(sack);
                (queues[owner].push(sack, since, due), Wake::One(owner))
            }
            Waiting::Front(front) => (front.push(sack, since, due), Wake::All),
        };
        if is_new { wake } else { Wake::None }
    }

    /// Removes and returns the worker's next sack.
    pub fn pop(&mut self, worker: usize, now: Duration) -> Next {
        match self {
            Waiting::Shared(queue) => queue.pop(now),
            Waiting::Ring { queues, .. } => queues[worker].pop(now),
            Waiting::Front(front) => front.pop(worker, now),
        }
    }
}

/// Sacks sorted by number, and the block that each worker has taken but not finished.
#[derive(Debug)]
pub struct Front {
    /// For each, the start of waiting, and the time from which it may be processed.
    waiting: BTreeMap<SackId, (Duration, Duration)>,
    blocks: Vec<VecDeque<SackId>>,
}

impl Front {
    /// False if the sack is already queued.
    fn push(&mut self, sack: SackId, since: Duration, due: Duration) -> bool {
        let mut is_new = false;
        self.waiting.entry(sack).or_insert_with(|| {
            is_new = true;
            (since, due)
        });
        is_new
    }

    fn pop(&mut self, worker: usize, now: Duration) -> Next {
        if let Some(next) = self.next_of_block(worker, now) {
            return next;
        }
        let listed = self.waiting.iter().filter(|(_, (_, due))| *due <= now).map(|(sack, _)| *sack);
        self.blocks[worker] = listed.skip(worker * FRONT_BLOCK_SACKS).take(FRONT_BLOCK_SACKS).collect();
        if let Some(next) = self.next_of_block(worker, now) {
            return next;
        }
        let later = self.waiting.values().map(|(_, due)| *due).filter(|due| *due > now).min();
        later.map_or(Next::Nothing, |due| Next::Wait(due.saturating_sub(now)))
    }

    /// The next one of the block that no other worker has processed.
    fn next_of_block(&mut self, worker: usize, now: Duration) -> Option<Next> {
        while let Some(sack) = self.blocks[worker].pop_front() {
            if let Some((since, _)) = self.waiting.get(&sack).copied().filter(|(_, due)| *due <= now) {
                self.waiting.remove(&sack);
                return Some(Next::Pass { sack, since });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn waiting(order: Order, workers: usize) -> Waiting {
        Waiting::new(order, workers, SackCount(NonZeroU16::new(64).unwrap()))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pass(sack: u16) -> Next {
        Next::Pass { sack: SackId(sack), since: ms(0) }
    }

    #[test]
    fn ring_serves_each_sack_by_its_owner() {
        const WORKERS: usize = 4;
        let mut waiting = waiting(Order::Ring, WORKERS);
        let mut owners = Vec::new();
        for sack in 0..64 {
            let Wake::One(owner) = waiting.push(SackId(sack), ms(0), ms(u64::from(sack))) else { panic!() };
            assert_eq!(waiting.push(SackId(sack), ms(0), ms(0)), Wake::None);
            owners.push(owner);
        }
        for worker in 0..WORKERS {
            let served = std::iter::from_fn(|| match waiting.pop(worker, ms(100)) {
                Next::Pass { sack, .. } => Some(sack.0),
                _ => None,
            });
            let own = (0..64).filter(|sack| owners[usize::from(*sack)] == worker);
            assert_eq!(served.collect::<Vec<_>>(), own.collect::<Vec<_>>());
        }
    }

    #[test]
    fn front_gives_each_worker_a_block_of_the_list() {
        let mut waiting = waiting(Order::Front, 2);
        for sack in (0..20).rev() {
            assert_eq!(waiting.push(SackId(sack), ms(0), ms(0)), Wake::All);
        }
        // The list's second block, then nothing: the rest belongs to the first worker.
        for sack in 16..20 {
            assert_eq!(waiting.pop(1, ms(0)), pass(sack));
        }
        assert_eq!(waiting.pop(1, ms(0)), Next::Nothing);
        waiting.push(SackId(40), ms(0), ms(9));
        assert_eq!(waiting.pop(1, ms(0)), Next::Wait(ms(9)));
        for sack in 0..16 {
            assert_eq!(waiting.pop(0, ms(0)), pass(sack));
        }
        assert_eq!(waiting.pop(0, ms(0)), Next::Wait(ms(9)));
        assert_eq!(waiting.pop(0, ms(9)), pass(40));
    }
}
