//! Cache of metrics, by id and by resource and name.
//!
//! The table of names only maps to ids; whether the metric still has the name is checked in the metric itself. So
//! changes and deletions of a metric need not know its names.

use std::{
    hash::{BuildHasher, RandomState},
    mem,
    sync::Arc,
};

use gnudi_model::{Metric, MetricId};
use parking_lot::RwLock;
use uuid::Uuid;

use super::{clock::Entry, shards::Epoch, shards::Epochs, shards::Shards};

impl Entry for Metric {
    type Key = MetricId;

    fn key(&self) -> MetricId {
        self.id
    }

    fn hash(id: MetricId) -> u64 {
        id.hash()
    }
}

#[derive(Debug)]
pub(super) struct MetricCache {
    /// [`MetricCache::insert`] adds entries, since it keeps their names as well.
    pub(super) by_id: Shards<Metric>,
    names: Names,
}

impl MetricCache {
    pub(super) fn new(len_max: usize) -> Self {
        MetricCache { by_id: Shards::new(len_max), names: Names::new(len_max) }
    }

    /// The cached ones of some metrics, in order.
    pub(super) fn get_all(&self, ids: &[MetricId]) -> Vec<Option<Arc<Metric>>> {
        // Most requests look up a single metric.
        if let [id] = ids {
            return vec![self.by_id.get(*id)];
        }
        let mut found = vec![None; ids.len()];
        self.by_id.visit(ids, &mut |place, metric| found[place] = Some(Arc::clone(metric)));
        let missing = ids.iter().zip(&found).filter(|(_, metric)| metric.is_none());
        self.by_id.count_misses(missing.map(|(id, _)| *id));
        found
    }

    /// See [`crate::Indexer::visit_cached_metrics`].
    pub(super) fn visit(&self, ids: &[MetricId], visit: &mut dyn FnMut(usize, &Metric)) {
        self.by_id.visit(ids, &mut |place, metric| visit(place, metric));
    }

    /// A resource's metric with this name.
    pub(super) fn named(&self, resource: Uuid, name: &str) -> Option<Arc<Metric>> {
        let metric = self.by_id.get(self.names.get(resource, name)?)?;
        (metric.resource_id == Some(resource) && metric.name.as_deref() == Some(name)).then_some(metric)
    }

    /// Caches a metric that was read since `epoch`, unless something changed meanwhile.
    pub(super) fn insert(&self, metric: &Arc<Metric>, epoch: Epoch) {
        self.by_id.insert(metric, epoch);
        if let (Some(resource), Some(name)) = (metric.resource_id, &metric.name) {
            self.names.insert(resource, name, metric.id);
        }
    }

    /// As [`MetricCache::insert`], with the epochs of all ids.
    pub(super) fn insert_all<'a>(&self, metrics: impl IntoIterator<Item = &'a Arc<Metric>>, epochs: &Epochs) {
        for metric in metrics {
            self.insert(metric, epochs.of::<Metric>(metric.id));
        }
    }

    /// Invalidates metrics that were changed or deleted, and reads of their shards in progress.
    pub(super) fn invalidate(&self, ids: &[MetricId]) {
        self.by_id.invalidate(ids.iter().copied());
    }
}

/// Names in the same bucket evict each other, oldest first.
const NAMES_PER_BUCKET: usize = 4;
const PARTS: usize = 64;

/// Maps resource and name to a metric id, as far as cached. Names are identified by hash: the caller must compare the
/// metric's name.
#[derive(Debug)]
struct Names {
    hasher: RandomState,
    parts: Box<[RwLock<Partition>]>,
    /// Per partition.
    buckets_max: usize,
}

#[derive(Debug)]
struct Partition {
    /// A power of two of them.
    buckets: Vec<Bucket>,
    len: usize,
}

/// Hash and metric, the latest first.
type Bucket = [(u64, MetricId); NAMES_PER_BUCKET];

const FREE: (u64, MetricId) = (0, MetricId(Uuid::nil()));

