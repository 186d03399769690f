//! Determines which reads are affected by lost entries of a table.
//!
//! Of a lost entry only its neighbours' keys are known. Blocks of a granularity do not overlap unless they are removed, and
//! newer ones follow older ones unless they replace some. So a lost block lies between its neighbouring blocks, or before the
//! first one that was written later and replaces none. A removed block is no such bound: it may overlap what replaced it, and
//! the oldest blocks are removed while newer ones are kept. (One that replaces lost blocks only is taken for a new one.)

use gnudi_model::Timestamp;

use super::{BlockKey, BlockRange, key::Key};

/// The blocks of one metric and granularity that may be lost.
#[derive(Debug)]
struct Hole {
    /// The earliest and the latest bucket that may be lost.
    from: Timestamp,
    to: Timestamp,
    /// Where the entries were lost, for messages.
    place: String,
}

/// The lost blocks that may affect a range.
#[derive(Debug, Default)]
pub struct Holes(Vec<Hole>);

impl Holes {
    /// Adds lost blocks: they end at `from` or later, and begin at `to` or earlier.
    pub fn add(&mut self, from: Timestamp, to: Timestamp, place: String) {
        self.0.push(Hole { from, to, place });
    }

    /// Records that `block` follows everything lost so far.
    pub fn later(&mut self, block: &BlockKey) {
        for hole in self.0.iter_mut().filter(|hole| hole.from < block.first) {
            hole.to = hole.to.min(before_first(block));
        }
    }

    /// The range to read in order to locate the holes: blocks before `range` bound them, too. `None` if
    /// nothing is lost or `range` suffices.
    pub fn wider(&self, range: &BlockRange) -> Option<BlockRange> {
        let from = Timestamp(i64::MIN);
        (!self.0.is_empty() && range.from > from).then_some(BlockRange { from, ..*range })
    }

    /// Where blocks of the range may have been lost.
    pub fn places(self, range: &BlockRange) -> impl Iterator<Item = String> {
        let (from, to) = (range.from, range.to);
        self.0.into_iter().filter(move |hole| hole.from <= to && hole.to >= from).map(|hole| hole.place)
    }
}

/// What precedes a hole.
#[derive(Clone, Copy, Debug)]
pub enum Before {
    Nothing,
    Whole(Key),
    /// The lost entries begin with this key or a greater one.
    Lost(Key),
}

/// The first time behind a block.
pub fn after_last(block: &BlockKey) -> Timestamp {
    Timestamp(block.last.0.saturating_add(1))
}

/// The last time before a block.
pub fn before_first(block: &BlockKey) -> Timestamp {
    Timestamp(block.first.0.saturating_sub(1))
}
