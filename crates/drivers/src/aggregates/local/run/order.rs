//! The order of a run's entries.

use crate::aggregates::key::{KEY_BYTES, Key};

/// The sort order of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the metric's id, as keys sort.
    Metrics,
    /// By the metric's id read from its last bit to its first.
    ReversedMetrics,
    /// By the id modulo [`GROUPS`], then by the id, whose first bits are its creation time: metrics created
    /// together are usually measured together, so a pass over a sack reads neighbouring heads.
    Groups,
}

/// Part of the format. Equals the default number of sacks: then a group is a sack. With half as many sacks a
/// sack is two groups, with twice as many every other metric of a group.
const GROUPS: u128 = 128;

/// An entry's sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    group: u16,
    metric: u128,
    within: [u8; KEY_BYTES - 16],
}

impl Order {
    /// The order of new runs.
    pub const NEW: Order = Order::Groups;
    const ALL: [Order; 3] = [Order::Groups, Order::ReversedMetrics, Order::Metrics];

    /// The order of a run with unknown format: one in which these keys are sorted.
    pub fn of_keys(keys: &[Key]) -> Self {
        let fits = |order: &Order| keys.is_sorted_by_key(|key| order.place(key));
        Self::ALL.into_iter().find(fits).unwrap_or(Order::NEW)
    }

    pub fn of_format(version: u32) -> Self {
        match version {
            0 | 1 => Order::Metrics,
            2 => Order::ReversedMetrics,
            _ => Order::Groups,
        }
    }

    /// The format version.
    pub const fn format(self) -> u32 {
        match self {
            Order::Metrics => 1,
            Order::ReversedMetrics => 2,
            Order::Groups => 3,
        }
    }

    pub fn place(self, key: &Key) -> Place {
        let metric = key.metric().0.as_u128();
        let (group, metric) = match self {
            Order::Metrics => (0, metric),
            Order::ReversedMetrics => (0, metric.reverse_bits()),
            Order::Groups => ((metric % GROUPS) as u16, metric),
        };
        Place { group, metric, within: key.bytes()[16..].try_into().expect("what follows the id") }
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{MetricId, SackCount, Timestamp};
    use uuid::Uuid;

    use super::*;

    /// Created in sequence, a second apart.
    fn metrics(count: u128) -> Vec<MetricId> {
        let random = |number: u128| number.wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5678_9abc_def1);
        (0..count)
            .map(|number| MetricId::new(Timestamp(number as i64 * 1_000_000_000), random(number)))
            .collect()
    }

    fn in_order(metrics: &[MetricId]) -> Vec<MetricId> {
        let mut sorted = metrics.to_vec();
        sorted.sort_unstable_by_key(|metric| Order::Groups.place(&Key::head(*metric)));
        sorted
    }

    #[test]
    fn a_sack_lies_together_in_the_order_of_creation() {
        let sorted = in_order(&metrics(5_000));
        let mut sacks: Vec<_> = sorted.iter().map(|metric| SackCount::DEFAULT.sack_of(*metric)).collect();
        assert!(
            sorted.windows(2).all(|pair| sacks_differ(pair) || pair[0] < pair[1]),
            "a sack's metrics lie in the order of their ids"
        );
        sacks.dedup();
        let changes = sacks.len();
        sacks.sort_unstable();
        sacks.dedup();
        assert_eq!(changes, sacks.len(), "a sack lies in several places");
    }

    fn sacks_differ(pair: &[MetricId]) -> bool {
        SackCount::DEFAULT.sack_of(pair[0]) != SackCount::DEFAULT.sack_of(pair[1])
    }

    #[test]
    fn an_unknown_order_is_told_by_the_keys() {
        let mut keys: Vec<Key> = metrics(200).into_iter().map(Key::head).collect();
        for order in Order::ALL {
            keys.sort_unstable_by_key(|key| order.place(key));
            assert_eq!(Order::of_keys(&keys), order);
            assert_eq!(Order::of_format(order.format()), order);
        }
    }

    #[test]
    fn within_a_metric_keys_keep_their_order() {
        let metric = MetricId(Uuid::from_u128(1 << 100 | 5));
        let keys = [Key::deletion(metric), Key::head(metric), Key::last_of(metric)];
        for order in Order::ALL {
            assert!(keys.is_sorted_by_key(|key| order.place(key)), "{order:?}");
        }
        let ends = [MetricId(Uuid::from_u128(2)), MetricId(Uuid::from_u128(1))];
        assert!(ends.is_sorted_by_key(|metric| Order::ReversedMetrics.place(&Key::head(*metric))));
    }
}
