//! In which order waiting sacks are handed to workers. Pure: the time is an argument, and nobody waits or processes here, so that a
//! simulation can run the same code as `scheduler`.
//!
//! Times are counted from any moment that all calls share.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use gnudi_model::{SackCount, SackId};

use super::ring::Ring;

/// How many sacks a worker takes from the list at once where it takes them from the front, as Gnocchi 3's workers took metrics.
pub const FRONT_BLOCK_SACKS: usize = 16;

/// `[metricd] scheduling`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// One queue, first come, first served.
    #[default]
    Shared,
    /// Each worker has a queue for the sacks that it owns by consistent hashing.
    Ring,
    /// As Gnocchi 3 did: worker `i` takes the block from `i` times [`FRONT_BLOCK_SACKS`] on of all waiting sacks in their order,
    /// again and again. Sacks at the front that keep getting measures are handled again before the tail is ever reached.
    Front,
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make a pass over the sack, which has waited since then.
    Pass { sack: SackId, since: Duration },
    /// Come again after so long, or once the bell has rung.
    Wait(Duration),
    /// Come again once the bell has rung.
    Nothing,
}

/// Whom to tell of a sack that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Whoever waits at this bell, one of them.
    Bell(usize),
    /// Every bell.
    All,
    /// Nobody: the sack was waiting already.
    Nobody,
}

/// The sacks that wait; each is in here at most once.
#[derive(Debug)]
pub struct WaitingSacks {
    /// For each sack since when it waits, or `None`.
    since: Vec<Option<Duration>>,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Shared(DueSacks),
    Ring { ring: Ring, queues: Vec<DueSacks> },
    Front(Front),
}

impl WaitingSacks {
    pub fn new(scheduling: Scheduling, workers: usize, sacks: SackCount) -> Self {
        let order = match scheduling {
            Scheduling::Shared => Order::Shared(DueSacks::default()),
            Scheduling::Ring => {
                // More have nothing to own.
                let members = workers.min(usize::from(sacks.get()));
                let names: Vec<String> = (0..members).map(|worker| worker.to_string()).collect();
                Order::Ring { ring: Ring::new(&names, sacks), queues: vec![DueSacks::default(); workers] }
            }
            Scheduling::Front => Order::Front(Front::new(workers)),
        };
        WaitingSacks { since: vec![None; usize::from(sacks.get())], order }
    }

    /// How many sacks there are.
    pub fn len(&self) -> usize {
        self.since.len()
    }

    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// The bell at which a worker waits, from 0 on.
    pub fn bell_of(&self, worker: usize) -> usize {
        if matches!(self.order, Order::Shared(_)) { 0 } else { worker }
    }

    /// Adds a sack that has waited `since` then and may be processed from `due` on.
    pub fn push(&mut self, sack: SackId, since: Duration, due: Duration) -> Wake {
        let waits = &mut self.since[usize::from(sack.0)];
        if let Some(other) = waits {
            *waits = Some(since.min(*other));
            return Wake::Nobody;
        }
        *waits = Some(since);
        match &mut self.order {
            Order::Shared(queue) => {
                queue.push(sack, due);
                Wake::Bell(0)
            }
            Order::Ring { ring, queues } => {
                let owner = ring.owner(sack);
                queues[owner].push(sack, due);
                Wake::Bell(owner)
            }
            Order::Front(front) => {
                front.due.insert(sack, due);
                Wake::All
            }
        }
    }

    /// The worker's next sack, which waits no longer.
    pub fn pop(&mut self, worker: usize, now: Duration) -> Next {
        let next = match &mut self.order {
            Order::Shared(queue) => queue.pop(now),
            Order::Ring { queues, .. } => queues[worker].pop(now),
            Order::Front(front) => front.pop(worker, now),
        };
        match next {
            Some(Ok(sack)) => {
                let since = self.since[usize::from(sack.0)].take().expect("a sack in the order waits");
                Next::Pass { sack, since }
            }
            Some(Err(delay)) => Next::Wait(delay),
            None => Next::Nothing,
        }
    }

