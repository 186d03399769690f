//! The queue of password checks. Clients with recent failures are served last, and no address or name may
//! take more than a share of the queue.
//!
//! Addresses and names are stored as keyed hashes only. Pure: the clock is an argument.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How many checks run concurrently: guesses must not take all CPUs and memory.
const CHECKS_MAX: usize = 1;

/// How many checks may wait; further ones are refused.
pub const WAITING_MAX: usize = 64;

/// The maximum number of waiting checks per address, and per name.
pub const SHARE_MAX: usize = WAITING_MAX / 2;

/// How long failures count, from the last one on.
const FAILURES_LIFETIME: Duration = Duration::from_mins(1);

/// How many addresses, and how many names, with failures are kept. A full table loses its expired entries; if there are
/// none, all.
const FAILURES_MAX: usize = 20_000;

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The origin of a check: hashes of its address and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOrigin {
    pub address: u64,
    pub name: u64,
}

/// The queue. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CheckQueue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// In order of arrival.
    waiting: Vec<PendingCheck>,
    addresses: Failures,
    names: Failures,
}

#[derive(Debug)]
struct PendingCheck {
    origin: CheckOrigin,
    turn: oneshot::Sender<Turn>,
}

/// The right to run a check; on drop it passes to the next.
#[derive(Debug)]
pub struct Turn(CheckQueue);

impl CheckQueue {
    /// Queues a check. The receiver yields the turn, or an error if a client with fewer failures displaces
    /// it.
    pub fn enter(&self, origin: CheckOrigin, now: Instant) -> Result<oneshot::Receiver<Turn>, Busy> {
        let (turn, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        if state.running < CHECKS_MAX {
            state.running += 1;
            drop(state);
            let _ = turn.send(Turn(self.clone()));
            return Ok(receiver);
        }
        state.waiting.retain(|waiting| !waiting.turn.is_closed());
        let count = |is_of: &dyn Fn(&CheckOrigin) -> bool| {
            state.waiting.iter().filter(|waiting| is_of(&waiting.origin)).count()
        };
        if count(&|other| other.address == origin.address) >= SHARE_MAX
            || count(&|other| other.name == origin.name) >= SHARE_MAX
        {
            return Err(Busy);
        }
        if state.waiting.len() >= WAITING_MAX {
            let ranks = state.waiting.iter().map(|waiting| state.rank(&waiting.origin, now));
            let worst = ranks.enumerate().max_by_key(|(place, rank)| (*rank, *place));
            let (place, _) = worst.filter(|(_, rank)| state.rank(&origin, now) < *rank).ok_or(Busy)?;
            state.waiting.remove(place);
        }
        state.waiting.push(PendingCheck { origin, turn });
        assert!(state.waiting.len() <= WAITING_MAX, "the queue is bounded");
        Ok(receiver)
    }

    /// Records a wrong password.
    pub fn failed(&self, origin: CheckOrigin, now: Instant) {
        let mut state = self.0.lock();
        state.addresses.add(origin.address, now);
        state.names.add(origin.name, now);
    }

    /// Passes the turn to the check with the fewest recent failures, the oldest of them first.
    fn next(&self, now: Instant) {
        let next = {
            let mut state = self.0.lock();
            let ranks = state.waiting.iter().map(|waiting| state.rank(&waiting.origin, now));
            let Some((place, _)) = ranks.enumerate().min_by_key(|(place, rank)| (*rank, *place)) else {
                state.running -= 1;
                return;
            };
            state.waiting.remove(place)
        };
        // If the receiver is gone, the returned turn is dropped, which passes it on.
        let _ = next.turn.send(Turn(self.clone()));
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.next(Instant::now());
    }
}

impl State {
    /// Recent failures of the address and of the name; lower ranks are served first.
    fn rank(&self, origin: &CheckOrigin, now: Instant) -> (u32, u32) {
        (self.addresses.count(origin.address, now), self.names.count(origin.name, now))
    }
}

/// The number of failures and the time of the last one, by key.
#[derive(Debug, Default)]
struct Failures(HashMap<u64, (u32, Instant)>);

impl Failures {
    fn count(&self, key: u64, now: Instant) -> u32 {
        self.0.get(&key).filter(|(_, last)| is_recent(*last, now)).map_or(0, |(count, _)| *count)
    }

    fn add(&mut self, key: u64, now: Instant) {
        let count = self.count(key, now).saturating_add(1);
        if self.0.len() >= FAILURES_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, (_, last)| is_recent(*last, now));
            if self.0.len() >= FAILURES_MAX {
                self.0.clear();
            }
        }
        self.0.insert(key, (count, now));
    }
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) < FAILURES_LIFETIME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: u64, name: u64) -> CheckOrigin {
        CheckOrigin { address, name }
    }

    #[test]
    fn who_has_failed_comes_after_all_others() {
        let (queue, now) = (CheckQueue::default(), Instant::now());
        let running = queue.enter(origin(1, 1), now).unwrap().try_recv().unwrap();
        let mut guess = queue.enter(origin(1, 1), now).unwrap();
        let mut same_name = queue.enter(origin(2, 1), now).unwrap();
        let mut gone = queue.enter(origin(3, 3), now).unwrap();
        gone.close();
        let mut other = queue.enter(origin(3, 3), now).unwrap();
        queue.failed(origin(1, 1), now);
        drop(running);
        let turn = other.try_recv().unwrap();
        assert!(same_name.try_recv().is_err());
        drop(turn);
        drop(same_name.try_recv().unwrap());
        drop(guess.try_recv().unwrap());
        assert_eq!(queue.waiting(), 0);
        assert_eq!(queue.0.lock().running, 0);
    }

    #[test]
    fn nobody_has_more_than_a_share_and_newcomers_displace_who_has_failed() {
        let (queue, now) = (CheckQueue::default(), Instant::now());
        let running = queue.enter(origin(0, 0), now).unwrap().try_recv().unwrap();
        let share = SHARE_MAX as u64;
        let mut guesses: Vec<_> = (0..share).map(|name| queue.enter(origin(1, name), now).unwrap()).collect();
        assert_eq!(queue.enter(origin(1, 100), now).err(), Some(Busy));
        guesses.extend((0..share).map(|address| queue.enter(origin(2 + address, 1_000), now).unwrap()));
        assert_eq!(queue.enter(origin(100, 1_000), now).err(), Some(Busy));
        assert_eq!(queue.waiting(), WAITING_MAX);
        assert_eq!(queue.enter(origin(100, 100), now).err(), Some(Busy), "all are alike yet");
        queue.failed(origin(1, 1_000), now);
        let mut other = queue.enter(origin(100, 100), now).unwrap();
        drop(running);
        assert!(other.try_recv().is_ok());
        let is_displaced = |guess: &mut oneshot::Receiver<Turn>| {
            matches!(guess.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        };
        assert_eq!(guesses.iter_mut().filter_map(|guess| is_displaced(guess).then_some(())).count(), 1);
    }

    #[test]
    fn failures_are_forgotten_in_time_and_bounded() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        failures.add(1, now);
        failures.add(1, now);
        assert_eq!(failures.count(1, now), 2);
        assert_eq!(failures.count(1, now + FAILURES_LIFETIME), 0);
        for key in 0..=FAILURES_MAX as u64 {
            failures.add(key, now);
        }
        assert!(failures.0.len() <= FAILURES_MAX);
    }
}