impl Names {
    /// With room for half as many again as there are metrics, so that few are evicted.
    fn new(metrics_max: usize) -> Self {
        let buckets_max = (metrics_max.saturating_mul(3) / 2 / NAMES_PER_BUCKET / PARTS).next_power_of_two();
        let part = || RwLock::new(Partition { buckets: vec![[FREE; NAMES_PER_BUCKET]], len: 0 });
        Names { hasher: RandomState::new(), parts: (0..PARTS).map(|_| part()).collect(), buckets_max }
    }

    fn part(&self, resource: Uuid, name: &str) -> (&RwLock<Partition>, u64) {
        let hash = self.hasher.hash_one((resource, name));
        (&self.parts[(hash >> 32) as usize % PARTS], hash)
    }

    fn get(&self, resource: Uuid, name: &str) -> Option<MetricId> {
        let (part, hash) = self.part(resource, name);
        let part = part.read();
        let bucket = &part.buckets[hash as usize & (part.buckets.len() - 1)];
        bucket.iter().find(|(known, id)| *known == hash && !id.0.is_nil()).map(|(_, id)| *id)
    }

    fn insert(&self, resource: Uuid, name: &str, id: MetricId) {
        let (part, hash) = self.part(resource, name);
        part.write().insert((hash, id), self.buckets_max);
    }
}

impl Partition {
    fn insert(&mut self, name: (u64, MetricId), buckets_max: usize) {
        // At half of the capacity few buckets are full.
        if self.len * 2 > self.buckets.len() * NAMES_PER_BUCKET && self.buckets.len() < buckets_max {
            let buckets = vec![[FREE; NAMES_PER_BUCKET]; self.buckets.len() * 2];
            self.len = 0;
            for bucket in mem::replace(&mut self.buckets, buckets) {
                bucket.into_iter().rev().filter(|name| *name != FREE).for_each(|name| self.put(name));
            }
        }
        self.put(name);
    }

    fn put(&mut self, name: (u64, MetricId)) {
        let mask = self.buckets.len() - 1;
        let bucket = &mut self.buckets[name.0 as usize & mask];
        let place = bucket.iter().position(|known| known.0 == name.0 || *known == FREE);
        let place = place.unwrap_or(NAMES_PER_BUCKET - 1);
        self.len += usize::from(bucket[place] == FREE);
        bucket.copy_within(..place, 1);
        bucket[0] = name;
    }
}

#[cfg(test)]
pub(super) fn metric(number: u128, created_at: i64) -> Arc<Metric> {
    let created_at = gnudi_model::Timestamp(created_at);
    Arc::new(Metric { created_at, ..Metric::new(MetricId(Uuid::from_u128(number))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_are_found() {
        let names = Names::new(10_000);
        let id = |number: u128| MetricId(Uuid::from_u128(number + 1));
        for number in 0..10_000 {
            names.insert(Uuid::from_u128(number / 10), &format!("metric{}", number % 10), id(number));
        }
        let found = (0..10_000).filter(|number| {
            let found = names.get(Uuid::from_u128(number / 10), &format!("metric{}", number % 10));
            assert!(found.is_none_or(|found| found == id(*number)));
            found.is_some()
        });
        assert!(found.count() > 9_000);
        assert_eq!(names.get(Uuid::from_u128(1), "metric10"), None);
        names.insert(Uuid::from_u128(1), "metric1", id(70_000));
        assert_eq!(names.get(Uuid::from_u128(1), "metric1"), Some(id(70_000)));
    }

    #[test]
    fn the_latest_of_a_bucket_stay() {
        let names = Names::new(0);
        for number in 0..10_000 {
            names.insert(Uuid::nil(), &number.to_string(), MetricId(Uuid::from_u128(number + 1)));
            assert!(names.get(Uuid::nil(), &number.to_string()).is_some());
        }
        let kept = (0..10_000).filter(|number| names.get(Uuid::nil(), &number.to_string()).is_some());
        assert!(kept.count() <= PARTS * NAMES_PER_BUCKET);
    }
}
