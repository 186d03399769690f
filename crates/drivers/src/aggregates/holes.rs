//! Blocks that may have been lost, by their keys: which reads do they concern?
//!
//! Of an entry that is gone, only its neighbours' keys are known. Blocks of a granularity do not overlap, and a newer one lies
//! behind the older ones. So what is lost lies between the blocks beside it, or before the first one that was written later.

use gnudi_model::Timestamp;

use super::{BlockKey, BlockRange, key::Key};

/// What may be lost of the blocks of one metric and granularity.
#[derive(Debug)]
struct Hole {
    /// The earliest bucket that may be lost, and the latest.
    from: Timestamp,
    to: Timestamp,
    /// For messages.
    place: String,
}

/// What may be lost of the blocks that a range selects.
#[derive(Debug, Default)]
pub struct Holes(Vec<Hole>);

impl Holes {
    /// Adds entries that were lost, whose keys are larger than `before` (or the same, where `before` may be lost itself) and
    /// smaller than `behind`, in an order in which a metric's keys lie together as they sort.
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

    /// A block of the range was written later than all that was lost so far.
    pub fn later(&mut self, block: &BlockKey) {
        for hole in self.0.iter_mut().filter(|hole| hole.from < block.first) {
            hole.to = hole.to.min(before_first(block));
        }
    }

    /// The range in which to look for all that tells where the holes are: blocks in front of a range bound them as well. `None`
    /// where nothing is lost, or that is the range.
    pub fn wider(&self, range: &BlockRange) -> Option<BlockRange> {
        let from = Timestamp(i64::MIN);
        (!self.0.is_empty() && range.from > from).then_some(BlockRange { from, ..*range })
    }

    /// Where something of the range may have been lost.
    pub fn places(self, range: &BlockRange) -> impl Iterator<Item = String> {
        let (from, to) = (range.from, range.to);
        self.0.into_iter().filter(move |hole| hole.from <= to && hole.to >= from).map(|hole| hole.place)
    }
}

/// What is in front of a hole.
#[derive(Clone, Copy, Debug)]
pub enum Before {
    Nothing,
    Whole(Key),
    /// What is lost begins with this key or a larger one.
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
