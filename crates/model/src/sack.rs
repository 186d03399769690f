//! Sacks: the shards in which measures wait for processing.
//!
//! Their number can be doubled: sack `s` of `n` is split into the sacks `s` and `s + n` of `2n`.

use std::{fmt, num::NonZeroU16};

use crate::MetricId;

/// The number of sacks, 1 to 65,535 (`gnocchi-upgrade --sacks-number`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SackCount(pub NonZeroU16);

impl SackCount {
    /// Gnocchi's default.
    pub const DEFAULT: SackCount = SackCount(NonZeroU16::new(128).unwrap());

    pub fn get(self) -> u16 {
        self.0.get()
    }

    /// The sack of a metric: its id as a number, modulo the count, as in Gnocchi.
    pub fn sack_of(self, metric: MetricId) -> SackId {
        SackId((metric.0.as_u128() % u128::from(self.get())) as u16)
    }

    pub fn iter(self) -> impl Iterator<Item = SackId> {
        (0..self.get()).map(SackId)
    }

    /// All sacks of this count.
    pub fn sacks(self) -> impl Iterator<Item = Sack> {
        self.iter().map(move |id| Sack { count: self, id })
    }

    /// Twice as many; `None` if that exceeds the maximum.
    pub fn doubled(self) -> Option<SackCount> {
        self.0.checked_mul(NonZeroU16::new(2).expect("two is not zero")).map(SackCount)
    }

    /// Half as many; `None` for an odd count.
    pub fn halved(self) -> Option<SackCount> {
        if !self.get().is_multiple_of(2) {
            return None;
        }
        NonZeroU16::new(self.get() / 2).map(SackCount)
    }

    /// The greatest common divisor: two sacks of these counts share metrics if their numbers agree modulo it.
    pub fn common(self, other: SackCount) -> u16 {
        let (mut divisor, mut rest) = (self.get(), other.get());
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        divisor
    }
}

/// The number of a sack, below the [`SackCount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SackId(pub u16);

/// A sack: its number, and the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sack {
    pub count: SackCount,
    pub id: SackId,
}

impl Sack {
    pub fn of(metric: MetricId, count: SackCount) -> Self {
        Sack { count, id: count.sack_of(metric) }
    }

    pub fn contains(self, metric: MetricId) -> bool {
        self.count.sack_of(metric) == self.id
    }

    /// Whether a metric can be in both.
    pub fn intersects(self, other: Sack) -> bool {
        let common = self.count.common(other.count);
        self.id.0 % common == other.id.0 % common
    }

    /// The two sacks that replace it when the count is doubled.
    pub fn halves(self) -> Option<[Sack; 2]> {
        let count = self.count.doubled()?;
        Some([SackId(self.id.0), SackId(self.id.0 + self.count.get())].map(|id| Sack { count, id }))
    }
}

impl fmt::Display for Sack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.id.0, self.count.get())
    }
}

/// The current sacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// The count for new measures.
    pub count: SackCount,
    /// Set while the sacks of half the count may still hold older measures.
    pub draining: bool,
}

impl Numbering {
    pub fn settled(count: SackCount) -> Self {
        Numbering { count, draining: false }
    }

    /// The count by which sacks are owned and processed: during draining the old one, so that the owner of an old sack
    /// also owns its halves.
    pub fn units(self) -> SackCount {
        if self.draining { self.count.halved().expect("a doubled count is even") } else { self.count }
    }

    /// The sacks of a unit in processing order: an old one before its halves.
    pub fn sacks_of_unit(self, unit: SackId) -> Vec<Sack> {
        let unit = Sack { count: self.units(), id: unit };
        if !self.draining {
            return vec![unit];
        }
        let [low, high] = unit.halves().expect("the count was doubled");
        vec![unit, low, high]
    }

    /// The unit of a sack of the old or the new count.
    pub fn unit_of(self, sack: Sack) -> SackId {
        SackId(sack.id.0 % self.units().get())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn count(count: u16) -> SackCount {
        SackCount(NonZeroU16::new(count).unwrap())
    }

    proptest! {
        #[test]
        fn a_metric_of_a_sack_is_in_one_of_its_halves(id: u128, sacks in 1_u16..=32_767) {
            let metric = MetricId(Uuid::from_u128(id));
            let sack = Sack::of(metric, count(sacks));
            let halves = sack.halves().unwrap();
            prop_assert_eq!(halves.iter().filter(|half| half.contains(metric)).count(), 1);
            prop_assert!(halves.iter().all(|half| half.intersects(sack) && sack.intersects(*half)));
            prop_assert!(!halves[0].intersects(halves[1]));
        }

        /// Two sacks share a metric if and only if a number below the product of the counts is in both.
        #[test]
        fn sacks_intersect_where_a_number_lies_in_both(a in 1_u16..40, b in 1_u16..40, id: u16, other: u16) {
            let (one, two) = (Sack { count: count(a), id: SackId(id % a) }, Sack { count: count(b), id: SackId(other % b) });
            let shared = (0..u128::from(a) * u128::from(b))
                .map(|number| MetricId(Uuid::from_u128(number)))
                .any(|metric| one.contains(metric) && two.contains(metric));
            prop_assert_eq!(one.intersects(two), shared);
        }
    }

    #[test]
    fn units_are_the_old_sacks_while_they_drain() {
        let numbering = Numbering { count: count(8), draining: true };
        let unit = SackId(3);
        let shown: Vec<String> = numbering.sacks_of_unit(unit).iter().map(Sack::to_string).collect();
        assert_eq!(shown, ["3/4", "3/8", "7/8"]);
        assert!(numbering.sacks_of_unit(unit).iter().all(|sack| numbering.unit_of(*sack) == unit));
        assert_eq!(Numbering::settled(count(8)).sacks_of_unit(unit).len(), 1);
    }

    #[test]
    fn counts_double_and_halve() {
        assert_eq!(count(32_768).doubled(), None);
        assert_eq!(count(7).halved(), None);
        assert_eq!(count(7).doubled().and_then(SackCount::halved), Some(count(7)));
    }
}
