//! Sacks: the shards in which measures wait for a worker.

use std::num::NonZeroU16;

use crate::MetricId;

/// How many sacks there are, 1 to 65,535 (`gnocchi-upgrade --sacks-number`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// The number of a sack, below the [`SackCount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SackId(pub u16);