    /// Whether more may be waiting for others at the bell of a worker who has just been served.
    pub fn has_more(&self) -> bool {
        matches!(&self.order, Order::Shared(queue) if !queue.0.is_empty())
    }

    /// Since when the sack waits that has waited longest.
    pub fn oldest(&self) -> Option<Duration> {
        self.since.iter().flatten().min().copied()
    }
}

/// Sacks by the time from which they may be processed.
#[derive(Clone, Debug, Default)]
struct DueSacks(VecDeque<(Duration, SackId)>);

impl DueSacks {
    fn push(&mut self, sack: SackId, due: Duration) {
        // Nearly always the newest is due last; a retry may be due later than what comes after it.
        let place = match self.0.back() {
            Some((last, _)) if *last > due => self.0.partition_point(|(other, _)| *other <= due),
            _ => self.0.len(),
        };
        self.0.insert(place, (due, sack));
    }

    /// The next sack that is due, else how long to wait for one; `None` where nothing waits.
    fn pop(&mut self, now: Duration) -> Option<Result<SackId, Duration>> {
        let (due, sack) = *self.0.front()?;
        if let Some(delay) = due.checked_sub(now).filter(|delay| !delay.is_zero()) {
            return Some(Err(delay));
        }
        self.0.pop_front();
        Some(Ok(sack))
    }
}

/// Sacks in the order of their numbers, and what each worker has taken from the list and not yet come to.
#[derive(Debug)]
struct Front {
    /// From when on each may be processed.
    due: BTreeMap<SackId, Duration>,
    blocks: Vec<VecDeque<SackId>>,
}

impl Front {
    fn new(workers: usize) -> Self {
        Front { due: BTreeMap::new(), blocks: vec![VecDeque::new(); workers] }
    }

    /// As [`DueSacks::pop`].
    fn pop(&mut self, worker: usize, now: Duration) -> Option<Result<SackId, Duration>> {
        if let Some(sack) = self.next_of_block(worker, now) {
            return Some(Ok(sack));
        }
        let listed = self.due.iter().filter(|(_, due)| **due <= now).map(|(sack, _)| *sack);
        self.blocks[worker] = listed.skip(worker * FRONT_BLOCK_SACKS).take(FRONT_BLOCK_SACKS).collect();
        if let Some(sack) = self.next_of_block(worker, now) {
            return Some(Ok(sack));
        }
        let later = self.due.values().filter(|due| **due > now).min()?;
        Some(Err(later.saturating_sub(now)))
    }

