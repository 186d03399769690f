//! Keys and their order: by group of metrics, then metric, granularity and time.
//!
//! ```text
//! metric id 16 bytes | granularity u64 | last bucket u64 | first bucket u64      big-endian
//! ```
//!
//! A group is the id modulo [`GROUPS`]. Within a group keys sort as their bytes: the first bits of an id are its
//! creation time, so metrics that were created together, which are usually measured together, are neighbours. A
//! pass over a sack reads neighbouring heads.
//!
//! Signed numbers have their sign bit flipped, so that they sort as bytes. A block has a positive granularity, or 0 if
//! it has raw points, and so 2^63 or more in the field of the key. Other entries have small numbers in that field: 0
//! "the metric was deleted", 1 the head, 2 "blocks of the metric were lost". So a metric's marks, head and blocks are
//! neighbours, and the blocks of one granularity are one range. Blocks are ordered by their last bucket: those that
//! are not removed do not overlap, and a scan starts at "ends at or after".

use std::cmp::Ordering;

use gnudi_model::{MetricId, Timespan, Timestamp};
use uuid::Uuid;

use crate::aggregates::{BlockKey, BlockRange};

pub const KEY_BYTES: usize = 40;

/// Part of the format of tables. Equals the default number of sacks: then a group is a sack. With half as many sacks
/// a sack is two groups, with twice as many every other metric of a group.
const GROUPS: u8 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u8; KEY_BYTES]);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.group().cmp(&other.group()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

const DELETION: u64 = 0;
const HEAD: u64 = 1;
const LOSS: u64 = 2;

impl Key {
    pub const SMALLEST: Key = Key([0; KEY_BYTES]);

    /// Of the mark that hides everything written for the metric before.
    pub fn deletion(metric: MetricId) -> Self {
        Self::new(metric, DELETION, 0, 0)
    }

    pub fn head(metric: MetricId) -> Self {
        Self::new(metric, HEAD, 0, 0)
    }

    /// Of the mark that blocks of the metric with unknown keys were lost.
    pub fn loss(metric: MetricId) -> Self {
        Self::new(metric, LOSS, 0, 0)
    }

    pub fn block(key: &BlockKey) -> Self {
        assert!(key.granularity.0 >= 0, "a granularity of {:?}", key.granularity);
        Self::new(key.metric, flip(key.granularity.0), flip(key.last.0), flip(key.first.0))
    }

    /// The smallest and largest key that a block of the range can have; the caller must check where blocks
    /// begin.
    pub fn bounds(range: &BlockRange) -> (Self, Self) {
        let granularity = flip(range.granularity.0.max(0));
        (
            Self::new(range.metric, granularity, flip(range.from.0), 0),
            Self::new(range.metric, granularity, u64::MAX, u64::MAX),
        )
    }

    /// The largest key of a metric.
    pub fn last_of(metric: MetricId) -> Self {
        Self::new(metric, u64::MAX, u64::MAX, u64::MAX)
    }

    fn new(metric: MetricId, granularity: u64, last: u64, first: u64) -> Self {
        let mut bytes = [0; KEY_BYTES];
        bytes[..16].copy_from_slice(metric.0.as_bytes());
        bytes[16..24].copy_from_slice(&granularity.to_be_bytes());
        bytes[24..32].copy_from_slice(&last.to_be_bytes());
        bytes[32..40].copy_from_slice(&first.to_be_bytes());
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub fn metric(&self) -> MetricId {
        MetricId(Uuid::from_bytes(self.0[..16].try_into().expect("sixteen bytes")))
    }

    pub fn is_head(&self) -> bool {
        self.0[16..24] == HEAD.to_be_bytes()
    }

    pub fn is_deletion(&self) -> bool {
        self.number(16) == DELETION
    }

    pub fn is_loss(&self) -> bool {
        self.number(16) == LOSS
    }

    /// Whether it is a mark: a deletion or a loss.
    pub fn is_mark(&self) -> bool {
        matches!(self.number(16), DELETION | LOSS)
    }

    /// The block's key; `None` for a head or a mark.
    pub fn as_block(&self) -> Option<BlockKey> {
        (self.number(16) > LOSS).then(|| BlockKey {
            metric: self.metric(),
            granularity: Timespan(unflip(self.number(16))),
            last: Timestamp(unflip(self.number(24))),
            first: Timestamp(unflip(self.number(32))),
        })
    }

    fn group(&self) -> u8 {
        self.0[15] % GROUPS
    }

    fn number(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
}

fn flip(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

fn unflip(number: u64) -> i64 {
    (number ^ 1 << 63) as i64
}

#[cfg(test)]
mod tests {
    use gnudi_model::SackCount;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_sort_as_what_they_name(
            left in (0u128..3, 0i64..3, any::<i64>(), any::<i64>()),
            right in (0u128..3, 0i64..3, any::<i64>(), any::<i64>()),
        ) {
            let name = |(id, granularity, last, first)| BlockKey {
                metric: MetricId(Uuid::from_u128(id)),
                granularity: Timespan(granularity),
                first: Timestamp(first),
                last: Timestamp(last),
            };
            let (left_key, right_key) = (Key::block(&name(left)), Key::block(&name(right)));
            prop_assert_eq!(left_key.cmp(&right_key), left.cmp(&right));
            prop_assert_eq!(left_key.as_block(), Some(name(left)));
            prop_assert_eq!(left_key.metric(), name(left).metric);
            let metric = name(left).metric;
            prop_assert!(Key::deletion(metric) < Key::head(metric) && Key::head(metric) < left_key);
            prop_assert!(Key::head(metric) < Key::loss(metric) && Key::loss(metric) < left_key);
            prop_assert!(left_key < Key::last_of(metric));
            prop_assert_eq!(Key::head(metric).as_block(), None);
            prop_assert_eq!(Key::loss(metric).as_block(), None);
            prop_assert!(Key::deletion(metric).is_deletion() && !Key::head(metric).is_deletion());
        }
    }

    #[test]
    fn a_sack_lies_together_in_the_order_of_creation() {
        let random = |number: u128| number.wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5678_9abc_def1);
        let metric = |number: u128| MetricId::new(Timestamp(number as i64 * 1_000_000_000), random(number));
        let mut keys: Vec<Key> = (0..5_000).map(|number| Key::head(metric(number))).collect();
        keys.sort_unstable();
        let sack = |key: &Key| SackCount::DEFAULT.sack_of(key.metric());
        let is_created_later = |pair: &[Key]| pair[0].metric() < pair[1].metric();
        assert!(keys.windows(2).all(|pair| sack(&pair[0]) != sack(&pair[1]) || is_created_later(pair)));
        let mut sacks: Vec<_> = keys.iter().map(sack).collect();
        sacks.dedup();
        let changes = sacks.len();
        sacks.sort_unstable();
        sacks.dedup();
        assert_eq!(changes, sacks.len(), "a sack lies in several places");
    }
}
