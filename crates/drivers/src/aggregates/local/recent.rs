//! The recent layer: what was written since the last flush. An index of what the log has, and the heads that
//! it does not have yet (`dirty`).
//!
//! A pass over a metric is one frame of the log: a first item that names the metric and its blocks, then an
//! item for every block, every expired block and the head. So the frame makes all of them visible or none,
//! and if it is damaged, the metric and what it may have lost are still known. A frame of a sync has several
//! metrics, each with its name and its head. Item payloads start with the 40 bytes of the key; the tag is the
//! type.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};

use bytes::Bytes;
use gnudi_model::{MetricId, MetricMap, MetricSet};

use super::{
    dirty::{DirtyHeads, Slot},
    roster::Listed,
};
use crate::aggregates::key::{KEY_BYTES, Key};
use crate::{
    aggregates::{BlockKey, BlockRange, MetricWrite},
    segments::{Frame, ItemView, Location, RecoveredFrame, frame::ITEM_HEADER_BYTES},
};

/// An item's overhead beside its value, for sizing buffers.
const ITEM_BYTES: usize = ITEM_HEADER_BYTES + KEY_BYTES + 8;

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recent {
    /// The value is in the log, in an item of this payload length.
    Value(Location, u32),
    /// A head in memory, in the same layer.
    Dirty(Slot),
    /// Deleted.
    Tombstone,
    /// The log is damaged where the value was.
    Damaged(Location),
}

impl Recent {
    /// The value's length; 0 if there is none.
    pub fn length(self) -> u32 {
        match self {
            Recent::Value(_, length) | Recent::Dirty(Slot { length, .. }) => length,
            Recent::Tombstone | Recent::Damaged(_) => 0,
        }
    }
}

/// Tags of items.
mod tag {
    pub const ABOUT: u64 = 1;
    pub const VALUE: u64 = 2;
    pub const TOMBSTONE: u64 = 3;
}

/// A frame's contents for the index; offsets are relative to the frame.
#[derive(Default)]
pub struct Written {
    /// Key, and the item's offset and payload length; `None` for deleted keys.
    entries: Vec<(Key, Option<(u32, u32)>)>,
    /// Of heads that a sync writes: the dirty heads, in the order of the entries. A head that changed meanwhile
    /// stays dirty.
    dirty: Vec<Vec<u8>>,
}

/// Encodes a pass over a metric as a frame.
pub fn encode_write(write: &MetricWrite) -> (Frame, Written) {
    let values: usize = write.blocks.iter().map(|(_, bytes)| bytes.len() + ITEM_BYTES).sum();
    let mut frame = Frame::with_capacity(
        values + write.head.len() + (write.expired.len() + 2) * ITEM_BYTES + write.blocks.len() * KEY_BYTES,
    );
    let mut entries = Vec::with_capacity(write.expired.len() + write.blocks.len() + 1);
    push_name(&mut frame, write.metric, &write.blocks);
    for name in &write.expired {
        let key = Key::block(name);
        frame.push(tag::TOMBSTONE, |out| out.extend_from_slice(key.bytes()));
        entries.push((key, None));
    }
    let blocks = write.blocks.iter().map(|(name, bytes)| (Key::block(name), bytes));
    for (key, bytes) in blocks.chain([(Key::head(write.metric), &write.head)]) {
        entries.push((key, Some(push_value(&mut frame, &key, bytes))));
    }
    (frame, Written { entries, ..Written::default() })
}

/// Encodes dirty heads as a frame.
pub fn encode_heads(heads: &[(MetricId, &[u8])]) -> (Frame, Written) {
    let values: usize = heads.iter().map(|(_, head)| head.len() + 2 * ITEM_BYTES).sum();
    let mut frame = Frame::with_capacity(values);
    let mut written = Written::default();
    for (metric, head) in heads {
        let key = Key::head(*metric);
        push_name(&mut frame, *metric, &[]);
        written.entries.push((key, Some(push_value(&mut frame, &key, head))));
        written.dirty.push(head.to_vec());
    }
    (frame, written)
}

/// The first item of a pass: its metric and the blocks that follow.
fn push_name(frame: &mut Frame, metric: MetricId, blocks: &[(BlockKey, Bytes)]) {
    frame.push(tag::ABOUT, |out| {
        out.extend_from_slice(Key::head(metric).bytes());
        for (name, _) in blocks {
            out.extend_from_slice(Key::block(name).bytes());
        }
    });
}

/// Returns the item's offset and payload length.
fn push_value(frame: &mut Frame, key: &Key, value: &[u8]) -> (u32, u32) {
    frame.push(tag::VALUE, |out| {
        out.extend_from_slice(key.bytes());
        out.extend_from_slice(value);
    })
}

/// Encodes a metric's deletion as a frame.
pub fn encode_deletion(metric: MetricId) -> (Frame, Written) {
    let mut frame = Frame::with_capacity(ITEM_BYTES);
    let key = Key::deletion(metric);
    frame.push(tag::TOMBSTONE, |out| out.extend_from_slice(key.bytes()));
    (frame, Written { entries: vec![(key, None)], ..Written::default() })
}

