//! Shards of [`ClockTable`], each behind a read-write lock.
//!
//! A value read from the index may be changed or deleted before it is cached. So readers take [`Epoch`]s first, and a
//! shard rejects values read before its last invalidation.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;

use super::clock::{ClockTable, Entry};

const SHARDS_MAX: usize = 128;
/// A small cache has fewer shards, so that eviction has a choice in each.
const ENTRIES_PER_SHARD_MIN: usize = 64;
/// Fewer look-ups in a shard cost less one by one than as a group.
const GROUPED_MIN: usize = 4;

#[derive(Debug)]
pub(super) struct Shards<E> {
    parts: Box<[Shard<E>]>,
    len: AtomicUsize,
    len_max: usize,
}

/// On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<E> {
    table: RwLock<Table<E>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug)]
struct Table<E> {
    entries: ClockTable<E>,
    /// Number of invalidations in this shard.
    epoch: u64,
    /// Caching is disabled for now.
    is_shut: bool,
}

impl<E> Default for Shard<E> {
    fn default() -> Self {
        let table = Table { entries: ClockTable::default(), epoch: 0, is_shut: false };
        Shard { table: RwLock::new(table), hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }
}

/// The epoch of a key's shard when a read for the cache began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

/// The [`Epoch`]s of all shards.
#[derive(Debug)]
pub(super) struct Epochs(Box<[Epoch]>);

impl Epochs {
    pub(super) fn of<E: Entry>(&self, key: E::Key) -> Epoch {
        self.0[shard_of(E::hash(key), self.0.len())]
    }
}

/// By the highest bits; `shards` is a power of two.
const fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> (u64::BITS - SHARDS_MAX.ilog2())) as usize & (shards - 1)
}

impl<E: Entry> Shards<E> {
    pub(super) fn new(len_max: usize) -> Self {
        let shards = (len_max / ENTRIES_PER_SHARD_MIN).next_power_of_two().min(SHARDS_MAX);
        Shards { parts: (0..shards).map(|_| Shard::default()).collect(), len: AtomicUsize::new(0), len_max }
    }

    fn shard(&self, hash: u64) -> &Shard<E> {
        &self.parts[shard_of(hash, self.parts.len())]
    }

