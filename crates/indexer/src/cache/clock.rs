//! A hash table of metrics or resources by id, with CLOCK eviction.
//!
//! Open addressing with linear probing. One byte per slot says whether it is used, whether its entry was read lately,
//! and six bits of the hash, so that a look-up rarely touches other entries. To evict, a hand goes around the table,
//! skips entries read since its last turn, and takes the first other one. A look-up only sets the read bit, if not
//! already set, so that readers share the table. Locking and bounds are left to the caller.

use std::{
    fmt::Debug,
    hash::{self, BuildHasher, RandomState},
    mem,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU8, Ordering},
    },
};

const FREE: u8 = 0;
const USED: u8 = 0x40;
const READ: u8 = 0x80;
/// The bits of a mark that must match: used, and part of the hash.
const TAG: u8 = 0x7f;

const SLOTS_MIN: usize = 8;
const GROUP_MAX: usize = 16;

/// An entry, with its key.
pub(super) trait Entry: Debug {
    type Key: Copy + Eq + Debug;

    fn key(&self) -> Self::Key;

    /// All bits are used.
    fn hash(key: Self::Key) -> u64;
}

/// The hash of an id that clients choose: its slot must not be predictable.
pub(super) fn unpredictable_hash(key: impl hash::Hash) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(key)
}

#[derive(Debug)]
pub(super) struct ClockTable<E> {
    /// A power of two of them, or none.
    marks: Vec<AtomicU8>,
    slots: Vec<Option<Arc<E>>>,
    len: usize,
    hand: usize,
}

impl<E> Default for ClockTable<E> {
    fn default() -> Self {
        ClockTable { marks: Vec::new(), slots: Vec::new(), len: 0, hand: 0 }
    }
}

/// Part of the hash other than the bits that select the slot (lowest) or the shard (highest).
const fn tag_of(hash: u64) -> u8 {
    USED | (hash >> 48) as u8 & 0x3f
}

impl<E: Entry> ClockTable<E> {
    pub(super) fn get(&self, key: E::Key, hash: u64) -> Option<&Arc<E>> {
        self.mark_read(self.find(key, hash)?)
    }

    /// The entry of a used slot, which is marked as read.
    fn mark_read(&self, slot: usize) -> Option<&Arc<E>> {
        let mark = self.marks[slot].load(Ordering::Relaxed);
        if mark & READ == 0 {
            self.marks[slot].store(mark | READ, Ordering::Relaxed);
        }
        self.slots[slot].as_ref()
    }

    /// Passes the entries of the keys that are there to `visit`, each with the key's index.
    ///
    /// In a large table each look-up waits for memory three times. In groups, step by step, the processor waits for the
    /// memory of several look-ups at once.
    pub(super) fn visit(
        &self,
        keys: &mut dyn Iterator<Item = (usize, E::Key, u64)>,
        visit: &mut dyn FnMut(usize, &Arc<E>),
    ) {
        if self.marks.is_empty() {
            return;
        }
        let mut group = [None; GROUP_MAX];
        loop {
            let mut count = 0;
            for (item, key) in group.iter_mut().zip(&mut *keys) {
                *item = Some(key);
                count += 1;
            }
            let group = || group[..count].iter().flatten().copied();
            let mut first = [None; GROUP_MAX];
            for (first, (_, _, hash)) in first.iter_mut().zip(group()) {
                *first = self.slots[hash as usize & self.mask()].as_ref();
            }
            let mut is_first = [false; GROUP_MAX];
            for ((is_first, first), (_, key, _)) in is_first.iter_mut().zip(first).zip(group()) {
                *is_first = first.is_some_and(|entry| entry.key() == key);
            }
            for (is_first, (index, key, hash)) in is_first.into_iter().zip(group()) {
                let slot = if is_first { Some(hash as usize & self.mask()) } else { self.find(key, hash) };
                if let Some(entry) = slot.and_then(|slot| self.mark_read(slot)) {
                    visit(index, entry);
                }
            }
            if count < GROUP_MAX {
                return;
            }
        }
    }

    /// Inserts or replaces an entry; returns whether it is new.
    pub(super) fn insert(&mut self, entry: Arc<E>) -> bool {
        let hash = E::hash(entry.key());
        if let Some(slot) = self.find(entry.key(), hash) {
            self.slots[slot] = Some(entry);
            return false;
        }
        // Runs of used slots stay short up to four fifths.
        if (self.len + 1) * 5 > self.marks.len() * 4 {
            self.grow();
        }
        self.put(entry, tag_of(hash), hash);
        self.len += 1;
        true
    }

    pub(super) fn remove(&mut self, key: E::Key) -> bool {
        let slot = self.find(key, E::hash(key));
        if let Some(slot) = slot {
            self.take(slot);
        }
        slot.is_some()
    }

