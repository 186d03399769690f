//! Metrics that the store fails on (500): their stored data are damaged. They are remembered, so that their measures are
//! posted apart and those of others do not wait for retries.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::hash::quick_hash;

/// How long a metric is remembered after its last failure.
const REMEMBERED_FOR: Duration = Duration::from_mins(10);

/// Metrics remembered at once. Batches with others that are damaged are bisected each time.
const METRICS_MAX: usize = 10_000;

/// A resource's id and a meter's number.
pub type MetricKey<'a> = (&'a str, u16);

/// By a metric's hash, when it expires. A collision posts a sound metric apart.
#[derive(Debug, Default)]
pub struct DamagedMetrics(Mutex<HashMap<u64, Instant>>);

impl DamagedMetrics {
    /// Removes expired metrics; returns whether any is left.
    pub fn expire(&self, now: Instant) -> bool {
        let mut metrics = self.0.lock();
        metrics.retain(|_, expiry| *expiry > now);
        !metrics.is_empty()
    }

    pub fn contains(&self, metric: MetricKey<'_>) -> bool {
        self.0.lock().contains_key(&hash(metric))
    }

    /// Remembers a metric, or remembers it for longer.
    pub fn insert(&self, metric: MetricKey<'_>, now: Instant) {
        let (mut metrics, key) = (self.0.lock(), hash(metric));
        if metrics.len() < METRICS_MAX || metrics.contains_key(&key) {
            metrics.insert(key, now + REMEMBERED_FOR);
        }
    }

    /// After the store has accepted its measures: it is repaired.
    pub fn remove(&self, metric: MetricKey<'_>) {
        self.0.lock().remove(&hash(metric));
    }
}

fn hash((resource, meter): MetricKey<'_>) -> u64 {
    quick_hash(resource.as_bytes(), u64::from(meter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_metrics_are_remembered_for_a_while() {
        let (metrics, begun) = (DamagedMetrics::default(), Instant::now());
        assert!(!metrics.expire(begun));
        metrics.insert(("a", 1), begun);
        metrics.insert(("a", 2), begun);
        metrics.insert(("a", 2), begun + REMEMBERED_FOR / 2);
        metrics.remove(("b", 2));
        assert!(metrics.expire(begun + REMEMBERED_FOR));
        assert_eq!([1, 2].map(|metric| metrics.contains(("a", metric))), [false, true]);
        metrics.remove(("a", 2));
        assert!(!metrics.expire(begun));
    }

    #[test]
    fn damaged_metrics_have_a_limit() {
        let (metrics, begun) = (DamagedMetrics::default(), Instant::now());
        for resource in 0..=METRICS_MAX {
            metrics.insert((&resource.to_string(), 0), begun);
        }
        assert!(metrics.contains(("0", 0)) && !metrics.contains((&METRICS_MAX.to_string(), 0)));
        metrics.insert(("0", 0), begun + REMEMBERED_FOR);
        assert!(metrics.expire(begun + REMEMBERED_FOR));
        metrics.insert(("another", 0), begun + REMEMBERED_FOR);
        assert!(metrics.contains(("0", 0)) && metrics.contains(("another", 0)));
    }
}
