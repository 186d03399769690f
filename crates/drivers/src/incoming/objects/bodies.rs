//! A bounded cache of objects of the log, for this process's workers.
//!
//! New objects are cached while there is room, since workers read the oldest first. Objects that had to be
//! read again evict the least recently used ones.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;

/// Objects unused for this time give way to new ones: their sacks may belong to another process.
const UNUSED_MAX: Duration = Duration::from_secs(10);

pub struct Bodies {
    bytes_max: usize,
    bytes: usize,
    kept: HashMap<u64, Body>,
    /// From the last use to the object's number.
    uses: BTreeMap<u64, u64>,
    clock: u64,
    /// A process without workers caches nothing.
    enabled: bool,
}

struct Body {
    bytes: Bytes,
    used: u64,
    used_at: Instant,
}

impl Bodies {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, kept: HashMap::new(), uses: BTreeMap::new(), clock: 0, enabled: false }
    }

    /// Starts caching: there are workers.
    pub fn enable(&mut self) {
        self.enabled = true;
    }

    /// Caches a new object if there is room.
    pub fn offer(&mut self, number: u64, bytes: &Bytes, now: Instant) {
        if !self.enabled {
            return;
        }
        while self.bytes + bytes.len() > self.bytes_max {
            let oldest = self.uses.first_key_value().and_then(|(_, number)| self.kept.get(number));
            if oldest.is_none_or(|body| now.duration_since(body.used_at) < UNUSED_MAX) {
                return;
            }
            self.remove_oldest();
        }
        self.insert(number, bytes, now);
    }

    /// Caches an object that is needed now.
    pub fn keep(&mut self, number: u64, bytes: &Bytes, now: Instant) {
        while self.bytes + bytes.len() > self.bytes_max && !self.kept.is_empty() {
            self.remove_oldest();
        }
        self.insert(number, bytes, now);
    }

    pub fn get(&mut self, number: u64, now: Instant) -> Option<Bytes> {
        let body = self.kept.get_mut(&number)?;
        self.clock += 1;
        self.uses.remove(&body.used);
        (body.used, body.used_at) = (self.clock, now);
        self.uses.insert(self.clock, number);
        Some(body.bytes.clone())
    }

    pub fn remove(&mut self, number: u64) {
        if let Some(body) = self.kept.remove(&number) {
            self.uses.remove(&body.used);
            self.bytes -= body.bytes.len();
        }
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        self.uses.clear();
        self.bytes = 0;
    }

    fn insert(&mut self, number: u64, bytes: &Bytes, now: Instant) {
        self.remove(number);
        if self.bytes + bytes.len() > self.bytes_max {
            return;
        }
        self.clock += 1;
        self.uses.insert(self.clock, number);
        self.bytes += bytes.len();
        self.kept.insert(number, Body { bytes: bytes.clone(), used: self.clock, used_at: now });
    }

    fn remove_oldest(&mut self) {
        if let Some(number) = self.uses.first_key_value().map(|(_, number)| *number) {
            self.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ones_are_kept_while_there_is_room_and_needed_ones_always() {
        let (now, body) = (Instant::now(), |len: usize| Bytes::from(vec![1; len]));
        let mut bodies = Bodies::new(100);
        bodies.offer(1, &body(10), now);
        assert_eq!(bodies.get(1, now), None, "no workers");
        bodies.enable();
        for number in 1..=3 {
            bodies.offer(number, &body(40), now);
        }
        assert!(bodies.get(1, now).is_some() && bodies.get(2, now).is_some());
        assert!(bodies.get(3, now).is_none(), "no room");
        bodies.get(1, now);
        bodies.keep(3, &body(40), now);
        assert!(bodies.get(2, now).is_none(), "not looked at for the longest time");
        assert!(bodies.get(1, now).is_some() && bodies.get(3, now).is_some());
        bodies.keep(4, &body(1000), now);
        assert!(bodies.get(4, now).is_none(), "larger than all the room");
        let later = now + UNUSED_MAX;
        bodies.keep(5, &body(80), now);
        bodies.offer(6, &body(80), later);
        assert!(bodies.get(5, later).is_none() && bodies.get(6, later).is_some());
        bodies.remove(6);
        assert_eq!((bodies.bytes, bodies.uses.len()), (0, 0));
    }
}