    /// The next of the block that nobody else has come to.
    fn next_of_block(&mut self, worker: usize, now: Duration) -> Option<SackId> {
        while let Some(sack) = self.blocks[worker].pop_front() {
            if self.due.get(&sack).is_some_and(|due| *due <= now) {
                self.due.remove(&sack);
                return Some(sack);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    const EACH: [Scheduling; 3] = [Scheduling::Shared, Scheduling::Ring, Scheduling::Front];

    fn waiting(scheduling: Scheduling, workers: usize, sacks: u16) -> WaitingSacks {
        WaitingSacks::new(scheduling, workers, SackCount(NonZeroU16::new(sacks).unwrap()))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pass(sack: u16, since: u64) -> Next {
        Next::Pass { sack: SackId(sack), since: ms(since) }
    }

    #[test]
    fn a_sack_waits_once_and_since_the_first_time() {
        for scheduling in EACH {
            let mut waiting = waiting(scheduling, 1, 8);
            assert_eq!((waiting.pop(0, ms(0)), waiting.oldest()), (Next::Nothing, None));
            assert_ne!(waiting.push(SackId(5), ms(10), ms(30)), Wake::Nobody);
            assert_eq!(waiting.push(SackId(5), ms(20), ms(40)), Wake::Nobody);
            // A pass that failed puts its sack back with the time that it has waited since.
            assert_eq!(waiting.push(SackId(5), ms(7), ms(50)), Wake::Nobody);
            assert_eq!(waiting.oldest(), Some(ms(7)));
            assert_eq!(waiting.pop(0, ms(25)), Next::Wait(ms(5)), "{scheduling:?}");
            assert_eq!(waiting.pop(0, ms(30)), pass(5, 7), "{scheduling:?}");
            assert_eq!((waiting.pop(0, ms(60)), waiting.oldest()), (Next::Nothing, None));
        }
    }

    #[test]
    fn shared_serves_whoever_is_due_first() {
        let mut waiting = waiting(Scheduling::Shared, 2, 8);
        assert_eq!((waiting.bell_of(0), waiting.bell_of(1)), (0, 0));
        for (sack, due) in [(7, 1000), (3, 20), (1, 10), (2, 20)] {
            assert_eq!(waiting.push(SackId(sack), ms(0), ms(due)), Wake::Bell(0));
        }
        assert!(waiting.has_more());
        for (worker, sack) in [(1, 1), (0, 3), (0, 2)] {
            assert_eq!(waiting.pop(worker, ms(20)), pass(sack, 0));
        }
        assert_eq!(waiting.pop(1, ms(20)), Next::Wait(ms(980)));
    }

    #[test]
    fn ring_serves_each_sack_by_its_owner() {
        const WORKERS: usize = 4;
        let mut waiting = waiting(Scheduling::Ring, WORKERS, 64);
        let mut owners = Vec::new();
        for sack in 0..64 {
            let Wake::Bell(owner) = waiting.push(SackId(sack), ms(0), ms(u64::from(sack))) else { panic!() };
            assert_eq!(waiting.bell_of(owner), owner);
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
        let mut waiting = waiting(Scheduling::Front, 2, 64);
        for sack in (0..20).rev() {
            assert_eq!(waiting.push(SackId(sack), ms(0), ms(0)), Wake::All);
        }
        // The list's second block, then nothing: the rest is the first worker's.
        for sack in 16..20 {
            assert_eq!(waiting.pop(1, ms(0)), pass(sack, 0));
        }
        assert_eq!(waiting.pop(1, ms(0)), Next::Nothing);
        waiting.push(SackId(40), ms(0), ms(9));
        assert_eq!(waiting.pop(1, ms(0)), Next::Wait(ms(9)));
        for sack in 0..16 {
            assert_eq!(waiting.pop(0, ms(0)), pass(sack, 0));
        }
        assert_eq!(waiting.pop(0, ms(0)), Next::Wait(ms(9)));
        assert_eq!(waiting.pop(0, ms(9)), pass(40, 0));
    }

    /// Every sack gets measures every 10 ms, of which the workers make passes over an eighth: how long the sack that
    /// waited longest has waited for each of its passes, and how many had none at all.
    fn overload(scheduling: Scheduling, workers: usize) -> (Duration, usize) {
        const SACKS: u16 = 512;
        const ROUNDS: u64 = 100;
        let mut waiting = waiting(scheduling, workers, SACKS);
        let (mut longest, mut served) = (Duration::ZERO, vec![false; usize::from(SACKS)]);
        for round in 0..ROUNDS {
            let now = ms(10 * round);
            for sack in 0..SACKS {
                waiting.push(SackId(sack), now, now);
            }
            for turn in 0..usize::from(SACKS) / 8 {
                if let Next::Pass { sack, since } = waiting.pop(turn % workers, now) {
                    longest = longest.max(now.saturating_sub(since));
                    served[usize::from(sack.0)] = true;
                }
            }
        }
        longest = longest.max(ms(10 * ROUNDS).saturating_sub(waiting.oldest().unwrap()));
        (longest, served.iter().filter(|served| !**served).count())
    }

    #[test]
    fn the_tail_starves_where_workers_take_from_the_front() {
        for workers in [1, 4] {
            let (longest, never) = overload(Scheduling::Shared, workers);
            assert!(longest <= ms(80) && never == 0, "shared: {longest:?}, {never} never");
            // The queues of a ring differ in length by a fifth.
            let (longest, never) = overload(Scheduling::Ring, workers);
            assert!(longest <= ms(100) && never == 0, "ring: {longest:?}, {never} never");
            let (longest, never) = overload(Scheduling::Front, workers);
            assert!(longest == ms(1000) && never >= 350, "front: {longest:?}, {never} never");
        }
    }
}
