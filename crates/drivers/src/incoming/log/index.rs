//! In-memory index of each sack's records in the log: backlog, acknowledged and trimmed positions.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gnudi_model::{Sack as SackName, SackId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{entries::SackExtent, queue::Gate, recent_frames::RecentFrame};
use crate::{
    incoming::{Backlog, Position, Positions},
    segments::{Location, frame::ITEM_HEADER_BYTES},
};

/// An item of the log: a sack's part of a batch. It takes 16 bytes: a full backlog of single measures has 90 million.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub at: Location,
    /// Of the payload, in bytes.
    pub length: u32,
    pub measures: u32,
}

const _: () = assert!(size_of::<Item>() == 16);

impl Item {
    /// A part of a frame.
    pub fn of(frame: Location, part: &SackExtent) -> Self {
        let at = Location { offset: frame.offset + part.offset, ..frame };
        Self { at, length: part.length, measures: part.measures }
    }

    /// The position of its records: a batch has one item per sack, so the item's location is unique.
    pub fn position(&self) -> Position {
        Position(self.at.pack())
    }
}

/// A waiting item.
#[derive(Clone, Debug)]
pub struct Stored {
    pub item: Item,
    /// The frame, if in memory, and the item's offset in it.
    pub held: Option<(Arc<RecentFrame>, u32)>,
}

fn item_bytes(length: u32) -> u64 {
    (ITEM_HEADER_BYTES as u64 + u64::from(length)).next_multiple_of(8)
}

impl SackExtent {
    /// Its size in the log.
    pub fn stored_bytes(&self) -> u64 {
        item_bytes(self.length)
    }
}

pub struct Index {
    sacks: Box<[Mutex<Sack>]>,
    measures: AtomicU64,
    bytes: AtomicU64,
    gate: Arc<Gate>,
    touched: Mutex<Touched>,
    unnamed: Mutex<Unnamed>,
    arrived: Notify,
}

/// For every segment each sack's newest record in it: once all are trimmed, so is the segment.
type Touched = BTreeMap<u32, HashMap<SackId, Position>>;

#[derive(Default)]
struct Sack {
    waiting: Waiting,
    trimmed: Position,
    acknowledged: Position,
    newest: Position,
}

impl Sack {
    /// If nothing waits, the newest item counts as acknowledged: no pass comes for one that was given up.
    fn settle(&mut self) {
        if self.waiting.items.is_empty() {
            self.acknowledged = self.newest;
        }
    }
}

/// A sack's waiting items, oldest first.
#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// The items in memory: their positions, frames and offsets in these.
    held: VecDeque<(Position, Arc<RecentFrame>, u32)>,
}

impl Waiting {
    fn push(&mut self, frame: Location, part: &SackExtent, held: Option<&Arc<RecentFrame>>) {
        let item = Item::of(frame, part);
        self.items.push_back(item);
        self.held.extend(held.map(|held| (item.position(), Arc::clone(held), part.offset)));
    }

    /// The items after a position.
    fn after(&self, position: Position) -> impl Iterator<Item = Stored> {
        let first = self.items.partition_point(|item| item.position() <= position);
        let first_held = self.held.partition_point(|(at, ..)| *at <= position);
        let mut held = self.held.range(first_held..).peekable();
        self.items.range(first..).map(move |item| {
            let own = held.next_if(|(at, ..)| *at == item.position());
            let held = own.map(|(_, frame, offset)| (Arc::clone(frame), *offset));
            Stored { item: *item, held }
        })
    }

    /// Removes the items up to a position.
    fn drain(&mut self, up_to: Position) -> impl Iterator<Item = Item> {
        let count = self.held.partition_point(|(at, ..)| *at <= up_to);
        self.held.drain(..count);
        let count = self.items.partition_point(|item| item.position() <= up_to);
        self.items.drain(..count)
    }

    /// Removes an item; whether it was there.
    fn remove(&mut self, position: Position) -> bool {
        if let Ok(at) = self.held.binary_search_by_key(&position, |(at, ..)| *at) {
            self.held.remove(at);
        }
        let found = self.items.binary_search_by_key(&position, Item::position);
        found.is_ok_and(|at| self.items.remove(at).is_some())
    }

    /// Releases memory once nothing waits.
    fn shrink(&mut self) {
        if self.items.is_empty() && self.items.capacity() > WAITING_KEPT_MAX {
            *self = Waiting::default();
        }
    }
}

/// The sacks with records that no call of `arrivals` has reported.
struct Unnamed {
    sacks: Vec<SackId>,
    listed: Box<[bool]>,
}

impl Index {
    /// `trimmed` has a position for each sack.
    pub fn new(trimmed: &[Position], gate: Arc<Gate>) -> Self {
        let sack = |position: &Position| {
            let (trimmed, acknowledged, newest) = (*position, *position, *position);
            Mutex::new(Sack { waiting: Waiting::default(), trimmed, acknowledged, newest })
        };
        Self {
            sacks: trimmed.iter().map(sack).collect(),
            measures: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            gate,
            touched: Mutex::default(),
            unnamed: Mutex::new(Unnamed { sacks: Vec::new(), listed: vec![false; trimmed.len()].into() }),
            arrived: Notify::new(),
        }
    }

