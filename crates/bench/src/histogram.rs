//! Latency histograms (`hdrhistogram`): constant memory.

use std::time::Duration;

use hdrhistogram::Histogram as Counts;

/// Of percentiles: the relative error is below a thousandth.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of durations, from nanoseconds to centuries; minimum, maximum and sum are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Counts<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = Counts::new(SIGNIFICANT_DIGITS).expect("a number of digits that there is");
        Histogram { counts, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Histogram {
    pub fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts.record(ns).expect("it grows as needed");
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        self.counts.add(&other.counts).expect("it grows as needed");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The latency at a share (0 to 1) of the way from the first to the last of the sorted calls, interpolated like in
    /// gnocchiclient, to within a bucket. Zero if empty.
    pub fn percentile(&self, share: f64) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        let place = (self.counts.len() - 1) as f64 * share;
        let (low, high) = (place.floor() as u64, place.ceil() as u64);
        let (low_ns, high_ns) = (self.at_rank(low), self.at_rank(high));
        Duration::from_nanos((low_ns + (high_ns - low_ns) * (place - low as f64)).round() as u64)
    }

    /// Zero if empty.
    pub fn mean(&self) -> Duration {
        let ns = self.sum_ns / u128::from(self.counts.len().max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Nanoseconds of the call with this rank, from 0: the middle of its bucket; minimum and maximum are exact.
    fn at_rank(&self, rank: u64) -> f64 {
        match rank {
            0 => return self.min_ns as f64,
            rank if rank + 1 >= self.counts.len() => return self.max_ns as f64,
            _ => {}
        }
        // Between two ranks, so that rounding cannot select the wrong one.
        let ns = self.counts.value_at_quantile((rank as f64 + 0.5) / self.counts.len() as f64);
        (self.counts.median_equivalent(ns) as f64).clamp(self.min_ns as f64, self.max_ns as f64)
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    /// Zero if empty.
    pub fn min(&self) -> Duration {
        if self.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.min_ns) }
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// The definition, on a sorted list.
    fn quantile(sorted: &[u64], share: f64) -> f64 {
        let place = (sorted.len() - 1) as f64 * share;
        let (low, high) = (sorted[place.floor() as usize] as f64, sorted[place.ceil() as usize] as f64);
        (low + (high - low) * (place - place.floor())) / 1e9
    }

    #[test]
    fn quantiles_of_a_million_are_those_of_the_sorted_list() {
        const TOLERANCE: f64 = 0.001;
        let mut random = Rng::with_seed(7);
        // From 20 us on, with a long tail: each doubling is half as likely.
        let mut draw = || (20_000 << random.u64(..).leading_zeros().min(12)) + random.u64(..1 << 16);
        for count in [1, 2, 3, 10, 1000, 1_000_000] {
            let mut list: Vec<u64> = (0..count).map(|_| draw()).collect();
            let mut histogram = Histogram::default();
            for &ns in &list {
                histogram.record(Duration::from_nanos(ns));
            }
            list.sort_unstable();
            for share in [0.0, 0.25, 0.5, 0.95, 0.99, 0.999, 1.0] {
                let (found, expected) = (histogram.percentile(share).as_secs_f64(), quantile(&list, share));
                assert!((found / expected - 1.0).abs() <= TOLERANCE, "{count}, {share}: {found}, {expected}");
            }
            assert_eq!(histogram.mean().as_nanos() as u64, list.iter().sum::<u64>() / count);
            assert_eq!(histogram.sum(), Duration::from_nanos(list.iter().sum()));
            assert_eq!((histogram.min(), histogram.max()).0, Duration::from_nanos(list[0]));
        }
    }

    #[test]
    fn merged_halves_are_the_whole() {
        let (mut odd, mut even) = (Histogram::default(), Histogram::default());
        for us in 1..=1000u64 {
            if us % 2 == 1 { &mut odd } else { &mut even }.record(Duration::from_micros(us));
        }
        odd.merge(&even);
        let found = odd.percentile(0.9).as_secs_f64() * 1e6;
        assert!((found / 900.0 - 1.0).abs() < 0.002, "{found}");
        assert_eq!((odd.min(), odd.max()), (Duration::from_micros(1), Duration::from_millis(1)));
        assert_eq!(Histogram::default().percentile(0.5), Duration::ZERO);
    }
}
