//! Unacknowledged deliveries of a channel, and which acknowledgements to send: one for a contiguous run of tags.
//!
//! Pure: the caller passes the time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long an outcome waits for the ones before it, so that one acknowledgement covers all.
const ROW_WAIT: Duration = Duration::from_millis(200);

/// An acknowledgement to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// All unacknowledged ones up to this tag.
    UpTo(u64),
    /// Only this one.
    One(u64),
}

#[derive(Clone, Copy, Debug)]
struct OpenDelivery {
    bytes: usize,
    /// When it was done.
    done: Option<Instant>,
}

/// The unacknowledged deliveries of one channel by tag. Tags count from 1.
#[derive(Debug, Default)]
pub struct Ledger {
    open: BTreeMap<u64, OpenDelivery>,
    bytes: usize,
    highest: u64,
}

impl Ledger {
    /// Registers a delivery. Deliveries of several queues may arrive out of tag order: missing tags are under way and
    /// count as unacknowledged, so no run extends beyond them.
    pub fn opened(&mut self, tag: u64, bytes: usize) {
        for missing in self.highest + 1..tag {
            self.open.insert(missing, OpenDelivery { bytes: 0, done: None });
        }
        self.highest = self.highest.max(tag);
        self.bytes += bytes;
        self.open.insert(tag, OpenDelivery { bytes, done: None });
    }

    /// Marks a delivery as done: [`Ledger::due`] will acknowledge it. Unknown tags are ignored.
    pub fn done(&mut self, tag: u64, now: Instant) {
        if let Some(open) = self.open.get_mut(&tag) {
            open.done.get_or_insert(now);
        }
    }

    /// Removes a delivery that is answered individually (requeued). Returns whether it existed.
    pub fn remove(&mut self, tag: u64) -> bool {
        let removed = self.open.remove(&tag);
        self.bytes -= removed.map_or(0, |open| open.bytes);
        removed.is_some()
    }

    /// The acknowledgements to send now. `is_final`: do not wait for earlier tags.
    pub fn due(&mut self, now: Instant, is_final: bool) -> Vec<Acknowledgement> {
        let mut due = Vec::new();
        let mut last = None;
        while let Some(entry) = self.open.first_entry().filter(|entry| entry.get().done.is_some()) {
            let (tag, open) = entry.remove_entry();
            self.bytes -= open.bytes;
            last = Some(tag);
        }
        due.extend(last.map(Acknowledgement::UpTo));
        let is_late = |open: &OpenDelivery| open.done.is_some_and(|done| is_final || now - done >= ROW_WAIT);
        let late: Vec<u64> =
            self.open.iter().filter(|(_, open)| is_late(open)).map(|(tag, _)| *tag).collect();
        for tag in late {
            self.remove(tag);
            due.push(Acknowledgement::One(tag));
        }
        due
    }

    /// Bytes of unacknowledged deliveries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of unacknowledged deliveries.
    pub fn count(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_acknowledged_at_once_and_stragglers_hold_nobody_up_for_long() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        for tag in 1..=5 {
            ledger.opened(tag, 10);
        }
        for tag in [2, 1, 4] {
            ledger.done(tag, start);
        }
        assert_eq!(ledger.due(start, false), [Acknowledgement::UpTo(2)]);
        assert_eq!((ledger.due(start, false), ledger.bytes()), (vec![], 30));
        assert_eq!(ledger.due(start + ROW_WAIT, false), [Acknowledgement::One(4)]);
        assert!(ledger.remove(3) && !ledger.remove(3));
        ledger.done(5, start);
        ledger.done(99, start);
        assert_eq!(ledger.due(start, false), [Acknowledgement::UpTo(5)]);
        assert_eq!((ledger.count(), ledger.bytes()), (0, 0));
    }

    #[test]
    fn what_has_not_come_yet_is_not_acknowledged() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        ledger.opened(3, 1);
        ledger.opened(1, 1);
        for tag in [1, 3] {
            ledger.done(tag, start);
        }
        assert_eq!(ledger.due(start, false), [Acknowledgement::UpTo(1)]);
        ledger.opened(2, 1);
        ledger.done(2, start);
        assert_eq!(ledger.due(start, false), [Acknowledgement::UpTo(3)]);
    }

    proptest! {
        /// Checked against a model of the broker: only done deliveries are acknowledged, and finally all of them.
        #[test]
        fn exactly_what_is_done_is_acknowledged(steps in prop::collection::vec((0_u8..4, 0_u64..30), 0..200)) {
            let start = Instant::now();
            let mut ledger = Ledger::default();
            let (mut at_broker, mut done, mut tags) = (std::collections::BTreeSet::new(), vec![], 0);
            let acknowledge = |broker: &mut std::collections::BTreeSet<u64>, done: &[u64], due: Vec<Acknowledgement>| {
                for acknowledgement in due {
                    let gone: Vec<u64> = match acknowledgement {
                        Acknowledgement::UpTo(tag) => broker.range(..=tag).copied().collect(),
                        Acknowledgement::One(tag) => vec![tag],
                    };
                    for tag in gone {
                        assert!(broker.remove(&tag) && done.contains(&tag), "{tag}");
                    }
                }
            };
            for (index, (kind, number)) in steps.into_iter().enumerate() {
                let now = start + Duration::from_millis(index as u64 * 20);
                let open: Vec<u64> = at_broker.iter().copied().filter(|tag| !done.contains(tag)).collect();
                let picked = open.get(number as usize % open.len().max(1)).copied();
                match (kind, picked) {
                    (0, _) => {
                        tags += 1;
                        at_broker.insert(tags);
                        ledger.opened(tags, 1);
                    }
                    (1, Some(tag)) => {
                        done.push(tag);
                        ledger.done(tag, now);
                    }
                    (2, Some(tag)) => {
                        at_broker.remove(&tag);
                        ledger.remove(tag);
                    }
                    _ => acknowledge(&mut at_broker, &done, ledger.due(now, false)),
                }
            }
            let due = ledger.due(start, true);
            acknowledge(&mut at_broker, &done, due);
            prop_assert!(at_broker.iter().all(|tag| !done.contains(tag)));
            prop_assert_eq!(ledger.count(), at_broker.len());
            prop_assert_eq!(ledger.bytes(), at_broker.len());
        }
    }
}
