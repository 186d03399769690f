//! The newest version of each block in a range, from tables and from what is newer.

use std::{collections::BTreeMap, ops::ControlFlow};

use bytes::Bytes;

use super::{Found, Gap, Met, Site, Table, entry::Kind};
use crate::aggregates::{
    BlockKey, BlockRange,
    holes::{Before, Holes},
    key::Key,
};

/// A block that was found; `L` is where the store keeps newer ones.
pub enum Block<L> {
    Value(Bytes),
    /// Only its key is wanted.
    Unread,
    /// The damaged place.
    Damaged(String),
    Newer(L),
}

/// The blocks found in a range.
pub struct Collected<L> {
    pub blocks: BTreeMap<Key, Block<L>>,
    pub holes: Holes,
    /// Where blocks with unknown keys were lost.
    pub losses: Vec<String>,
}

impl<L> Default for Collected<L> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), holes: Holes::default(), losses: Vec::new() }
    }
}

impl<L> Collected<L> {
    /// Sets a block, or removes a deleted one (`None`).
    pub fn set(&mut self, key: Key, block: Option<Block<L>>) {
        self.holes.later(&name(&key));
        match block {
            Some(block) => drop(self.blocks.insert(key, block)),
            None => drop(self.blocks.remove(&key)),
        }
    }
}

/// Adds the blocks of a range that one table has.
pub struct TableBlocks<'a, S> {
    table: &'a Table<S>,
    range: &'a BlockRange,
    low: Key,
    high: Key,
    with_values: bool,
    gaps: Vec<Gap>,
}

impl<'a, S: Site> TableBlocks<'a, S> {
    pub fn new(table: &'a Table<S>, range: &'a BlockRange, with_values: bool) -> Self {
        let (low, high) = Key::bounds(range);
        Self { table, range, low, high, with_values, gaps: Vec::new() }
    }

    /// Adds what a scan from the lower bound of the range meets.
    pub fn visit<L>(&mut self, met: Met<'_>, found: &mut Collected<L>) -> ControlFlow<()> {
        let entry = match met {
            Met::Entry(entry) => entry,
            Met::Gap(gap) => {
                self.gaps.push(gap);
                return ControlFlow::Continue(());
            }
        };
        let key = entry.header.key;
        if key.metric() != self.range.metric || key > self.high {
            return ControlFlow::Break(());
        }
        if name(&key).first > self.range.to {
            // The values of a table do not overlap, but a removed block may overlap what replaced it: behind this entry may be
            // the tombstone of a block that an older table has, and behind a tombstone a block of the range.
            let is_found_behind = || found.blocks.last_key_value().is_some_and(|(last, _)| *last > key);
            return if entry.header.kind == Kind::Tombstone || is_found_behind() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            };
        }
        let block = match entry.header.kind {
            Kind::Tombstone => None,
            Kind::Value | Kind::Damaged if !self.with_values => Some(Block::Unread),
            Kind::Value | Kind::Damaged => match self.table.open(&entry) {
                Found::Value(bytes) => Some(Block::Value(bytes)),
                Found::Damaged(place) => Some(Block::Damaged(place)),
                Found::Tombstone => None,
            },
        };
        found.set(key, block);
        ControlFlow::Continue(())
    }

    /// Adds what may be lost. After the table's blocks: they are no later than those it lost.
    pub fn end<L>(self, found: &mut Collected<L>) {
        for Gap { before, behind, place } in self.gaps {
            let ends_before = behind.is_some_and(|behind| behind <= self.low);
            let begins_behind = match before {
                Before::Whole(key) | Before::Lost(key) => key > self.high,
                Before::Nothing => false,
            };
            if !ends_before && !begins_behind && self.table.may_have_lost(self.range.metric) {
                found.holes.add(self.range, before, behind, place);
            }
        }
    }
}

/// The name of a block's key.
pub fn name(key: &Key) -> BlockKey {
    key.as_block().expect("bounds name blocks")
}
