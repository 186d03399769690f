//! A bounded cache of values that expire. Pure: the time is an argument.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// SHA-256 of a token. The token itself is not kept.
pub type TokenHash = [u8; 32];

/// A point in time by two clocks: if the wall clock is set back, the monotonic one still ends what is cached.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since the epoch.
    pub seconds: i64,
    pub instant: Instant,
}

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
    /// Expiry by the monotonic clock; `None` if it is beyond the clock's range.
    until_instant: Option<Instant>,
    number: u64,
}

impl<T> Entry<T> {
    fn has_expired(&self, now: Moment) -> bool {
        self.until <= now.seconds || self.until_instant.is_some_and(|until| until <= now.instant)
    }
}

impl<T> Cache<T> {
    pub fn new(entries_max: usize) -> Self {
        Cache { entries: HashMap::new(), order: VecDeque::new(), entries_max, next_number: 0 }
    }

    pub fn get(&self, hash: &TokenHash, now: Moment) -> Option<&T> {
        self.entries.get(hash).filter(|entry| !entry.has_expired(now)).map(|entry| &entry.value)
    }

    /// Caches a value until `until`, in seconds since the epoch. Removes the oldest entries as long as they are expired,
    /// or too many.
    pub fn put(&mut self, hash: TokenHash, value: T, until: i64, now: Moment) {
        if until <= now.seconds || self.entries_max == 0 {
            return;
        }
        let lifetime = Duration::from_secs(until.abs_diff(now.seconds));
        let until_instant = now.instant.checked_add(lifetime);
        let number = self.next_number;
        self.next_number += 1;
        self.entries.insert(hash, Entry { value, until, until_instant, number });
        self.order.push_back((hash, number));
        while let Some((hash, number)) = self.order.front() {
            let entry = self.entries.get(hash).filter(|entry| entry.number == *number);
            let is_over = entry.is_none_or(|entry| entry.has_expired(now));
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
    use std::sync::LazyLock;

    use super::*;

    /// Seconds after the start of both clocks.
    fn at(seconds: i64) -> Moment {
        clocks(seconds, seconds)
    }

    fn clocks(seconds: i64, elapsed_seconds: i64) -> Moment {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        Moment { seconds, instant: *START + Duration::from_secs(elapsed_seconds.unsigned_abs()) }
    }

    fn hash(number: u8) -> TokenHash {
        [number; 32]
    }

    #[test]
    fn an_answer_is_remembered_until_its_end() {
        let mut cache = Cache::new(10);
        cache.put(hash(1), "a", 100, at(50));
        assert_eq!(cache.get(&hash(1), at(99)), Some(&"a"));
        assert_eq!(cache.get(&hash(1), at(100)), None);
        assert_eq!(cache.get(&hash(2), at(99)), None);
        cache.put(hash(2), "b", 50, at(50));
        assert_eq!(cache.get(&hash(2), at(49)), None, "what is over already is not kept");
        cache.put(hash(1), "c", 200, at(60));
        assert_eq!(cache.get(&hash(1), at(150)), Some(&"c"));
    }

    #[test]
    fn a_clock_that_is_set_back_prolongs_nothing() {
        let mut cache = Cache::new(10);
        cache.put(hash(1), "a", 1300, at(1000));
        // An hour back, after two minutes.
        assert_eq!(cache.get(&hash(1), clocks(-2480, 1120)), Some(&"a"));
        assert_eq!(cache.get(&hash(1), clocks(-2300, 1300)), None);
        cache.put(hash(2), "b", -2000, clocks(-2300, 1300));
        assert_eq!(cache.entries.len(), 1);
        // A clock that is set forward ends it sooner.
        assert_eq!(cache.get(&hash(2), clocks(-2000, 1301)), None);
        let mut endless = Cache::new(10);
        endless.put(hash(1), 1, i64::MAX, at(0));
        assert_eq!(endless.get(&hash(1), at(1_000_000)), Some(&1));
    }

    #[test]
    fn the_eldest_goes_and_what_is_over() {
        let mut cache = Cache::new(3);
        for number in 0..10 {
            cache.put(hash(number), number, 1000, at(0));
        }
        assert_eq!((cache.entries.len(), cache.order.len()), (3, 3));
        assert!(cache.get(&hash(6), at(0)).is_none() && cache.get(&hash(7), at(0)).is_some());
        cache.put(hash(20), 20, 2000, at(1500));
        assert_eq!((cache.entries.len(), cache.order.len()), (1, 1));
        assert_eq!(cache.get(&hash(20), at(1500)), Some(&20));
    }

    #[test]
    fn one_that_comes_again_and_again_takes_no_room() {
        let mut cache = Cache::new(4);
        cache.put(hash(1), 0, 10_000, at(0));
        for now in 0..1000 {
            cache.put(hash(2), now, now + 5, at(now));
        }
        assert!(cache.order.len() <= 8, "{}", cache.order.len());
        assert_eq!(cache.get(&hash(1), at(999)), Some(&0));
        assert_eq!(cache.get(&hash(2), at(999)), Some(&999));
        let mut none = Cache::new(0);
        none.put(hash(1), 1, 10, at(0));
        assert_eq!(none.get(&hash(1), at(0)), None);
    }
}
