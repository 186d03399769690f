//! The queue of sacks that wait for a worker, first come, first served. A sack waits until the pass over it has ended:
//! another worker could only wait, too. Pure: time is an argument, and nothing blocks or processes here, so that a
//! simulation can run the same code as `scheduler`.
//!
//! Times count from any common origin.

use std::{collections::VecDeque, time::Duration};

use gnudi_model::{SackCount, SackId};

/// A worker's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make a pass over the sack, which has waited since then, and call [`WaitingSacks::end`].
    Pass { sack: SackId, since: Duration },
    /// Try again after this time, or when a sack is pushed or a pass ends.
    Wait(Duration),
    /// Try again when a sack is pushed or a pass ends.
    Nothing,
}

/// The waiting sacks; each at most once.
#[derive(Debug)]
pub struct WaitingSacks {
    /// Since when each sack waits, or `None`.
    since: Vec<Option<Duration>>,
    /// Sorted by the time from which they may be processed.
    queue: VecDeque<(Duration, SackId)>,
    /// Whether a pass runs over each sack.
    is_running: Vec<bool>,
}

impl WaitingSacks {
    pub fn new(sacks: SackCount) -> Self {
        let count = usize::from(sacks.get());
        WaitingSacks { since: vec![None; count], queue: VecDeque::new(), is_running: vec![false; count] }
    }

    /// Whether there is such a sack.
    pub fn contains(&self, sack: SackId) -> bool {
        usize::from(sack.0) < self.since.len()
    }

    /// Adds a sack that has waited since `since` and may be processed from `due` on; false if it waits
    /// already.
    pub fn push(&mut self, sack: SackId, since: Duration, due: Duration) -> bool {
        let waits = &mut self.since[usize::from(sack.0)];
        if let Some(other) = waits {
            *waits = Some(since.min(*other));
            return false;
        }
        *waits = Some(since);
        // Nearly always the newest is due last; a retry may be due later than its successors.
        let place = match self.queue.back() {
            Some((last, _)) if *last > due => self.queue.partition_point(|(other, _)| *other <= due),
            _ => self.queue.len(),
        };
        self.queue.insert(place, (due, sack));
        true
    }

    /// Removes and returns the next due sack over which no pass runs.
    pub fn pop(&mut self, now: Duration) -> Next {
        let rests = |(_, sack): &(Duration, SackId)| !self.is_running[usize::from(sack.0)];
        let Some(place) = self.queue.iter().position(rests) else { return Next::Nothing };
        let (due, sack) = self.queue[place];
        if due > now {
            return Next::Wait(due.saturating_sub(now));
        }
        self.queue.remove(place);
        self.is_running[usize::from(sack.0)] = true;
        let since = self.since[usize::from(sack.0)].take().expect("a sack in the queue waits");
        Next::Pass { sack, since }
    }

    /// Ends a pass; returns whether the sack waits for another one.
    pub fn end(&mut self, sack: SackId) -> bool {
        let sack = usize::from(sack.0);
        // There may be another number of sacks since the pass began.
        let Some(is_running) = self.is_running.get_mut(sack) else { return false };
        *is_running = false;
        self.since[sack].is_some()
    }

    /// Whether no sack waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Since when the longest waiting sack waits.
    pub fn oldest(&self) -> Option<Duration> {
        self.since.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn waiting(sacks: u16) -> WaitingSacks {
        WaitingSacks::new(SackCount(NonZeroU16::new(sacks).unwrap()))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pass(sack: u16, since: u64) -> Next {
        Next::Pass { sack: SackId(sack), since: ms(since) }
    }

    #[test]
    fn a_sack_waits_once_and_since_the_first_time() {
        let mut waiting = waiting(8);
        assert_eq!((waiting.pop(ms(0)), waiting.oldest()), (Next::Nothing, None));
        assert!(waiting.push(SackId(5), ms(10), ms(30)));
        assert!(!waiting.push(SackId(5), ms(20), ms(40)));
        // A failed pass requeues its sack with the time since which it has waited.
        assert!(!waiting.push(SackId(5), ms(7), ms(50)));
        assert_eq!(waiting.oldest(), Some(ms(7)));
        assert_eq!(waiting.pop(ms(25)), Next::Wait(ms(5)));
        assert_eq!(waiting.pop(ms(30)), pass(5, 7));
        assert_eq!((waiting.pop(ms(60)), waiting.oldest()), (Next::Nothing, None));
    }

    #[test]
    fn the_sack_that_is_due_first_is_served_first() {
        let mut waiting = waiting(8);
        for (sack, due) in [(7, 1000), (3, 20), (1, 10), (2, 20)] {
            assert!(waiting.push(SackId(sack), ms(0), ms(due)));
        }
        for sack in [1, 3, 2] {
            assert_eq!(waiting.pop(ms(20)), pass(sack, 0));
        }
        assert!(!waiting.is_empty());
        assert_eq!(waiting.pop(ms(20)), Next::Wait(ms(980)));
    }

    #[test]
    fn a_sack_with_a_running_pass_takes_no_other_worker() {
        let mut waiting = waiting(8);
        assert!(waiting.push(SackId(5), ms(0), ms(0)));
        assert_eq!(waiting.pop(ms(0)), pass(5, 0));
        // It gets more measures during the pass, and others get some.
        assert!(waiting.push(SackId(5), ms(10), ms(10)));
        assert_eq!(waiting.pop(ms(20)), Next::Nothing);
        assert!(waiting.push(SackId(3), ms(20), ms(30)));
        assert_eq!(waiting.pop(ms(20)), Next::Wait(ms(10)));
        assert_eq!(waiting.pop(ms(30)), pass(3, 20));
        assert!(!waiting.end(SackId(3)));
        assert!(waiting.end(SackId(5)));
        assert_eq!(waiting.pop(ms(30)), pass(5, 10));
        assert!(!waiting.end(SackId(5)) && !waiting.end(SackId(8)));
    }

    /// Every sack gets measures every 10 ms, and passes cover an eighth of them.
    #[test]
    fn no_sack_starves() {
        const SACKS: u16 = 512;
        const ROUNDS: u64 = 100;
        let mut waiting = waiting(SACKS);
        let (mut longest, mut served) = (Duration::ZERO, vec![false; usize::from(SACKS)]);
        for round in 0..ROUNDS {
            let now = ms(10 * round);
            for sack in 0..SACKS {
                waiting.push(SackId(sack), now, now);
            }
            for _ in 0..SACKS / 8 {
                if let Next::Pass { sack, since } = waiting.pop(now) {
                    longest = longest.max(now.saturating_sub(since));
                    served[usize::from(sack.0)] = true;
                    waiting.end(sack);
                }
            }
        }
        longest = longest.max(ms(10 * ROUNDS).saturating_sub(waiting.oldest().unwrap()));
        assert!(longest <= ms(80) && served.iter().all(|served| *served), "{longest:?}");
    }
}
