//! The statistics of one bucket, with numpy's bits.
//!
//! Sums are added one after the other from 0.0, as numpy's `bincount` adds them; std goes over the values twice, has
//! ddof 1 and is absent for one value. Sorting puts NaN last: a NaN is the maximum, and the minimum only of NaNs. Among
//! equal values (0.0 and -0.0) the minimum is the earliest and the maximum the latest; numpy leaves that open.

use gnudi_model::{AggregationMethod, Statistic};

use crate::rows::absent;

/// Buffers that live from bucket to bucket.
#[derive(Debug, Default)]
pub struct Scratch {
    sorted: Vec<f64>,
}

/// Appends one value for each method to `out`, looking only at its statistic. `values` are the bucket's, in time order,
/// at least one. `offset` is how many values the series has before this bucket: Gnocchi interpolates percentiles at
/// positions in the whole series, and the position's rounding shows in the last digits.
pub fn push_row<V>(
    values: V,
    methods: &[AggregationMethod],
    offset: u64,
    scratch: &mut Scratch,
    out: &mut Vec<f64>,
) where
    V: Iterator<Item = f64> + Clone,
{
    let summary = Summary::of(values.clone());
    scratch.sorted.clear();
    for method in methods {
        out.push(match method.statistic {
            Statistic::Mean => summary.mean(),
            Statistic::Sum => summary.sum,
            Statistic::Last => summary.last,
            Statistic::Max => summary.max,
            Statistic::Min => summary.min,
            Statistic::Std => std(&summary, values.clone()),
            Statistic::First => summary.first,
            Statistic::Count => summary.count as f64,
            Statistic::Median => median(scratch.sorted(values.clone())),
            Statistic::Percentile(percent) => percentile(scratch.sorted(values.clone()), percent, offset),
        });
    }
}

/// One statistic of one bucket, `None` for a std of one value; arguments as for [`push_row`].
pub fn statistic<V>(values: V, statistic: Statistic, offset: u64, scratch: &mut Scratch) -> Option<f64>
where
    V: Iterator<Item = f64> + Clone,
{
    let mut row = Vec::with_capacity(1);
    push_row(values, &[AggregationMethod::new(statistic)], offset, scratch, &mut row);
    (!crate::rows::is_absent(row[0]) || statistic != Statistic::Std).then_some(row[0])
}

impl Scratch {
    fn sorted(&mut self, values: impl Iterator<Item = f64>) -> &[f64] {
        if self.sorted.is_empty() {
            self.sorted.extend(values);
            self.sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
        }
        &self.sorted
    }
}

/// What one walk over the values gives.
struct Summary {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    first: f64,
    last: f64,
}

impl Summary {
    fn of(mut values: impl Iterator<Item = f64>) -> Self {
        let first = values.next().expect("a bucket has values");
        let mut summary = Summary { count: 1, sum: 0.0 + first, min: first, max: first, first, last: first };
        for value in values {
            summary.count += 1;
            summary.sum += value;
            if value < summary.min || (summary.min.is_nan() && !value.is_nan()) {
                summary.min = value;
            }
            if value >= summary.max || value.is_nan() {
                summary.max = value;
            }
            summary.last = value;
        }
        summary
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

fn std(summary: &Summary, values: impl Iterator<Item = f64>) -> f64 {
    if summary.count < 2 {
        return absent();
    }
    let mean = summary.mean();
    let squares = values.fold(0.0, |sum, value| {
        let distance = value - mean;
        sum + distance * distance
    });
    (squares / (summary.count - 1) as f64).sqrt()
}

fn median(sorted: &[f64]) -> f64 {
    let low = sorted.len() - 1 - sorted.len() / 2;
    let high = sorted.len() / 2;
    // Not `f64::midpoint`: what overflows here overflows in numpy.
    #[allow(clippy::manual_midpoint)]
    let middle = (sorted[low] + sorted[high]) / 2.0;
    middle
}

fn percentile(sorted: &[f64], percent: u8, offset: u64) -> f64 {
    let offset = offset as f64;
    let position = offset + (sorted.len() - 1) as f64 * (f64::from(percent) / 100.0);
    let (floor, ceil) = (position.floor(), position.ceil());
    let at = |position: f64| sorted[((position - offset) as usize).min(sorted.len() - 1)];
    if floor == ceil {
        return at(floor);
    }
    at(floor) * (ceil - position) + at(ceil) * (position - floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], name: &str, offset: u64) -> Option<f64> {
        let method: AggregationMethod = name.parse().unwrap();
        statistic(values.iter().copied(), method.statistic, offset, &mut Scratch::default())
    }

    #[test]
    fn statistics_of_a_bucket() {
        let values = [3.0, 1.0, 2.0, 10.0];
        for (name, expected) in [
            ("mean", 4.0),
            ("sum", 16.0),
            ("last", 10.0),
            ("max", 10.0),
            ("min", 1.0),
            ("std", 4.082_482_904_638_63),
            ("median", 2.5),
            ("first", 3.0),
            ("count", 4.0),
            ("50pct", 2.5),
            ("90pct", 7.900_000_000_000_001),
        ] {
            assert_eq!(of(&values, name, 0), Some(expected), "{name}");
        }
        assert_eq!(of(&[1.0], "std", 0), None);
        assert_eq!(of(&[5.0, 1.0, 9.0], "median", 0), Some(5.0));
    }

    #[test]
    fn odd_values_follow_numpy() {
        assert!(of(&[1.0, f64::NAN, 2.0], "max", 0).unwrap().is_nan());
        assert_eq!(of(&[f64::NAN, 1.0, f64::NAN], "min", 0), Some(1.0));
        assert!(of(&[f64::NAN], "min", 0).unwrap().is_nan());
        // The sum starts from 0.0.
        assert_eq!(of(&[-0.0], "sum", 0).map(f64::to_bits), Some(0));
        assert_eq!(of(&[-0.0], "last", 0).map(f64::to_bits), Some((-0.0f64).to_bits()));
        // Twice the largest number overflows on the way to the median.
        assert_eq!(of(&[f64::MAX], "median", 0), Some(f64::INFINITY));
        assert_eq!(of(&[f64::MAX], "50pct", 0), Some(f64::MAX));
    }

    #[test]
    fn a_percentile_depends_on_its_place_in_the_series() {
        // numpy: 1000 + 1 * 0.3 is 1000.3, whose fraction is 0.29999999999995453.
        assert_eq!(of(&[10.0, 11.0], "30pct", 0), Some(10.3));
        assert_eq!(of(&[10.0, 11.0], "30pct", 1000), Some(10.299_999_999_999_955));
    }
}