    /// Makes the items of written frames visible, and wakes `arrivals`. The gate must have admitted their
    /// bytes.
    pub fn publish<'a>(
        &self,
        frames: impl Iterator<Item = (Location, &'a [SackExtent], Option<Arc<RecentFrame>>)>,
    ) {
        let mut touched = self.touched.lock();
        let mut unnamed = self.unnamed.lock();
        for (frame, parts, held) in frames {
            let in_segment = touched.entry(frame.segment).or_default();
            for &part in parts {
                let position = Item::of(frame, &part).position();
                let mut sack = self.sacks[usize::from(part.sack.0)].lock();
                assert!(position > sack.newest, "positions grow");
                sack.newest = position;
                sack.waiting.push(frame, &part, held.as_ref());
                // Before they can be acknowledged, so that the sums never become negative.
                self.measures.fetch_add(part.measures.into(), Ordering::Relaxed);
                self.bytes.fetch_add(part.stored_bytes(), Ordering::Relaxed);
                drop(sack);
                in_segment.insert(part.sack, position);
                if !std::mem::replace(&mut unnamed.listed[usize::from(part.sack.0)], true) {
                    unnamed.sacks.push(part.sack);
                }
            }
        }
        let any = !unnamed.sacks.is_empty();
        drop((touched, unnamed));
        if any {
            self.arrived.notify_one();
        }
    }

    /// A sack's items after `after`, oldest first, of about `bytes_max` bytes in total, at least one if any
    /// waits.
    pub fn pending(&self, sack: SackId, after: Position, bytes_max: usize) -> Vec<Stored> {
        let sack = self.sacks[usize::from(sack.0)].lock();
        let mut bytes = 0;
        let fits = |stored: &Stored| {
            let room_left = bytes < bytes_max;
            let is_first = bytes == 0;
            bytes += item_bytes(stored.item.length) as usize;
            room_left || is_first
        };
        sack.waiting.after(after).take_while(fits).collect()
    }

    pub fn acknowledge(&self, sack: SackId, up_to: Position) {
        let mut sack = self.sacks[usize::from(sack.0)].lock();
        assert!(up_to <= sack.newest, "acknowledged what was never accepted");
        sack.acknowledged = sack.acknowledged.max(up_to);
        sack.waiting.drain(up_to).for_each(|item| self.leave(&item));
        sack.settle();
        sack.waiting.shrink();
    }

    /// Removes an unreadable item.
    pub fn give_up(&self, sack: SackId, item: &Item) {
        let mut sack = self.sacks[usize::from(sack.0)].lock();
        if sack.waiting.remove(item.position()) {
            self.leave(item);
        }
        sack.settle();
    }

    fn leave(&self, item: &Item) {
        self.measures.fetch_sub(item.measures.into(), Ordering::Relaxed);
        self.bytes.fetch_sub(item_bytes(item.length), Ordering::Relaxed);
        self.gate.leave(item_bytes(item.length));
    }

    pub fn positions(&self, sack: SackId) -> Positions {
        let sack = self.sacks[usize::from(sack.0)].lock();
        Positions { acknowledged: sack.acknowledged, newest: sack.newest }
    }

    pub fn backlog(&self) -> Backlog {
        Backlog { measures: self.measures.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Raises trimmed positions, and returns those of all sacks.
    pub fn trim(&self, up_to: &[(SackName, Position)]) -> Vec<Position> {
        for &(sack, position) in up_to {
            let mut sack = self.sacks[usize::from(sack.id.0)].lock();
            assert!(position <= sack.acknowledged, "trimmed ahead of what is acknowledged");
            sack.trimmed = sack.trimmed.max(position);
        }
        self.sacks.iter().map(|sack| sack.lock().trimmed).collect()
    }

    /// Removes and returns those of the given segments whose records are all trimmed.
    pub fn take_trimmed(&self, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut touched = self.touched.lock();
        let numbers: Vec<u32> =
            numbers.filter(|number| self.has_passed(&touched, *number, |sack| sack.trimmed)).collect();
        for number in &numbers {
            touched.remove(number);
        }
        numbers
    }

    /// How many of the given segments have only acknowledged records.
    pub fn count_acknowledged(&self, numbers: impl Iterator<Item = u32>) -> usize {
        let touched = self.touched.lock();
        numbers.filter(|number| self.has_passed(&touched, *number, |sack| sack.acknowledged)).count()
    }

    /// Whether each sack's position is behind the sack's records in a segment.
    fn has_passed(&self, touched: &Touched, segment: u32, position: fn(&Sack) -> Position) -> bool {
        let passed = |(sack, newest): (&SackId, &Position)| {
            *newest <= position(&self.sacks[usize::from(sack.0)].lock())
        };
        touched.get(&segment).is_none_or(|newest| newest.iter().all(passed))
    }

    pub async fn arrivals(&self) -> Vec<SackId> {
        loop {
            {
                let mut unnamed = self.unnamed.lock();
                if !unnamed.sacks.is_empty() {
                    unnamed.listed.fill(false);
                    return std::mem::take(&mut unnamed.sacks);
                }
            }
            self.arrived.notified().await;
        }
    }
}

/// An empty sack's list keeps capacity for this many items.
const WAITING_KEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sack_is_idle_once_its_newest_item_is_given_up() {
        const SACK: SackId = SackId(0);
        let gate = Gate::new(u64::MAX);
        let index = Index::new(&[Position(0)], Arc::clone(&gate));
        let part = SackExtent { sack: SACK, measures: 1, offset: 32, length: 40 };
        for segment in 1..=2 {
            gate.enter(part.stored_bytes());
            let frame = Location { segment, offset: 4096 };
            index.publish([(frame, &[part][..], None)].into_iter());
        }
        let items = index.pending(SACK, Position(0), 1000);
        index.give_up(SACK, &items[1].item);
        assert!(!index.positions(SACK).is_idle(), "the first one waits");
        index.acknowledge(SACK, items[0].item.position());
        assert!(index.positions(SACK).is_idle());
        assert_eq!(index.backlog(), Backlog::default());
    }
}
