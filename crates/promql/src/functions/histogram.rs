//! Classic histograms: cumulative counts by upper bound.

use crate::numbers::almost_equal;

/// Relative differences of counts that come from rounding.
const TOLERANCE: f64 = 1e-12;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    pub upper_bound: f64,
    pub count: f64,
}

/// How counts had to be changed to be monotonic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Forced {
    pub bucket_min: f64,
    pub bucket_max: f64,
    pub difference_max: f64,
}

impl Forced {
    /// This change and another one.
    pub(crate) fn with(self, other: Forced) -> Forced {
        Forced {
            bucket_min: self.bucket_min.min(other.bucket_min),
            bucket_max: self.bucket_max.max(other.bucket_max),
            difference_max: self.difference_max.max(other.difference_max),
        }
    }
}

/// Sorts the buckets and merges equal bounds. `false` without a bucket with infinite bound.
fn prepare(buckets: &mut Vec<Bucket>) -> bool {
    buckets.sort_by(|a, b| a.upper_bound.total_cmp(&b.upper_bound));
    if buckets.last().is_none_or(|last| last.upper_bound != f64::INFINITY) {
        return false;
    }
    buckets.dedup_by(|later, earlier| {
        let same = later.upper_bound == earlier.upper_bound;
        if same {
            earlier.count += later.count;
        }
        same
    });
    true
}

/// Makes counts monotonic. Differences within the tolerance count as rounding and are not reported.
fn make_monotonic(buckets: &mut [Bucket]) -> Option<Forced> {
    let mut forced: Option<Forced> = None;
    let mut before = buckets[0].count;
    for bucket in &mut buckets[1..] {
        let count = bucket.count;
        if count == before {
            continue;
        }
        if almost_equal(before, count, TOLERANCE) {
            bucket.count = before;
        } else if count < before {
            bucket.count = before;
            let bound = bucket.upper_bound;
            let new = Forced { bucket_min: bound, bucket_max: bound, difference_max: before - count };
            forced = Some(forced.map_or(new, |known| known.with(new)));
        } else {
            before = count;
        }
    }
    forced
}

/// The quantile, by linear interpolation within its bucket.
pub(crate) fn quantile(q: f64, mut buckets: Vec<Bucket>) -> (f64, Option<Forced>) {
    if q.is_nan() {
        return (f64::NAN, None);
    }
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if !prepare(&mut buckets) {
        return (f64::NAN, None);
    }
    let forced = make_monotonic(&mut buckets);
    let last = buckets.len() - 1;
    let observations = buckets[last].count;
    if last == 0 || observations == 0.0 {
        return (f64::NAN, forced);
    }
    let rank = q * observations;
    // Counts may be NaN; the search then behaves like Go's binary search.
    let at = search(&buckets[..last], |bucket| bucket.count >= rank);
    let value = if at == last {
        buckets[last - 1].upper_bound
    } else if at == 0 && buckets[0].upper_bound <= 0.0 {
        buckets[0].upper_bound
    } else {
        let below = if at == 0 { Bucket { upper_bound: 0.0, count: 0.0 } } else { buckets[at - 1] };
        let width = buckets[at].upper_bound - below.upper_bound;
        below.upper_bound + width * ((rank - below.count) / (buckets[at].count - below.count))
    };
    (value, forced)
}

/// The first bucket that is accepted.
fn search(buckets: &[Bucket], accepted: impl Fn(&Bucket) -> bool) -> usize {
    let (mut low, mut high) = (0, buckets.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if accepted(&buckets[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The fraction of observations between two values, by linear interpolation within buckets.
pub(crate) fn fraction(lower: f64, upper: f64, mut buckets: Vec<Bucket>) -> f64 {
    if !prepare(&mut buckets) {
        return f64::NAN;
    }
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank_of(upper, &buckets, count) - rank_of(lower, &buckets, count)) / count
}

/// How many observations are below a value.
fn rank_of(value: f64, buckets: &[Bucket], count: f64) -> f64 {
    let mut rank = 0.0;
    let mut below = if buckets[0].upper_bound <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
    for bucket in buckets {
        if below >= value {
            return if rank > count { count } else { rank };
        }
        if bucket.upper_bound > value {
            let found = if below == f64::NEG_INFINITY {
                bucket.count
            } else {
                rank + (bucket.count - rank) * (value - below) / (bucket.upper_bound - below)
            };
            return if found > count { count } else { found };
        }
        rank = bucket.count;
        below = bucket.upper_bound;
    }
    count
}