/// The newest entry of each key since a flush. Passes look up and write heads all the time: heads stay
/// unsorted until the flush.
#[derive(Default)]
pub struct Layer {
    heads: MetricMap<Recent>,
    /// Those among `heads` that are in no file yet.
    dirty: DirtyHeads,
    /// Deleted metrics: entries of older layers are void.
    deleted: MetricSet,
    /// Metrics that lost blocks or tombstones of blocks, and where.
    losses: MetricMap<Location>,
    blocks: BTreeMap<Key, Recent>,
}

impl Layer {
    /// Adds a frame that was written at `at`.
    pub fn apply(&mut self, at: Location, written: &Written) {
        for (index, (key, place)) in written.entries.iter().enumerate() {
            if written.dirty.get(index).is_some_and(|head| self.dirty_head(key.metric()) != Some(&head[..])) {
                continue;
            }
            let recent = place.map_or(Recent::Tombstone, |(offset, length)| {
                Recent::Value(Location { offset: at.offset + offset, ..at }, length)
            });
            self.set(*key, recent);
        }
    }

    /// Writes a head to memory only.
    pub fn write_head(&mut self, metric: MetricId, head: &[u8]) {
        match self.heads.entry(metric) {
            Entry::Occupied(mut known) => {
                let slot = match known.get() {
                    Recent::Dirty(slot) => self.dirty.replace(*slot, metric, head),
                    _ => self.dirty.add(metric, head),
                };
                known.insert(Recent::Dirty(slot));
            }
            Entry::Vacant(new) => {
                new.insert(Recent::Dirty(self.dirty.add(metric, head)));
            }
        }
    }

    /// The metric's head, if it is dirty.
    pub fn dirty_head(&self, metric: MetricId) -> Option<&[u8]> {
        match self.heads.get(&metric) {
            Some(Recent::Dirty(slot)) => Some(self.dirty.head(*slot)),
            _ => None,
        }
    }

    pub fn dirty(&self) -> &DirtyHeads {
        &self.dirty
    }

    /// Adds a recovered frame, or what is left of one or of several in a row. `listed` are the entries known
    /// to have begun there. Returns the frame's entries if it is whole.
    pub fn recover(&mut self, found: &RecoveredFrame<'_>, listed: &BTreeSet<Listed>) -> Vec<Listed> {
        let tagged = found.items.iter().filter_map(|item| Some((item, Key::of_item(found.bytes, item)?)));
        let items: Vec<(&ItemView, Key)> = tagged.collect();
        // A pass names its metric first, and the next pass is mostly over another metric.
        let same = |(_, one): &(_, Key), (item, next): &(&ItemView, Key)| {
            item.tag != tag::ABOUT && one.metric() == next.metric()
        };
        for pass in items.chunk_by(same) {
            self.recover_pass(found, listed, pass);
        }
        let is_listed = |(item, key): &&(&ItemView, Key)| item.tag == tag::VALUE || key.is_deletion();
        let there: Vec<Key> = items.iter().filter(is_listed).map(|(_, key)| *key).collect();
        if found.missing == Some(0) {
            return there.into_iter().map(|key| Listed { at: found.at, key }).collect();
        }
        let mut lacking: HashMap<Key, i64> = HashMap::new();
        for key in listed.iter().map(|listed| listed.key) {
            *lacking.entry(key).or_default() += 1;
        }
        for key in &there {
            *lacking.entry(*key).or_default() -= 1;
        }
        // If two passes over one metric began there, it is unknown which one is left.
        for lost in listed.iter().filter(|listed| lacking[&listed.key] > 0) {
            self.lose(lost);
        }
        Vec::new()
    }

    /// Records that a listed entry is missing from the log.
    pub fn lose(&mut self, Listed { at, key }: &Listed) {
        self.set(*key, if key.is_deletion() { Recent::Tombstone } else { Recent::Damaged(*at) });
    }

    /// Adds the surviving items of a pass over one metric.
    fn recover_pass(
        &mut self,
        found: &RecoveredFrame<'_>,
        listed: &BTreeSet<Listed>,
        pass: &[(&ItemView, Key)],
    ) {
        let Some((_, key)) = pass.first() else { return };
        let metric = key.metric();
        // What the pass wrote: a head, and blocks as far as they are named.
        let mut values = BTreeSet::from([Key::head(metric)]);
        let mut blocks_known = listed.iter().any(|listed| listed.key.metric() == metric);
        let mut about_found = false;
        for (item, key) in pass {
            let place = Location { offset: found.at.offset + item.offset, ..found.at };
            match item.tag {
                tag::ABOUT => {
                    about_found = true;
                    let blocks = Key::blocks_of_item(found.bytes, item);
                    blocks_known |= !blocks.is_empty();
                    values.extend(blocks);
                }
                tag::VALUE => self.set(*key, Recent::Value(place, item.length)),
                tag::TOMBSTONE if key.is_deletion() => {
                    // A deletion is a frame of its own, without name and head.
                    self.set(*key, Recent::Tombstone);
                    return;
                }
                tag::TOMBSTONE => self.set(*key, Recent::Tombstone),
                unknown => tracing::warn!("an item of unknown kind {unknown} in the log of aggregates"),
            }
        }
        for (_, key) in pass.iter().filter(|(item, _)| item.tag == tag::VALUE) {
            values.remove(key);
        }
        for key in &values {
            self.set(*key, Recent::Damaged(found.at));
        }
        let more_lost = if let Some(missing) = found.missing {
            missing as usize > values.len() + usize::from(!about_found)
        } else {
            // Nothing is missing if the items from the name to the head, which is the last, are contiguous.
            let in_a_row = pass.windows(2).all(|pair| pair[0].0.end() == pair[1].0.offset as usize);
            !(about_found && values.is_empty() && in_a_row)
        };
        if more_lost && !blocks_known {
            self.set(Key::loss(metric), Recent::Damaged(found.at));
        }
    }

