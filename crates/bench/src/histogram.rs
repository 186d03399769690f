//! Latencies, counted in buckets whose width is at most 1/32 of their value.

use std::time::Duration;

/// Buckets to each doubling: the relative error of a percentile is below its inverse.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Enough for every u64 of nanoseconds.
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) * STEPS as usize;

/// A distribution of durations, from nanoseconds to centuries in 15 KiB.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, max_ns: 0 }
    }
}

/// Small values have a bucket each; from [`STEPS`] on, the highest bits choose.
fn bucket_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEP_BITS;
    ((u64::from(shift) + 1) * STEPS + (ns >> shift) - STEPS) as usize
}

/// The highest value that falls into the bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let low = (bucket % STEPS + STEPS) << shift;
    low + ((1 << shift) - 1)
}

impl Histogram {
    pub fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(ns)] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The latency that `share` (0 to 1) of all calls did not exceed; zero where there are none.
    pub fn percentile(&self, share: f64) -> Duration {
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(top_of(bucket).min(self.max_ns));
            }
        }
        Duration::ZERO
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_and_stay_narrow() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let top = top_of(bucket);
            assert_eq!(bucket_of(next), bucket, "the bucket starts where the last one ended");
            assert_eq!(bucket_of(top), bucket);
            assert!((top - next) as f64 <= next as f64 / STEPS as f64, "bucket {bucket}: {next} to {top}");
            if bucket + 1 < BUCKETS {
                next = top + 1;
            } else {
                assert_eq!(top, u64::MAX);
            }
        }
    }

    #[test]
    fn percentiles_of_a_known_distribution() {
        let mut odd = Histogram::default();
        let mut even = Histogram::default();
        for us in 1..=1000u64 {
            if us % 2 == 1 { &mut odd } else { &mut even }.record(Duration::from_micros(us));
        }
        odd.merge(&even);
        for (share, us) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = odd.percentile(share).as_secs_f64() * 1e6;
            assert!(found >= us && found <= us * (1.0 + 1.0 / STEPS as f64), "{share}: {found}");
        }
        assert_eq!(odd.percentile(0.0), Duration::from_nanos(1007));
        assert_eq!(odd.max(), Duration::from_millis(1));
        assert_eq!(Histogram::default().percentile(0.5), Duration::ZERO);
        assert!(Histogram::default().is_empty());
    }
}