    pub(super) fn get(&self, key: E::Key) -> Option<Arc<E>> {
        let hash = E::hash(key);
        let shard = self.shard(hash);
        let found = shard.table.read().entries.get(key, hash).cloned();
        let counter = if found.is_some() { &shard.hits } else { &shard.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Passes the cached entries of the keys to `visit`, each with the key's index, in any order. A shard is locked while
    /// its entries are visited. Counts hits only.
    pub(super) fn visit(&self, keys: &[E::Key], visit: &mut dyn FnMut(usize, &Arc<E>)) {
        let shards = self.parts.len();
        let mut by_shard: Vec<(u64, u32)> =
            keys.iter().zip(0..).map(|(key, index)| (E::hash(*key), index)).collect();
        by_shard.sort_unstable_by_key(|(hash, _)| shard_of(*hash, shards));
        for of_shard in
            by_shard.chunk_by(|(one, _), (next, _)| shard_of(*one, shards) == shard_of(*next, shards))
        {
            let shard = self.shard(of_shard[0].0);
            let mut hits = 0;
            let mut found = |index, entry: &Arc<E>| {
                hits += 1;
                visit(index, entry);
            };
            let mut wanted =
                of_shard.iter().map(|(hash, index)| (*index as usize, keys[*index as usize], *hash));
            let entries = &shard.table.read().entries;
            if of_shard.len() < GROUPED_MIN {
                for (index, key, hash) in wanted {
                    entries.get(key, hash).into_iter().for_each(|entry| found(index, entry));
                }
            } else {
                entries.visit(&mut wanted, &mut found);
            }
            shard.hits.fetch_add(hits, Ordering::Relaxed);
        }
    }

    /// Counts misses that [`Shards::visit`] has left out.
    pub(super) fn count_misses(&self, keys: impl Iterator<Item = E::Key>) {
        keys.for_each(|key| {
            self.shard(E::hash(key)).misses.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Take it before reading the index.
    pub(super) fn epoch(&self, key: E::Key) -> Epoch {
        Epoch(self.shard(E::hash(key)).table.read().epoch)
    }

    /// The epochs of all shards.
    pub(super) fn epochs(&self) -> Epochs {
        Epochs(self.parts.iter().map(|shard| Epoch(shard.table.read().epoch)).collect())
    }

    /// Caches a value read since `epoch`, unless something changed meanwhile.
    pub(super) fn insert(&self, entry: &Arc<E>, epoch: Epoch) {
        let hash = E::hash(entry.key());
        let mut table = self.shard(hash).table.write();
        if table.epoch != epoch.0 || table.is_shut {
            return;
        }
        let is_new = table.entries.get(entry.key(), hash).is_none();
        // A full cache evicts in the same shard; if that has no entry to evict, nothing is cached.
        if is_new && self.len.fetch_add(1, Ordering::Relaxed) >= self.len_max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            if !table.entries.evict() {
                return;
            }
        }
        table.entries.insert(entry.clone());
    }

    /// Invalidates changed or deleted values, and reads of the same shards in progress.
    pub(super) fn invalidate(&self, keys: impl IntoIterator<Item = E::Key>) {
        for key in keys {
            let mut table = self.shard(E::hash(key)).table.write();
            table.epoch += 1;
            if table.entries.remove(key) {
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Clears everything.
    pub(super) fn invalidate_all(&self) {
        self.clear(|_| {});
    }

    /// Clears everything, and caches nothing while shut.
    pub(super) fn shut(&self, is_shut: bool) {
        self.clear(|table| table.is_shut = is_shut);
    }

    fn clear(&self, also: impl Fn(&mut Table<E>)) {
        for shard in &self.parts {
            let mut table = shard.table.write();
            also(&mut table);
            table.epoch += 1;
            let forgotten = mem::take(&mut table.entries);
            self.len.fetch_sub(forgotten.len(), Ordering::Relaxed);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.len_max
    }

    /// Cache hits and misses.
    pub(super) fn hits_and_misses(&self) -> (u64, u64) {
        let sum = |counter: fn(&Shard<E>) -> &AtomicU64| {
            self.parts.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
        };
        (sum(|shard| &shard.hits), sum(|shard| &shard.misses))
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Metric, MetricId};

    use super::*;
    use crate::cache::metrics;

    fn metric(number: u128) -> Arc<Metric> {
        metrics::metric(number, 0)
    }

    fn insert(cache: &Shards<Metric>, number: u128) -> MetricId {
        let metric = metric(number);
        cache.insert(&metric, cache.epoch(metric.id));
        metric.id
    }

    #[test]
    fn keeps_no_more_than_its_bound_and_the_latest() {
        for len_max in [0, 1, 2, 63, 1000, 20_000] {
            let cache = Shards::new(len_max);
            for number in 0..3 * len_max as u128 + 10 {
                let id = insert(&cache, number);
                assert_eq!(cache.get(id).is_some(), len_max > 0, "{number} of {len_max}");
                assert!(cache.len() <= len_max);
            }
            assert_eq!(cache.len(), len_max);
            assert!(cache.is_full());
            let kept = (0..3 * len_max as u128 + 10).filter(|n| cache.get(metric(*n).id).is_some());
            assert_eq!(kept.count(), len_max);
        }
    }

    #[test]
    fn all_of_a_set_as_large_as_the_bound_stay() {
        let cache = Shards::new(10_000);
        let ids: Vec<_> = (0..10_000).map(|number| insert(&cache, number)).collect();
        assert!(ids.iter().all(|id| cache.get(*id).is_some()));
        let (hits, misses) = cache.hits_and_misses();
        assert_eq!((hits, misses), (10_000, 0));
    }

    #[test]
    fn visits_find_what_single_calls_find() {
        let cache = Shards::new(20_000);
        let ids: Vec<_> = (0..5_000).map(|number| insert(&cache, 3 * number)).collect();
        let wanted: Vec<_> = (0..9_000).map(|number| metric(number * 2 % 17_000).id).collect();
        let mut visited = vec![None; wanted.len()];
        cache.visit(&wanted, &mut |index, found| visited[index] = Some(found.clone()));
        assert_eq!(visited, wanted.iter().map(|id| cache.get(*id)).collect::<Vec<_>>());
        let there = visited.iter().flatten().count() as u64;
        assert!(there > 0 && wanted.iter().filter(|id| ids.contains(id)).count() as u64 == there);
        assert_eq!(cache.hits_and_misses(), (2 * there, wanted.len() as u64 - there));
    }

    #[test]
    fn what_was_read_before_a_change_is_refused() {
        let cache = Shards::new(10);
        let (read, all) = (cache.epoch(metric(1).id), cache.epochs());
        cache.invalidate([metric(1).id]);
        cache.insert(&metric(1), read);
        cache.insert(&metric(1), all.of::<Metric>(metric(1).id));
        assert_eq!(cache.get(metric(1).id), None);
        let id = insert(&cache, 1);
        assert!(cache.get(id).is_some());
        cache.invalidate([id, id]);
        assert_eq!((cache.get(id), cache.len()), (None, 0));
    }
}
