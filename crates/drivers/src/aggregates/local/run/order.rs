//! The order of a run's entries.

use crate::aggregates::key::{KEY_BYTES, Key};

/// In which order entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the metric's id, as keys sort: format 1.
    Metrics,
    /// By the metric's id read from its last bit to its first. A sack is the id modulo the number of sacks: with any power of two
    /// the metrics of a sack lie side by side, also after a split, so that a pass reads heads that are neighbours.
    Sacks,
}

/// Where an entry lies among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place([u8; KEY_BYTES]);

impl Order {
    /// Of the runs that are written now.
    pub const NEW: Order = Order::Sacks;

    pub fn of_format(version: u32) -> Self {
        if version < 2 { Order::Metrics } else { Order::Sacks }
    }

    /// The number of its format.
    pub fn format(self) -> u32 {
        match self {
            Order::Metrics => 1,
            Order::Sacks => 2,
        }
    }

    pub fn place(self, key: &Key) -> Place {
        let mut bytes = *key.bytes();
        if self == Order::Sacks {
            let metric = key.metric().0.as_u128().reverse_bits();
            bytes[..16].copy_from_slice(&metric.to_be_bytes());
        }
        Place(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use gnudi_model::{MetricId, SackCount};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn sacks_lie_together_whatever_power_of_two_they_are() {
        let ids = (0..2_000_u128).map(|number| {
            MetricId(Uuid::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5678_9abc_def1)))
        });
        let mut metrics: Vec<MetricId> = ids.collect();
        metrics.sort_unstable_by_key(|metric| Order::Sacks.place(&Key::head(*metric)));
        for count in [1, 2, 128, 256, 1024] {
            let count = SackCount(NonZeroU16::new(count).unwrap());
            let mut sacks: Vec<_> = metrics.iter().map(|metric| count.sack_of(*metric)).collect();
            sacks.dedup();
            let changes = sacks.len();
            sacks.sort_unstable();
            sacks.dedup();
            assert_eq!(changes, sacks.len(), "{count:?}: a sack lies in several places");
        }
    }

    #[test]
    fn within_a_metric_keys_keep_their_order() {
        let metric = MetricId(Uuid::from_u128(1 << 100 | 5));
        let keys = [Key::deletion(metric), Key::head(metric), Key::last_of(metric)];
        for order in [Order::Metrics, Order::Sacks] {
            assert!(keys.is_sorted_by_key(|key| order.place(key)), "{order:?}");
        }
        let ends = [MetricId(Uuid::from_u128(2)), MetricId(Uuid::from_u128(1))];
        assert!(!ends.is_sorted());
        assert!(ends.is_sorted_by_key(|metric| Order::Sacks.place(&Key::head(*metric))));
    }
}
