//! Exemplars of series, in memory: the newest ones of all writers, as in Prometheus.
//!
//! Each process has only those it received, and none after a restart.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use gnudi_promql::Labels;
use parking_lot::RwLock;

/// The maximum size of all exemplars.
const BYTES_MAX: usize = 16 << 20;
/// The approximate size of an exemplar without its texts.
const ENTRY_BYTES: usize = 190;
/// The maximum length of an exemplar's labels, names and values: `OpenMetrics`' limit.
const LABELS_CHARACTERS_MAX: usize = 128;

/// An exemplar and its series.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredExemplar {
    /// The writer.
    pub creator: Arc<str>,
    pub series: Labels,
    pub labels: Labels,
    pub value: f64,
    pub time_ms: i64,
}

#[derive(Debug, Default)]
pub struct ExemplarStore(RwLock<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// In order of arrival, oldest first.
    exemplars: VecDeque<StoredExemplar>,
    /// Their hashes, by which those of a repeated request are recognised.
    hashes: HashSet<u64>,
    hasher: RandomState,
    bytes: usize,
}

impl ExemplarStore {
    /// Stores an exemplar, unless it is there; drops the oldest ones for lack of room.
    ///
    /// Returns false if it is too large.
    pub fn put(&self, exemplar: StoredExemplar) -> bool {
        if !are_short(exemplar.labels.iter()) || bytes(&exemplar) > BYTES_MAX {
            return false;
        }
        self.0.write().push(exemplar);
        true
    }

    /// The exemplars for which `is_wanted` is true, in order of arrival.
    pub fn find(&self, is_wanted: impl Fn(&StoredExemplar) -> bool) -> Vec<StoredExemplar> {
        self.0.read().exemplars.iter().filter(|exemplar| is_wanted(exemplar)).cloned().collect()
    }
}

impl Ring {
    fn hash(&self, exemplar: &StoredExemplar) -> u64 {
        let StoredExemplar { creator, series, labels, value, time_ms } = exemplar;
        self.hasher.hash_one((creator, series, labels, value.to_bits(), time_ms))
    }

    fn push(&mut self, exemplar: StoredExemplar) {
        if !self.hashes.insert(self.hash(&exemplar)) {
            return;
        }
        self.bytes += bytes(&exemplar);
        self.exemplars.push_back(exemplar);
        while self.bytes > BYTES_MAX {
            let oldest = self.exemplars.pop_front().expect("only exemplars have bytes");
            self.bytes -= bytes(&oldest);
            self.hashes.remove(&self.hash(&oldest));
        }
    }
}

/// Whether the labels are within an exemplar's limit. Stops counting at the limit.
pub fn are_short<'a>(mut labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let mut characters_left = LABELS_CHARACTERS_MAX;
    let mut is_within = |text: &str| {
        let left = characters_left.checked_sub(text.chars().take(LABELS_CHARACTERS_MAX + 1).count());
        characters_left = left.unwrap_or_default();
        left.is_some()
    };
    labels.all(|(name, value)| is_within(name) && is_within(value))
}

fn bytes(exemplar: &StoredExemplar) -> usize {
    let pair = |(name, value): (&str, &str)| name.len() + value.len() + 2 * size_of::<Arc<str>>();
    let texts = exemplar.series.iter().chain(exemplar.labels.iter()).map(pair);
    ENTRY_BYTES + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exemplar(trace: &str, time_ms: i64) -> StoredExemplar {
        let labels = |pairs: &[(&str, &str)]| Labels::new(pairs.iter().copied());
        let series = labels(&[("__name__", "requests_total")]);
        StoredExemplar {
            creator: "a".into(),
            series,
            labels: labels(&[("trace_id", trace)]),
            value: f64::NAN,
            time_ms,
        }
    }

    #[test]
    fn the_newest_are_kept_within_a_bound() {
        let store = ExemplarStore::default();
        for time_ms in 0..200_000 {
            assert!(store.put(exemplar("x", time_ms)));
        }
        let kept = store.find(|_| true);
        assert!(store.0.read().bytes <= BYTES_MAX && kept.len() > 10_000);
        assert_eq!(kept.last().unwrap().time_ms, 199_999);
        assert_eq!(kept.first().unwrap().time_ms, 200_000 - kept.len() as i64);
        assert_eq!(store.0.read().hashes.len(), kept.len());
    }

    #[test]
    fn a_request_that_is_repeated_adds_nothing() {
        let store = ExemplarStore::default();
        let of = |creator: &str, trace, time_ms, value| StoredExemplar {
            creator: creator.into(),
            value,
            ..exemplar(trace, time_ms)
        };
        // Some differ in one thing only.
        let request = [
            of("a", "x", 2, 0.5),
            of("a", "y", 2, 0.5),
            of("a", "y", 1, 0.5),
            of("a", "y", 1, 0.7),
            of("b", "x", 2, 0.5),
        ];
        for _ in 0..3 {
            assert_eq!(request.clone().map(|exemplar| store.put(exemplar)), [true; 5]);
            assert_eq!(store.find(|_| true), request);
        }
    }

    #[test]
    fn what_comes_again_is_there_once_and_what_is_too_long_is_not() {
        let store = ExemplarStore::default();
        assert!(store.put(exemplar("x", 1)) && store.put(exemplar("x", 1)));
        let trace = |characters: usize| "é".repeat(characters - "trace_id".len());
        assert!(!store.put(exemplar(&trace(LABELS_CHARACTERS_MAX + 1), 2)));
        assert!(are_short([("trace_id", trace(LABELS_CHARACTERS_MAX).as_str())].into_iter()));
        assert_eq!(store.find(|_| true).len(), 1);
        assert!(store.find(|exemplar| exemplar.time_ms > 1).is_empty());
    }
}