    fn set(&mut self, key: Key, recent: Recent) {
        if key.is_head() {
            let old = self.heads.insert(key.metric(), recent);
            self.release(old);
        } else if key.is_loss() {
            if let Recent::Damaged(at) = recent {
                self.losses.insert(key.metric(), at);
            }
        } else if key.is_deletion() {
            let metric = key.metric();
            let old = self.heads.remove(&metric);
            self.release(old);
            self.losses.remove(&metric);
            self.blocks.extract_if(key..=Key::last_of(metric), |_, _| true).for_each(drop);
            self.deleted.insert(metric);
        } else {
            self.blocks.insert(key, recent);
        }
    }

    /// Frees the memory of a head that is no longer among `heads`.
    fn release(&mut self, old: Option<Recent>) {
        if let Some(Recent::Dirty(slot)) = old {
            self.dirty.remove(slot);
        }
    }

    /// Records that the value of `key` at `at` is damaged.
    pub fn found_damaged(&mut self, key: &Key, at: Location) {
        let entry = if key.is_head() { self.heads.get_mut(&key.metric()) } else { self.blocks.get_mut(key) };
        if let Some(recent @ Recent::Value(..)) = entry
            && matches!(recent, Recent::Value(place, _) if *place == at)
        {
            *recent = Recent::Damaged(at);
        }
    }

    /// Metrics that were deleted.
    pub fn deleted(&self) -> &MetricSet {
        &self.deleted
    }

    /// The state of a metric's head.
    pub fn head(&self, metric: MetricId) -> Option<Recent> {
        let deleted = || self.deletes(metric).then_some(Recent::Tombstone);
        self.heads.get(&metric).copied().or_else(deleted)
    }

    /// Whether all entries of older layers for a metric are void.
    pub fn deletes(&self, metric: MetricId) -> bool {
        self.deleted.contains(&metric)
    }

    /// Where blocks of a metric with unknown keys were lost.
    pub fn loss(&self, metric: MetricId) -> Option<Location> {
        self.losses.get(&metric).copied()
    }

    /// The blocks of a range, filtered by their last bucket only.
    pub fn blocks(&self, range: &BlockRange) -> impl Iterator<Item = (Key, Recent)> {
        let (low, high) = Key::bounds(range);
        self.blocks.range(low..=high).map(|(key, recent)| (*key, *recent))
    }

    /// All entries in the order of a new run.
    pub fn sorted(&self) -> Vec<(Key, Recent)> {
        let deleted = self.deleted.iter().map(|metric| (Key::deletion(*metric), Recent::Tombstone));
        let heads = self.heads.iter().map(|(metric, recent)| (Key::head(*metric), *recent));
        let losses = self.losses.iter().map(|(metric, at)| (Key::loss(*metric), Recent::Damaged(*at)));
        let blocks = self.blocks.iter().map(|(key, recent)| (*key, *recent));
        let mut all: Vec<(Key, Recent)> = deleted.chain(heads).chain(losses).chain(blocks).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    pub fn len(&self) -> usize {
        self.heads.len() + self.deleted.len() + self.losses.len() + self.blocks.len()
    }
}

impl Written {
    /// The roster's entries for a frame written at `at`.
    pub fn listed(&self, at: Location) -> impl Iterator<Item = Listed> {
        let is_listed = |(key, place): &&(Key, Option<_>)| place.is_some() || key.is_deletion();
        self.entries.iter().filter(is_listed).map(move |(key, _)| Listed { at, key: *key })
    }
}

impl Key {
    /// The blocks named by a pass's first item.
    fn blocks_of_item(frame: &[u8], item: &ItemView) -> Vec<Self> {
        let start = item.offset as usize + ITEM_HEADER_BYTES;
        let payload = &frame[start..start + item.length as usize];
        let keys = payload[KEY_BYTES..].chunks_exact(KEY_BYTES);
        keys.map(|key| Key::from_bytes(key.try_into().expect("a key's length"))).collect()
    }

    /// An item's key; `None` if it has none.
    fn of_item(frame: &[u8], item: &ItemView) -> Option<Self> {
        let start = item.offset as usize + ITEM_HEADER_BYTES;
        let payload = &frame[start..start + item.length as usize];
        payload.first_chunk().map(|bytes| Key::from_bytes(*bytes))
    }
}
