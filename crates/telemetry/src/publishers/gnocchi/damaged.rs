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
    /// Forgets expired metrics. Returns whether a metric is one of the others, which stay
    /// locked; `None` if there are none.
    pub fn known(&self, now: Instant) -> Option<impl Fn(MetricKey<'_>) -> bool> {
        let mut metrics = self.0.lock();
        metrics.retain(|_, expiry| *expiry > now);
        let has_metrics = !metrics.is_empty();
        has_metrics.then_some(move |metric: MetricKey<'_>| metrics.contains_key(&hash(metric)))
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

    /// Which of two metrics are known.
    fn known(metrics: &DamagedMetrics, now: Instant, keys: [MetricKey<'_>; 2]) -> [bool; 2] {
        let is_known = metrics.known(now);
        keys.map(|key| is_known.as_ref().is_some_and(|is_known| is_known(key)))
    }

    #[test]
    fn damaged_metrics_are_remembered_for_a_while() {
        let (metrics, begun) = (DamagedMetrics::default(), Instant::now());
        assert!(metrics.known(begun).is_none());
        metrics.insert(("a", 1), begun);
        metrics.insert(("a", 2), begun);
        metrics.insert(("a", 2), begun + REMEMBERED_FOR / 2);
        metrics.remove(("b", 2));
        assert_eq!(known(&metrics, begun, [("a", 1), ("a", 2)]), [true, true]);
        assert_eq!(known(&metrics, begun + REMEMBERED_FOR, [("a", 1), ("a", 2)]), [false, true]);
        metrics.remove(("a", 2));
        assert!(metrics.known(begun).is_none());
    }

    #[test]
    fn damaged_metrics_have_a_limit() {
        let (metrics, begun) = (DamagedMetrics::default(), Instant::now());
        for resource in 0..=METRICS_MAX {
            metrics.insert((&resource.to_string(), 0), begun);
        }
        assert_eq!(known(&metrics, begun, [("0", 0), (&METRICS_MAX.to_string(), 0)]), [true, false]);
        let later = begun + REMEMBERED_FOR;
        metrics.insert(("0", 0), later);
        assert_eq!(known(&metrics, later, [("0", 0), ("another", 0)]), [true, false]);
        metrics.insert(("another", 0), later);
        assert_eq!(known(&metrics, later, [("0", 0), ("another", 0)]), [true, true]);
    }
}
