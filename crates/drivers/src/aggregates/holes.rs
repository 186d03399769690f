//! Determines which reads are affected by lost entries of a table.
//!
//! Of a lost entry only its neighbours' keys are known. Blocks of a granularity do not overlap, and newer
//! ones follow older ones. So a lost block lies between its neighbouring blocks, or before the first one that
//! was written later.

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
    /// Adds lost entries whose keys are greater than `before` (or equal, if `before` itself may be lost) and
    /// less than `behind`, in an order that keeps a metric's keys together and sorted.
    pub fn add(&mut self, range: &BlockRange, before: Before, behind: Option<Key>, place: String) {
        let (low, high) = Key::bounds(&BlockRange { from: Timestamp(i64::MIN), ..*range });
        let of_range = |key: Key| key.as_block().filter(|_| (low..=high).contains(&key));
        let from = match before {
            Before::Nothing => Timestamp(i64::MIN),
            Before::Whole(key) => of_range(key).map_or(Timestamp(i64::MIN), |block| after(block.last)),
            Before::Lost(key) => of_range(key).map_or(Timestamp(i64::MIN), |block| block.first),
        };
        let to = behind.and_then(of_range).map_or(Timestamp::MAX, |block| before_first(&block));
        self.0.push(Hole { from, to, place });
    }

    /// Records that `block` was written after everything lost so far.
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

fn after(time: Timestamp) -> Timestamp {
    Timestamp(time.0.saturating_add(1))
}

fn before_first(block: &BlockKey) -> Timestamp {
    Timestamp(block.first.0.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use gnudi_model::{MetricId, Timespan};
    use uuid::Uuid;

    use super::*;

    fn block(metric: u128, first: i64) -> BlockKey {
        let (first, last) = (Timestamp::from_secs(first), Timestamp::from_secs(first + 59));
        BlockKey {
            metric: MetricId(Uuid::from_u128(metric)),
            granularity: Timespan::from_secs(1),
            first,
            last,
        }
    }

    fn range(from: i64, to: i64) -> BlockRange {
        let BlockKey { metric, granularity, .. } = block(2, 0);
        BlockRange { metric, granularity, from: Timestamp::from_secs(from), to: Timestamp::from_secs(to) }
    }

    fn concerns(before: Before, behind: Option<Key>, later: &[i64], from: i64, to: i64) -> bool {
        let range = range(from, to);
        let mut holes = Holes::default();
        holes.add(&range, before, behind, String::new());
        for first in later {
            holes.later(&block(2, *first));
        }
        holes.places(&range).count() > 0
    }

    #[test]
    fn a_hole_concerns_what_may_have_been_between_its_neighbours() {
        let key = |first| Key::block(&block(2, first));
        let before = Before::Whole(key(60));
        assert!(!concerns(before, Some(key(180)), &[], 0, 119));
        assert!(concerns(before, Some(key(180)), &[], 0, 120));
        assert!(concerns(before, Some(key(180)), &[], 179, 500));
        assert!(!concerns(before, Some(key(180)), &[], 180, 500));
        let head = Before::Whole(Key::head(MetricId(Uuid::from_u128(2))));
        assert!(concerns(head, None, &[], 5000, 6000), "any block may have been the next one");
        assert!(concerns(head, Some(Key::head(MetricId(Uuid::from_u128(3)))), &[], 5000, 6000));
        assert!(!concerns(head, None, &[5000, 6000], 5000, 6000), "but not behind one that came later");
        assert!(concerns(head, None, &[5001], 5000, 6000));
        assert!(concerns(Before::Lost(key(60)), None, &[], 0, 60), "the first of a page");
        assert!(!concerns(Before::Lost(key(60)), None, &[], 0, 59));
        assert!(concerns(Before::Nothing, Some(key(60)), &[], 0, 10));
    }
}
