//! Dirty heads: those that passes have written, and that are in no file yet (write-back).
//!
//! Passes rewrite heads all the time, and the log of measures can repeat them: it is trimmed only after a sync.
//! So a head waits here, and only its last version is written: at a sync to the log, many to a frame, or once
//! there are too many to a run, with the rest of the layer.
//!
//! Heads lie in chunks of memory, which are freed together when the layer has been flushed: single allocations
//! would leave the allocator with scattered pages. A head that has outgrown its place moves; the place is kept
//! for others of the same size.
//!
//! ```text
//! place  0 metric id 16 bytes | 16 the head's length u32, or FREE | 20 units of the place u32 | 24 head
//! ```

use gnudi_model::MetricId;
use uuid::Uuid;

use crate::segments::frame::u32_at;

/// Longer heads go to the log.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Places are multiples of this.
const UNIT_BYTES: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 24;
/// The length that marks a free place.
const FREE: u32 = u32::MAX;

/// Where a dirty head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Offset in units.
    unit: u32,
    /// The head's length.
    pub length: u32,
}

/// A layer's dirty heads.
#[derive(Default)]
pub struct DirtyHeads {
    chunks: Vec<Box<[u8]>>,
    /// The end of the places, in units.
    end: usize,
    /// Free places by their number of units.
    free: Vec<Vec<u32>>,
    count: usize,
}

impl DirtyHeads {
    /// Adds a head of at most [`HEAD_BYTES_MAX`].
    pub fn add(&mut self, metric: MetricId, head: &[u8]) -> Slot {
        assert!(head.len() <= HEAD_BYTES_MAX, "a head of {} bytes", head.len());
        let units = units_of(head.len());
        let unit = self
            .free
            .get_mut(units)
            .and_then(Vec::pop)
            .map_or_else(|| self.extend(units), |unit| unit as usize);
        self.count += 1;
        self.put(unit, metric, head)
    }

    /// Replaces a head by a newer one of the same metric.
    pub fn replace(&mut self, slot: Slot, metric: MetricId, head: &[u8]) -> Slot {
        if units_of(head.len()) == slot.units() {
            return self.put(slot.unit as usize, metric, head);
        }
        let new = self.add(metric, head);
        self.remove(slot);
        new
    }

    pub fn remove(&mut self, slot: Slot) {
        self.count -= 1;
        if self.count == 0 {
            // After a sync.
            *self = Self::default();
        } else {
            self.set_free(slot.unit as usize, slot.units());
        }
    }

    pub fn head(&self, slot: Slot) -> &[u8] {
        &self.place(slot.unit as usize)[HEADER_BYTES..][..slot.length as usize]
    }

    /// Their metrics, in the order of the places: those that a pass writes are neighbours.
    pub fn metrics(&self) -> Vec<MetricId> {
        let mut metrics = Vec::with_capacity(self.count);
        let mut unit = 0;
        while unit < self.end {
            let place = self.place(unit);
            if u32_at(place, 16) != FREE {
                let id = place[..16].try_into().expect("16 bytes");
                metrics.push(MetricId(Uuid::from_bytes(id)));
            }
            unit += u32_at(place, 20) as usize;
        }
        metrics
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// What they take in memory, free places included.
    pub fn memory_bytes(&self) -> u64 {
        (self.end * UNIT_BYTES) as u64
    }

    fn put(&mut self, unit: usize, metric: MetricId, head: &[u8]) -> Slot {
        let length = head.len() as u32;
        self.set_header(unit, metric, length, units_of(head.len()));
        self.place_mut(unit)[HEADER_BYTES..][..head.len()].copy_from_slice(head);
        Slot { unit: unit as u32, length }
    }

    /// A new place at the end.
    fn extend(&mut self, units: usize) -> usize {
        const CHUNK_UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
        let left = self.chunks.len() * CHUNK_UNITS - self.end;
        if left < units {
            if left > 0 {
                self.set_free(self.end, left);
                self.end += left;
            }
            self.chunks.push(vec![0; CHUNK_BYTES].into());
        }
        let unit = self.end;
        self.end += units;
        unit
    }

    fn set_free(&mut self, unit: usize, units: usize) {
        self.set_header(unit, MetricId(Uuid::nil()), FREE, units);
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        self.free[units].push(unit as u32);
    }

    fn set_header(&mut self, unit: usize, metric: MetricId, length: u32, units: usize) {
        let place = self.place_mut(unit);
        place[..16].copy_from_slice(metric.0.as_bytes());
        place[16..20].copy_from_slice(&length.to_le_bytes());
        place[20..HEADER_BYTES].copy_from_slice(&(units as u32).to_le_bytes());
    }

    /// From a place to the end of its chunk.
    fn place(&self, unit: usize) -> &[u8] {
        let at = unit * UNIT_BYTES;
        &self.chunks[at / CHUNK_BYTES][at % CHUNK_BYTES..]
    }

    fn place_mut(&mut self, unit: usize) -> &mut [u8] {
        let at = unit * UNIT_BYTES;
        &mut self.chunks[at / CHUNK_BYTES][at % CHUNK_BYTES..]
    }
}

impl Slot {
    fn units(self) -> usize {
        units_of(self.length as usize)
    }
}

/// The units of a place for a head of this length.
fn units_of(length: usize) -> usize {
    (HEADER_BYTES + length).div_ceil(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A metric's new head, given by its length, or its removal.
    fn change() -> impl Strategy<Value = (u8, Option<usize>)> {
        let length = prop_oneof![4 => 0..700_usize, 1 => 0..=HEAD_BYTES_MAX];
        (0..40_u8, prop_oneof![5 => length.prop_map(Some), 1 => Just(None)])
    }

    proptest! {
        #[test]
        fn they_are_a_map(changes in prop::collection::vec(change(), 1..300)) {
            let mut heads = DirtyHeads::default();
            let mut model: BTreeMap<MetricId, (Slot, Vec<u8>)> = BTreeMap::new();
            for (number, (metric, length)) in changes.into_iter().enumerate() {
                let metric = MetricId(Uuid::from_u128(metric.into()));
                let known = model.remove(&metric).map(|(slot, _)| slot);
                let Some(length) = length else {
                    if let Some(slot) = known {
                        heads.remove(slot);
                    }
                    continue;
                };
                let head = vec![number as u8; length];
                let slot = match known {
                    Some(slot) => heads.replace(slot, metric, &head),
                    None => heads.add(metric, &head),
                };
                model.insert(metric, (slot, head));
            }
            prop_assert_eq!(heads.len(), model.len());
            for (slot, head) in model.values() {
                prop_assert_eq!(heads.head(*slot), &head[..]);
            }
            let mut metrics = heads.metrics();
            metrics.sort_unstable();
            prop_assert_eq!(metrics, model.into_keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn rewriting_takes_no_more_memory() {
        let mut heads = DirtyHeads::default();
        let metrics: Vec<MetricId> = (0..1000).map(|id| MetricId(Uuid::from_u128(id))).collect();
        let mut slots: Vec<Slot> = metrics.iter().map(|metric| heads.add(*metric, &[1; 300])).collect();
        let taken = heads.memory_bytes();
        assert_eq!(taken, 1000 * 384);
        for round in 0..50_usize {
            for (metric, slot) in metrics.iter().zip(&mut slots) {
                *slot = heads.replace(*slot, *metric, &vec![2; 300 - round]);
            }
        }
        assert!(heads.memory_bytes() <= 2 * taken, "{} bytes", heads.memory_bytes());
    }
}
