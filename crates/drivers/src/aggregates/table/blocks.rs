//! The newest version of each block in a range, from tables and from what is newer.

use std::{collections::BTreeMap, ops::ControlFlow};

use bytes::Bytes;
use gnudi_model::Timestamp;

use super::{Found, Gap, Met, Site, Table, entry::Kind};
use crate::aggregates::{
    BlockKey, BlockRange,
    holes::{Before, Holes, after_last, before_first},
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
    /// The last bucket of all blocks that were set, removed ones included.
    newest: Option<Timestamp>,
}

impl<L> Default for Collected<L> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), holes: Holes::default(), losses: Vec::new(), newest: None }
    }
}

impl<L> Collected<L> {
    /// Sets a block, or removes a deleted one (`None`).
    pub fn set(&mut self, key: Key, block: Option<Block<L>>) {
        match block {
            Some(block) => {
                let name = name(&key);
                // Otherwise it replaces older ones, and says nothing of those behind it.
                if self.newest.is_none_or(|newest| name.first > newest) {
                    self.holes.later(&name);
                }
                self.newest = self.newest.max(Some(name.last));
                self.blocks.insert(key, block);
            }
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
    /// The last block that was met and is not removed.
    last: Option<Key>,
    lost: Vec<Lost>,
}

/// A gap, and the blocks of the table around it that are not removed.
struct Lost {
    gap: Gap,
    after: Option<Key>,
    until: Option<Key>,
}

impl Lost {
    /// Whether the key may be among those that were lost.
    fn may_have(&self, key: &Key) -> bool {
        let is_behind_start = match self.gap.before {
            Before::Nothing => true,
            Before::Whole(before) => *key > before,
            Before::Lost(first) => *key >= first,
        };
        is_behind_start && self.gap.behind.is_none_or(|behind| *key < behind)
    }

    /// The first time at which a lost block may end, and the last at which one may begin.
    fn times<'k>(&self, older: impl Iterator<Item = &'k Key>) -> (Timestamp, Timestamp) {
        let from = self.after.map_or(Timestamp(i64::MIN), |key| after_last(&name(&key)));
        let to = self.until.map_or(Timestamp::MAX, |key| before_first(&name(&key)));
        // A tombstone may be lost, too: then a block that an older table has is removed.
        let removed = older.filter(|key| self.may_have(key)).map(name);
        removed.fold((from, to), |(from, to), block| (from.min(block.first), to.max(block.last)))
    }
}

impl<'a, S: Site> TableBlocks<'a, S> {
    pub fn new(table: &'a Table<S>, range: &'a BlockRange, with_values: bool) -> Self {
        let (low, high) = Key::bounds(range);
        Self { table, range, low, high, with_values, last: None, lost: Vec::new() }
    }

