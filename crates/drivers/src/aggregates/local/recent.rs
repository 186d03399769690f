//! What was written since the last flush: it lies in the log, and here is where.
//!
//! A pass over a metric is one frame of the log: a first item that names the metric, an item for every block, every
//! expired block and the head. So the frame makes all of them visible or none, and of a damaged one the metric is
//! still known. Item payloads start with the 40 bytes of the key; the tag says what follows.

use std::collections::{BTreeMap, HashMap, HashSet};

use gnudi_model::MetricId;

use super::run::Order;
use crate::aggregates::key::{KEY_BYTES, Key};
use crate::{
    aggregates::{BlockRange, MetricWrite},
    segments::{Frame, Location, RecoveredFrame, frame::ITEM_HEADER_BYTES},
};

/// Room for an item beside its value, for sizing buffers.
const ITEM_BYTES: usize = ITEM_HEADER_BYTES + KEY_BYTES + 8;

/// What is said of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recent {
    /// The value is in the log, in an item of this payload length.
    Value(Location, u32),
    /// Gone.
    Tombstone,
    /// The log is damaged where the value was.
    Damaged(Location),
}

/// Tags of items.
mod tag {
    pub const ABOUT: u64 = 1;
    pub const VALUE: u64 = 2;
    pub const TOMBSTONE: u64 = 3;
}

/// What a frame says, for the index: relative to the frame until it is written.
pub struct Written {
    metric: MetricId,
    /// Key, and the item's offset and payload length; no place for what is gone.
    entries: Vec<(Key, Option<(u32, u32)>)>,
}

/// A pass over a metric as a frame.
pub fn encode_write(write: &MetricWrite) -> (Frame, Written) {
    let values: usize = write.blocks.iter().map(|(_, bytes)| bytes.len() + ITEM_BYTES).sum();
    let mut frame = Frame::with_capacity(values + write.head.len() + (write.expired.len() + 2) * ITEM_BYTES);
    let mut entries = Vec::with_capacity(write.expired.len() + write.blocks.len() + 1);
    frame.push(tag::ABOUT, |out| out.extend_from_slice(Key::head(write.metric).bytes()));
    for name in &write.expired {
        let key = Key::block(name);
        frame.push(tag::TOMBSTONE, |out| out.extend_from_slice(key.bytes()));
        entries.push((key, None));
    }
    let blocks = write.blocks.iter().map(|(name, bytes)| (Key::block(name), bytes));
    for (key, bytes) in blocks.chain([(Key::head(write.metric), &write.head)]) {
        let place = frame.push(tag::VALUE, |out| {
            out.extend_from_slice(key.bytes());
            out.extend_from_slice(bytes);
        });
        entries.push((key, Some(place)));
    }
    (frame, Written { metric: write.metric, entries })
}

/// A metric's deletion as a frame.
pub fn encode_deletion(metric: MetricId) -> (Frame, Written) {
    let mut frame = Frame::with_capacity(ITEM_BYTES);
    let key = Key::deletion(metric);
    frame.push(tag::TOMBSTONE, |out| out.extend_from_slice(key.bytes()));
    (frame, Written { metric, entries: vec![(key, None)] })
}

/// The newest of each key, since some flush. Every pass looks heads up and writes them: they need no order until the flush.
#[derive(Default)]
pub struct Layer {
    heads: HashMap<MetricId, Recent>,
    /// Metrics that were deleted: what older layers say of them is void.
    deleted: HashSet<MetricId>,
    blocks: BTreeMap<Key, Recent>,
}

impl Layer {
    /// Takes up a frame that was written at `at`.
    pub fn apply(&mut self, at: Location, written: &Written) {
        for (key, place) in &written.entries {
            let recent = place.map_or(Recent::Tombstone, |(offset, length)| {
                Recent::Value(Location { offset: at.offset + offset, ..at }, length)
            });
            debug_assert_eq!(key.metric(), written.metric);
            self.set(*key, recent);
        }
    }

    /// Takes up a frame that recovery found, or what is left of it.
    pub fn recover(&mut self, found: &RecoveredFrame<'_>) {
        let (mut about, mut head_found) = (None, false);
        for item in found.items {
            let start = item.offset as usize + ITEM_HEADER_BYTES;
            let payload = &found.bytes[start..start + item.length as usize];
            let Some(key) = payload.first_chunk().map(|bytes| Key::from_bytes(*bytes)) else { continue };
            let place = Location { offset: found.at.offset + item.offset, ..found.at };
            match item.tag {
                tag::ABOUT => about = Some(key),
                tag::VALUE => {
                    head_found |= key == Key::head(key.metric());
                    self.set(key, Recent::Value(place, item.length));
                }
                tag::TOMBSTONE => self.set(key, Recent::Tombstone),
                unknown => tracing::warn!("an item of unknown kind {unknown} in the log of aggregates"),
            }
        }
        if let Some(key) = about
            && !head_found
        {
            self.set(key, Recent::Damaged(found.at));
        }
    }

    fn set(&mut self, key: Key, recent: Recent) {
        if key.is_head() {
            self.heads.insert(key.metric(), recent);
        } else if key.is_deletion() {
            let metric = key.metric();
            self.heads.remove(&metric);
            let of_metric = self.blocks.range(key..=Key::last_of(metric));
            let gone: Vec<Key> = of_metric.map(|(key, _)| *key).collect();
            for key in gone {
                self.blocks.remove(&key);
            }
            self.deleted.insert(metric);
        } else {
            self.blocks.insert(key, recent);
        }
    }

    /// The value of a key was read at `at` and is damaged.
    pub fn found_damaged(&mut self, key: &Key, at: Location) {
        let entry = if key.is_head() { self.heads.get_mut(&key.metric()) } else { self.blocks.get_mut(key) };
        if let Some(recent @ Recent::Value(..)) = entry
            && matches!(recent, Recent::Value(place, _) if *place == at)
        {
            *recent = Recent::Damaged(at);
        }
    }

    /// What is said of a metric's head.
    pub fn head(&self, metric: MetricId) -> Option<Recent> {
        let deleted = || self.deletes(metric).then_some(Recent::Tombstone);
        self.heads.get(&metric).copied().or_else(deleted)
    }

    /// Whether all that older layers say of a metric is void.
    pub fn deletes(&self, metric: MetricId) -> bool {
        self.deleted.contains(&metric)
    }

    /// The blocks of a range, as far as their last bucket tells.
    pub fn blocks(&self, range: &BlockRange) -> impl Iterator<Item = (Key, Recent)> {
        let (low, high) = Key::bounds(range);
        self.blocks.range(low..=high).map(|(key, recent)| (*key, *recent))
    }

    /// All, in the order of a new run.
    pub fn sorted(&self) -> Vec<(Key, Recent)> {
        let deleted = self.deleted.iter().map(|metric| (Key::deletion(*metric), Recent::Tombstone));
        let heads = self.heads.iter().map(|(metric, recent)| (Key::head(*metric), *recent));
        let blocks = self.blocks.iter().map(|(key, recent)| (*key, *recent));
        let mut all: Vec<(Key, Recent)> = deleted.chain(heads).chain(blocks).collect();
        all.sort_unstable_by_key(|(key, _)| Order::NEW.place(key));
        all
    }

    pub fn len(&self) -> usize {
        self.heads.len() + self.deleted.len() + self.blocks.len()
    }
}
