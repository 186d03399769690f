//! A bounded cache of values that expire. Pure: the time is an argument.

use std::collections::{HashMap, VecDeque};

/// SHA-256 of a token. The token itself is not kept.
pub type TokenHash = [u8; 32];

/// Values by token hash. Beyond the bound the oldest is evicted.
#[derive(Debug)]
pub struct Cache<T> {
    entries: HashMap<TokenHash, Entry<T>>,
    /// Hashes in order of insertion, with the number of the insertion: a replaced entry occurs twice.
    order: VecDeque<(TokenHash, u64)>,
    entries_max: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    /// Expiry, in seconds since the epoch.
    until: i64,
    number: u64,
}

impl<T> Cache<T> {
    pub fn new(entries_max: usize) -> Self {
        Cache { entries: HashMap::new(), order: VecDeque::new(), entries_max, next_number: 0 }
    }

    pub fn get(&self, hash: &TokenHash, now: i64) -> Option<&T> {
        self.entries.get(hash).filter(|entry| now < entry.until).map(|entry| &entry.value)
    }

    /// Caches a value until `until`. Removes the oldest entries as long as they are expired, or too many.
    pub fn put(&mut self, hash: TokenHash, value: T, until: i64, now: i64) {
        if until <= now || self.entries_max == 0 {
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.entries.insert(hash, Entry { value, until, number });
        self.order.push_back((hash, number));
        while let Some((hash, number)) = self.order.front() {
            let entry = self.entries.get(hash).filter(|entry| entry.number == *number);
            let is_over = entry.is_none_or(|entry| entry.until <= now);
            if !is_over && self.entries.len() <= self.entries_max {
                break;
            }
            if entry.is_some() {
                self.entries.remove(hash);
            }
            self.order.pop_front();
        }
        // Entries newer than the oldest may have been replaced many times: remove what that left in `order`.
        if self.order.len() > 2 * self.entries_max {
            self.order
                .retain(|(hash, number)| self.entries.get(hash).is_some_and(|entry| entry.number == *number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> TokenHash {
        [number; 32]
    }

    #[test]
    fn an_answer_is_remembered_until_its_end() {
        let mut cache = Cache::new(10);
        cache.put(hash(1), "a", 100, 50);
        assert_eq!(cache.get(&hash(1), 99), Some(&"a"));
        assert_eq!(cache.get(&hash(1), 100), None);
        assert_eq!(cache.get(&hash(2), 99), None);
        cache.put(hash(2), "b", 50, 50);
        assert_eq!(cache.get(&hash(2), 49), None, "what is over already is not kept");
        cache.put(hash(1), "c", 200, 60);
        assert_eq!(cache.get(&hash(1), 150), Some(&"c"));
    }

    #[test]
    fn the_eldest_goes_and_what_is_over() {
        let mut cache = Cache::new(3);
        for number in 0..10 {
            cache.put(hash(number), number, 1000, 0);
        }
        assert_eq!((cache.entries.len(), cache.order.len()), (3, 3));
        assert!(cache.get(&hash(6), 0).is_none() && cache.get(&hash(7), 0).is_some());
        cache.put(hash(20), 20, 2000, 1500);
        assert_eq!((cache.entries.len(), cache.order.len()), (1, 1));
        assert_eq!(cache.get(&hash(20), 1500), Some(&20));
    }

    #[test]
    fn one_that_comes_again_and_again_takes_no_room() {
        let mut cache = Cache::new(4);
        cache.put(hash(1), 0, 10_000, 0);
        for now in 0..1000 {
            cache.put(hash(2), now, now + 5, now);
        }
        assert!(cache.order.len() <= 8, "{}", cache.order.len());
        assert_eq!(cache.get(&hash(1), 999), Some(&0));
        assert_eq!(cache.get(&hash(2), 999), Some(&999));
        let mut none = Cache::new(0);
        none.put(hash(1), 1, 10, 0);
        assert_eq!(none.get(&hash(1), 0), None);
    }
}