    /// Adds what a scan from the lower bound of the range meets.
    pub fn visit<L>(&mut self, met: Met<'_>, found: &mut Collected<L>) -> ControlFlow<()> {
        let entry = match met {
            Met::Entry(entry) => entry,
            Met::Gap(gap) => {
                self.lost.push(Lost { gap, after: self.last, until: None });
                return ControlFlow::Continue(());
            }
        };
        let key = entry.header.key;
        if key.metric() != self.range.metric || key > self.high {
            return ControlFlow::Break(());
        }
        if entry.header.kind != Kind::Tombstone {
            self.last = Some(key);
            let before = self.lost.iter_mut().rev().take_while(|lost| lost.until.is_none());
            before.for_each(|lost| lost.until = Some(key));
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
        for lost in self.lost {
            let ends_before = lost.gap.behind.is_some_and(|behind| behind <= self.low);
            let begins_behind = match lost.gap.before {
                Before::Whole(key) | Before::Lost(key) => key > self.high,
                Before::Nothing => false,
            };
            if !ends_before && !begins_behind && self.table.may_have_lost(self.range.metric) {
                let (from, to) = lost.times(found.blocks.keys());
                found.holes.add(from, to, lost.gap.place);
            }
        }
    }
}

/// The name of a block's key.
pub fn name(key: &Key) -> BlockKey {
    key.as_block().expect("bounds name blocks")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gnudi_model::{MetricId, Timespan};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::aggregates::table::{
        Builder, Pages, Scan,
        entry::{Piece, walk},
        exercise::Memory,
        layout::HEADER_BYTES,
    };

    const VALUE: Kind = Kind::Value;
    const TOMBSTONE: Kind = Kind::Tombstone;

    /// A table, and all of its pages.
    struct Written {
        table: Table<Memory>,
        pages: Pages,
    }

    fn range(from: i64, to: i64) -> BlockRange {
        let (metric, granularity) = (MetricId(Uuid::from_u128(7)), Timespan(1));
        BlockRange { metric, granularity, from: Timestamp(from), to: Timestamp(to) }
    }

    fn key(first: i64, last: i64) -> Key {
        let BlockRange { metric, granularity, from: first, to: last } = range(first, last);
        Key::block(&BlockKey { metric, granularity, first, last })
    }

    /// A table of these entries, which are in order; `lost` are the numbers of those that are lost.
    fn build<'v>(
        entries: impl Iterator<Item = (Key, Kind, &'v [u8])>,
        lost: impl IntoIterator<Item = usize>,
    ) -> Written {
        let mut builder = Builder::default();
        for (key, kind, value) in entries {
            builder.push(key, kind, value);
        }
        let index = builder.finish();
        let end = index.entries_end as usize;
        let mut bytes = builder.buffer;
        let places: Vec<Piece> = walk(&bytes[HEADER_BYTES..end]).collect();
        for number in lost {
            let Piece::Entry(at, _) = places[number] else { unreachable!("all entries are whole") };
            bytes[HEADER_BYTES + at + 20] ^= 1;
        }
        let last = index.pages.len() - 1;
        let bytes = Bytes::from(bytes).slice(HEADER_BYTES..end);
        let pages = Pages { first: 0, last, start: HEADER_BYTES as u64, bytes };
        Written { table: Table::new(Memory, index), pages }
    }

    /// Of entries without values: their kinds, and their first and last buckets.
    fn written(entries: &[(Kind, i64, i64)], lost: &[usize]) -> Written {
        let entries = entries.iter().map(|(kind, first, last)| (key(*first, *last), *kind, &b""[..]));
        build(entries, lost.iter().copied())
    }

    /// From tables, oldest first.
    fn collect(tables: &[Written], range: &BlockRange) -> Collected<()> {
        let mut found = Collected::default();
        for Written { table, pages } in tables {
            let mut blocks = TableBlocks::new(table, range, true);
            let (mut scan, _) = Scan::new(&table.index, Key::bounds(range).0);
            let visited = scan.visit(table, pages, 0, &mut |met| blocks.visit(met, &mut found));
            if visited.is_continue() {
                scan.end(table, &mut |met| blocks.visit(met, &mut found));
            }
            blocks.end(&mut found);
        }
        found
    }

    /// Whether a read of a range reports that blocks may be lost.
    fn is_lost(tables: &[Written], from: i64, to: i64) -> bool {
        let range = range(from, to);
        let holes = collect(tables, &range).holes;
        let wide = holes.wider(&range);
        let holes = wide.map_or(holes, |wide| collect(tables, &wide).holes);
        holes.places(&range).count() > 0
    }

    #[test]
    fn a_lost_block_was_between_its_neighbours() {
        let three = [(VALUE, 0, 59), (VALUE, 60, 119), (VALUE, 180, 239)];
        let lost = |number, from, to| is_lost(&[written(&three, &[number])], from, to);
        assert!(lost(1, 0, 60) && lost(1, 179, 500) && lost(1, 100, 110));
        assert!(!lost(1, 0, 59) && !lost(1, 180, 500));
        assert!(lost(0, -9, 0) && !lost(0, 60, 500));
        assert!(lost(2, 5000, 6000), "any block may have been the next one");
        let two_in_a_row = || written(&three, &[1, 2]);
        assert!(is_lost(&[two_in_a_row()], 5000, 6000) && !is_lost(&[two_in_a_row()], 0, 59));
        let tables = [two_in_a_row(), written(&[(VALUE, 5000, 5059)], &[])];
        assert!(!is_lost(&tables, 5000, 6000), "but not behind one that came later");
        assert!(is_lost(&tables, 4000, 6000));
    }

    #[test]
    fn a_removed_block_does_not_bound_what_replaced_it() {
        let divided = [(VALUE, 10, 40), (VALUE, 50, 60), (TOMBSTONE, 10, 100), (VALUE, 70, 100)];
        let lost = |number, from, to| is_lost(&[written(&divided, &[number])], from, to);
        assert!(lost(0, 10, 10) && lost(1, 50, 60) && lost(3, 70, 70) && lost(3, 90, 100));
        assert!(!lost(0, 50, 100) && !lost(1, 10, 40) && !lost(1, 70, 100) && !lost(3, 10, 60));
        let joined = [(TOMBSTONE, 10, 40), (TOMBSTONE, 50, 60), (VALUE, 10, 100)];
        let tables = [written(&joined, &[2])];
        assert!(is_lost(&tables, 10, 20) && is_lost(&tables, 100, 100));
    }

    /// The oldest blocks are removed while newer ones are kept.
    #[test]
    fn a_block_that_was_removed_later_does_not_bound_what_was_lost() {
        let older = [(VALUE, 0, 9), (VALUE, 10, 19), (VALUE, 20, 29)];
        let newer = [(TOMBSTONE, 0, 9), (VALUE, 30, 39)];
        let tables = [written(&older, &[0, 1, 2]), written(&newer, &[])];
        assert!(is_lost(&tables, 10, 19) && is_lost(&tables, 20, 29));
        assert!(!is_lost(&tables, 30, 39));
    }

    /// As for late points, or by a removal of measures.
    #[test]
    fn a_block_that_replaces_older_ones_does_not_bound_what_was_lost() {
        let oldest = [(VALUE, 0, 9), (VALUE, 10, 19)];
        let lost = [(VALUE, 20, 29), (VALUE, 30, 39)];
        let replaced = [(VALUE, 10, 19)];
        let divided = [(VALUE, 10, 14), (TOMBSTONE, 10, 19), (VALUE, 15, 19)];
        for newer in [&replaced[..], &divided[..]] {
            let mut tables = vec![written(&oldest, &[]), written(&lost, &[0, 1]), written(newer, &[])];
            assert!(is_lost(&tables, 20, 29) && is_lost(&tables, 30, 39));
            tables.push(written(&[(VALUE, 40, 49)], &[]));
            assert!(is_lost(&tables, 30, 39) && !is_lost(&tables, 40, 49));
        }
    }

    #[test]
    fn a_block_that_a_lost_tombstone_may_have_removed_may_be_lost() {
        let divided = [(VALUE, 10, 40), (VALUE, 50, 60), (TOMBSTONE, 10, 100), (VALUE, 70, 100)];
        let tables = |lost: &[usize]| [written(&[(VALUE, 10, 100)], &[]), written(&divided, lost)];
        for (from, to) in [(10, 30), (45, 45), (50, 60), (100, 100)] {
            assert!(!is_lost(&tables(&[]), from, to));
            assert!(is_lost(&tables(&[2]), from, to), "{from} to {to}");
        }
    }

    /// A metric's blocks, each of some parts of ten buckets.
    #[derive(Default)]
    struct History {
        /// Of each table, and of the one that is not ended.
        tables: Vec<BTreeMap<Key, (Kind, Vec<u8>)>>,
        entries: BTreeMap<Key, (Kind, Vec<u8>)>,
        /// By first part, and the part behind.
        live: BTreeMap<(i64, i64), Vec<u8>>,
        end: i64,
        writes: u32,
    }

    impl History {
        fn put(&mut self, (first, end): (i64, i64)) {
            self.writes += 1;
            let value = self.writes.to_be_bytes().to_vec();
            self.live.insert((first, end), value.clone());
            self.entries.insert(key(10 * first, 10 * end - 1), (VALUE, value));
        }

        fn remove(&mut self, (first, end): (i64, i64)) {
            self.live.remove(&(first, end));
            self.entries.insert(key(10 * first, 10 * end - 1), (TOMBSTONE, Vec::new()));
        }

        /// Adds a block behind all others, or removes the first one, or replaces some.
        fn step(&mut self, what: i64, which: usize) {
            let live: Vec<(i64, i64)> = self.live.keys().copied().collect();
            let start = which % live.len().max(1);
            let some = &live[start..live.len().min(start + 3)];
            match (what, some) {
                (0..3, _) => {
                    let block = (self.end, self.end + 1 + what);
                    self.end = block.1;
                    self.put(block);
                }
                (3, _) => live.iter().take(1).for_each(|block| self.remove(*block)),
                (4, [block, ..]) => self.put(*block),
                (5, [block, ..]) => {
                    self.remove(*block);
                    (block.0..block.1).for_each(|part| self.put((part, part + 1)));
                }
                (6, [first, .., last]) => {
                    for block in some {
                        self.remove(*block);
                    }
                    self.put((first.0, last.1));
                }
                (_, [block, ..]) => self.remove(*block),
                (_, []) => {}
            }
        }

        fn end_table(&mut self) {
            if !self.entries.is_empty() {
                self.tables.push(std::mem::take(&mut self.entries));
            }
        }

        /// The blocks of a range.
        fn blocks(&self, range: &BlockRange) -> Vec<(Key, Vec<u8>)> {
            let blocks = self.live.iter().map(|((first, end), value)| (key(10 * first, 10 * end - 1), value));
            let is_in = |(key, _): &(Key, &Vec<u8>)| {
                let block = name(key);
                block.first <= range.to && block.last >= range.from
            };
            blocks.filter(is_in).map(|(key, value)| (key, value.clone())).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        /// Blocks are divided, joined and removed, and a table loses entries. What comes later only adds blocks, or removes
        /// the oldest.
        #[test]
        fn the_newest_blocks_are_found_or_may_be_lost(
            steps in prop::collection::vec((0i64..8, 0usize..50, any::<bool>()), 1..40),
            lost in prop::collection::vec(0usize..50, 0..4),
            later in prop::collection::vec((0i64..4, any::<bool>()), 0..6),
        ) {
            let mut history = History::default();
            for (what, which, ends_table) in [(0, 0, false)].into_iter().chain(steps) {
                history.step(what, which);
                if ends_table {
                    history.end_table();
                }
            }
            history.end_table();
            let damaged = history.tables.len() - 1;
            for (what, ends_table) in later {
                history.step(what, 0);
                if ends_table {
                    history.end_table();
                }
            }
            history.end_table();
            let write = |(number, entries): (usize, &BTreeMap<Key, (Kind, Vec<u8>)>)| {
                let lost = lost.iter().filter(|_| number == damaged).map(|lost| lost % entries.len());
                let lost: BTreeSet<usize> = lost.collect();
                build(entries.iter().map(|(key, (kind, value))| (*key, *kind, &value[..])), lost)
            };
            let tables: Vec<Written> = history.tables.iter().enumerate().map(write).collect();
            for from in (-5..10 * history.end + 10).step_by(7) {
                for to in [from, from + 12, from + 60] {
                    let range = range(from, to);
                    let may_be_lost = is_lost(&tables, from, to);
                    prop_assert!(!may_be_lost || !lost.is_empty());
                    let value = |(key, block)| match block {
                        Block::Value(bytes) => (key, bytes.to_vec()),
                        Block::Unread | Block::Damaged(_) | Block::Newer(()) => unreachable!("whole values"),
                    };
                    let found: Vec<_> = collect(&tables, &range).blocks.into_iter().map(value).collect();
                    prop_assert!(may_be_lost || found == history.blocks(&range), "{} to {}", from, to);
                }
            }
        }
    }
}