    /// Evicts one entry, if there is any.
    pub(super) fn evict(&mut self) -> bool {
        if self.len == 0 {
            return false;
        }
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) & self.mask();
            let mark = self.marks[slot].get_mut();
            if *mark & READ != 0 {
                *mark &= !READ;
            } else if *mark != FREE {
                self.take(slot);
                return true;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn mask(&self) -> usize {
        self.marks.len() - 1
    }

    fn find(&self, key: E::Key, hash: u64) -> Option<usize> {
        if self.marks.is_empty() {
            return None;
        }
        let tag = tag_of(hash);
        let mut slot = hash as usize & self.mask();
        loop {
            let mark = self.marks[slot].load(Ordering::Relaxed);
            if mark & TAG == tag && self.slots[slot].as_ref().is_some_and(|entry| entry.key() == key) {
                return Some(slot);
            }
            if mark == FREE {
                return None;
            }
            slot = (slot + 1) & self.mask();
        }
    }

    /// Inserts a new entry into the first free slot.
    fn put(&mut self, entry: Arc<E>, mark: u8, hash: u64) {
        let mut slot = hash as usize & self.mask();
        while self.slots[slot].is_some() {
            slot = (slot + 1) & self.mask();
        }
        *self.marks[slot].get_mut() = mark;
        self.slots[slot] = Some(entry);
    }

    /// Empties a slot, and moves up later entries of the same run.
    fn take(&mut self, slot: usize) {
        let mask = self.mask();
        let mut hole = slot;
        let mut next = slot;
        loop {
            next = (next + 1) & mask;
            let Some(entry) = &self.slots[next] else { break };
            let home = E::hash(entry.key()) as usize & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots.swap(hole, next);
                self.marks.swap(hole, next);
                hole = next;
            }
        }
        *self.marks[hole].get_mut() = FREE;
        self.slots[hole] = None;
        self.len -= 1;
    }

    fn grow(&mut self) {
        let size = (self.marks.len() * 2).max(SLOTS_MIN);
        let marks = mem::replace(&mut self.marks, (0..size).map(|_| AtomicU8::new(FREE)).collect());
        let slots = mem::replace(&mut self.slots, (0..size).map(|_| None).collect());
        self.hand = 0;
        for (mark, entry) in marks.into_iter().zip(slots) {
            if let Some(entry) = entry {
                let hash = E::hash(entry.key());
                self.put(entry, mark.into_inner(), hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gnudi_model::{Metric, MetricId, Timestamp};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::cache::metrics::metric;

    fn get(table: &ClockTable<Metric>, id: MetricId) -> Option<Arc<Metric>> {
        table.get(id, Metric::hash(id)).cloned()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u128, i64),
        Remove(u128),
        Get(u128),
        Evict,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few ids, so that operations meet; also ids that differ only in high bits.
        let id = prop_oneof![0..60u128, (0..60u128).prop_map(|number| number << 100)];
        prop_oneof![
            4 => (id.clone(), any::<i64>()).prop_map(|(id, time)| Step::Insert(id, time)),
            2 => id.clone().prop_map(Step::Remove),
            2 => id.prop_map(Step::Get),
            1 => Just(Step::Evict),
        ]
    }

    proptest! {
        #[test]
        fn holds_what_a_map_holds(steps in prop::collection::vec(step(), 0..400)) {
            let mut table = ClockTable::<Metric>::default();
            let mut model: HashMap<MetricId, Arc<Metric>> = HashMap::new();
            for step in steps {
                match step {
                    Step::Insert(number, time) => {
                        let metric = metric(number, time);
                        let is_new = model.insert(metric.id, metric.clone()).is_none();
                        prop_assert_eq!(table.insert(metric), is_new);
                    }
                    Step::Remove(number) => {
                        let id = MetricId(Uuid::from_u128(number));
                        prop_assert_eq!(table.remove(id), model.remove(&id).is_some());
                    }
                    Step::Get(number) => {
                        let id = MetricId(Uuid::from_u128(number));
                        prop_assert_eq!(get(&table, id), model.get(&id).cloned());
                    }
                    Step::Evict => {
                        prop_assert_eq!(table.evict(), !model.is_empty());
                        let before = model.len();
                        model.retain(|id, _| table.find(*id, Metric::hash(*id)).is_some());
                        prop_assert_eq!(model.len(), before.saturating_sub(1));
                    }
                }
                prop_assert_eq!(table.len, model.len());
                let keys = (0..60).flat_map(|n| [n, n << 100]).map(|n| MetricId(Uuid::from_u128(n)));
                let mut keys = keys.map(|id| (id.0.as_u128() as usize, id, Metric::hash(id)));
                let mut visited = HashMap::new();
                table.visit(&mut keys, &mut |index, metric| {
                    assert_eq!(index, metric.id.0.as_u128() as usize);
                    visited.insert(metric.id, metric.clone());
                });
                prop_assert_eq!(&visited, &model);
                for (id, metric) in &model {
                    prop_assert_eq!(table.find(*id, Metric::hash(*id)).and_then(|slot| table.slots[slot].as_ref()), Some(metric));
                }
            }
        }
    }

    #[test]
    fn what_is_asked_for_stays() {
        let mut table = ClockTable::<Metric>::default();
        for number in 0..100 {
            table.insert(metric(number, 0));
        }
        for number in 100..1000 {
            for kept in 0..50 {
                assert!(get(&table, MetricId(Uuid::from_u128(kept))).is_some());
            }
            assert!(table.evict());
            table.insert(metric(number, 0));
        }
        assert_eq!(table.len, 100);
    }

    #[test]
    fn hashes_spread_ids_of_any_kind() {
        let kinds: [fn(u128) -> u128; 4] = [
            |n| n,
            |n| n << 64,
            |n| n << 80 | 0x7 << 76,
            |n| MetricId::new(Timestamp(n as i64 * 1000), n * n).0.as_u128(),
        ];
        for kind in kinds {
            for shift in [0, 57] {
                let mut counts = [0u32; 128];
                for number in 0..12_800 {
                    counts
                        [(Metric::hash(MetricId(Uuid::from_u128(kind(number)))) >> shift) as usize & 127] +=
                        1;
                }
                assert!(counts.iter().all(|count| (50..200).contains(count)), "{shift} {counts:?}");
            }
        }
    }
}
