//! A cache from a series' labels, as received, to its metric. The hot write path reads it instead of looking
//! names up.
//!
//! Keys are 128 bits of keyed hashes, so nobody outside can construct collisions. On each use it is checked that
//! the metric exists, that it still has its resource and name, and that the caller may post to it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
    mem,
};

use ahash::RandomState;
use gnudi_model::{Metric, MetricId};
use parking_lot::RwLock;
use uuid::Uuid;

/// The capacity of each of two generations; when one is full, the older one is dropped. About 60 bytes per
/// entry.
const GENERATION_SERIES_MAX: usize = 500_000;

/// Identifies a creator's series by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesKey(u128);

/// A series' metric, with a hash of its resource and name: a metric that was detached or renamed since is another
/// series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMetric {
    pub id: MetricId,
    place: u64,
}

#[derive(Debug, Default)]
pub struct KnownSeries {
    hashers: [RandomState; 2],
    generations: RwLock<Generations>,
}

type Series = HashMap<SeriesKey, KnownMetric, BuildHasherDefault<KeyHasher>>;

#[derive(Debug, Default)]
struct Generations {
    young: Series,
    old: Series,
}

impl KnownSeries {
    /// The key of a creator's series. Each form of request has its own encoding of `labels`.
    pub fn key(&self, creator: &str, form: u8, labels: &[u8]) -> SeriesKey {
        let half = |hasher: &RandomState| {
            let mut hasher = hasher.build_hasher();
            hasher.write(labels);
            hasher.write_usize(labels.len());
            hasher.write_u8(form);
            hasher.write(creator.as_bytes());
            u128::from(hasher.finish())
        };
        SeriesKey(half(&self.hashers[0]) << 64 | half(&self.hashers[1]))
    }

    /// A series' metric of this resource and name.
    pub fn metric(&self, id: MetricId, resource: Uuid, name: &str) -> KnownMetric {
        KnownMetric { id, place: self.place(resource, name) }
    }

    /// Whether the metric still has the resource and name that it had.
    pub fn is_in_place(&self, known: KnownMetric, metric: &Metric) -> bool {
        let (Some(resource), Some(name)) = (metric.resource_id, metric.name.as_deref()) else { return false };
        known.place == self.place(resource, name)
    }

    fn place(&self, resource: Uuid, name: &str) -> u64 {
        self.hashers[0].hash_one((resource, name))
    }

    /// The metric of each series, if known. Locks once for all of a request's series: a lock for each costs
    /// several times the look-up.
    pub fn get(&self, keys: &[SeriesKey]) -> Vec<Option<KnownMetric>> {
        let mut from_old = Vec::new();
        let generations = self.generations.read();
        let metrics = keys.iter().map(|key| {
            generations.young.get(key).copied().or_else(|| {
                let known = *generations.old.get(key)?;
                from_old.push((*key, known));
                Some(known)
            })
        });
        let metrics = metrics.collect();
        drop(generations);
        if !from_old.is_empty() {
            self.insert(from_old);
        }
        metrics
    }

    pub fn insert(&self, series: impl IntoIterator<Item = (SeriesKey, KnownMetric)>) {
        let mut generations = self.generations.write();
        for (key, known) in series {
            if generations.young.len() >= GENERATION_SERIES_MAX {
                generations.old = mem::take(&mut generations.young);
            }
            generations.young.insert(key, known);
        }
    }
}

/// Uses part of the key, which is a hash already.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(number: u128) -> KnownMetric {
        KnownMetric { id: MetricId(Uuid::from_u128(number)), place: 0 }
    }

    #[test]
    fn a_series_is_known_by_all_that_makes_it() {
        let known = KnownSeries::default();
        let keys =
            [("a", 1, "xy"), ("b", 1, "xy"), ("a", 2, "xy"), ("a", 1, "x"), ("ay", 1, "x"), ("", 1, "xya")]
                .map(|(creator, form, labels): (&str, u8, &str)| known.key(creator, form, labels.as_bytes()));
        known.insert(keys.iter().enumerate().map(|(number, key)| (*key, metric(number as u128))));
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(known.get(&[*key]), [Some(metric(number as u128))]);
        }
        assert_eq!(known.key("a", 1, b"xy"), keys[0]);
        let unknown = known.key("a", 1, b"z");
        assert_eq!(known.get(&[keys[1], unknown, keys[0]]), [Some(metric(1)), None, Some(metric(0))]);
    }

    #[test]
    fn a_metric_that_lost_its_resource_or_name_is_another_series() {
        let known = KnownSeries::default();
        let (resource, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let up = known.metric(MetricId(Uuid::from_u128(3)), resource, "up");
        let at = |resource_id, name: Option<&str>| {
            let metric = Metric { resource_id, name: name.map(Into::into), ..Metric::new(up.id) };
            known.is_in_place(up, &metric)
        };
        assert!(at(Some(resource), Some("up")));
        assert!(!at(None, Some("up")) && !at(None, None));
        assert!(!at(Some(other), Some("up")) && !at(Some(resource), Some("down")));
    }

    #[test]
    fn what_is_asked_for_stays_and_no_more_is_kept_than_the_bound() {
        let known = KnownSeries::default();
        let id = |number: usize| metric(number as u128);
        let key = |number: usize| known.key("", 0, &number.to_le_bytes());
        let all = GENERATION_SERIES_MAX * 5 / 2;
        for number in 0..all {
            known.insert([(key(number), id(number))]);
            assert_eq!(known.get(&[key(0)]), [Some(id(0))], "after {number}");
        }
        assert_eq!(known.get(&[key(all - 1), key(1)]), [Some(id(all - 1)), None]);
        let generations = known.generations.read();
        assert!(generations.young.len().max(generations.old.len()) <= GENERATION_SERIES_MAX);
    }
}
