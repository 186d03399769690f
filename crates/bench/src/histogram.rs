//! Latencies, counted in buckets whose width is at most 1/256 of their value: any number of them in the same memory.

use std::time::Duration;

/// Buckets to each doubling: the relative error of a percentile is below its inverse.
const STEPS: u64 = 256;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Enough for every u64 of nanoseconds.
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) * STEPS as usize;

/// A distribution of durations, from nanoseconds to centuries in 114 KiB; the smallest, the largest
/// and the sum are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
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
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
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

    /// The latency at a share (0 to 1) of the way from the first to the last of all calls in order, between two of them where it
    /// falls between: as gnocchiclient counts, to within a bucket. Seconds; zero where there are none.
    pub fn quantile_seconds(&self, share: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let place = (self.total - 1) as f64 * share;
        let (low, high) = (place.floor() as u64, place.ceil() as u64);
        let (low_ns, high_ns) = (self.at_rank(low), self.at_rank(high));
        (low_ns + (high_ns - low_ns) * (place - low as f64)).round() / 1e9
    }

    /// Zero where there are none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum_ns / u128::from(self.total.max(1))).unwrap_or(u64::MAX))
    }

    /// Nanoseconds of the call of this rank, counted from 0: the middle of its bucket, the ends exactly.
    fn at_rank(&self, rank: u64) -> f64 {
        match rank {
            0 => return self.min_ns as f64,
            rank if rank + 1 >= self.total => return self.max_ns as f64,
            _ => {}
        }
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen > rank {
                let (low, top) =
                    (bucket.checked_sub(1).map_or(0, |before| top_of(before) + 1), top_of(bucket));
                return (low as f64).midpoint(top as f64).clamp(self.min_ns as f64, self.max_ns as f64);
            }
        }
        unreachable!("the counts add up to their total")
    }

    /// Of all calls together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    /// Zero where there are none.
    pub fn min(&self) -> Duration {
        if self.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.min_ns) }
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

    /// The definition, on a sorted list.
    fn quantile(sorted: &[u64], share: f64) -> f64 {
        let place = (sorted.len() - 1) as f64 * share;
        let (low, high) = (sorted[place.floor() as usize] as f64, sorted[place.ceil() as usize] as f64);
        (low + (high - low) * (place - place.floor())) / 1e9
    }

    #[test]
    fn quantiles_of_a_million_are_those_of_the_sorted_list() {
        const TOLERANCE: f64 = 1.0 / STEPS as f64;
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // From 20 us on, with a long tail: each further doubling is half as likely.
            let tail = (state | 1 << 62).leading_zeros().max((state << 8 | 1).leading_zeros());
            (20_000 << tail.min(12)) + (state >> 48)
        };
        for count in [1, 2, 3, 10, 1000, 1_000_000] {
            let mut list: Vec<u64> = (0..count).map(|_| draw()).collect();
            let mut histogram = Histogram::default();
            for &ns in &list {
                histogram.record(Duration::from_nanos(ns));
            }
            list.sort_unstable();
            for share in [0.0, 0.25, 0.5, 0.95, 0.99, 0.999, 1.0] {
                let (found, expected) = (histogram.quantile_seconds(share), quantile(&list, share));
                assert!((found / expected - 1.0).abs() <= TOLERANCE, "{count}, {share}: {found}, {expected}");
            }
            assert_eq!(histogram.mean().as_nanos() as u64, list.iter().sum::<u64>() / count);
            assert_eq!(histogram.sum(), Duration::from_nanos(list.iter().sum()));
            assert_eq!((histogram.min(), histogram.max()).0, Duration::from_nanos(list[0]));
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
        assert_eq!(odd.percentile(0.0), Duration::from_nanos(1001));
        assert_eq!(odd.max(), Duration::from_millis(1));
        assert_eq!(Histogram::default().percentile(0.5), Duration::ZERO);
        assert!(Histogram::default().is_empty());
    }
}
