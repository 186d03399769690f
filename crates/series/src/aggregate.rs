//! The statistics of a series' buckets, bit for bit as numpy computes them.
//!
//! Sums accumulate in order from 0.0, as in numpy's `bincount`. std takes two passes, has ddof 1 and is
//! absent for one value. NaN sorts last: it is the maximum if present, and the minimum only if all values are
//! NaN. Among equal values (0.0 and -0.0) the minimum is the earliest and the maximum the latest; numpy
//! leaves that open.

use gnudi_model::{AggregationMethod, Statistic};

use crate::rows::absent;

/// A bucket: a range of a series' values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub start: i64,
    pub from: usize,
    pub to: usize,
    /// How many values the series has before this bucket. Gnocchi interpolates percentiles at positions in
    /// the whole series, and the rounding of the position shows in the last digits.
    pub offset: u64,
}

/// A series cut into buckets, and buffers that are reused for each series. One loop computes a statistic for
/// all buckets: choosing the statistic costs more than computing most of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    /// In time order.
    pub values: Vec<f64>,
    /// In time order; one may be empty.
    pub buckets: Vec<Bucket>,
    summaries: Vec<Summary>,
    /// The values, sorted inside each bucket.
    sorted: Vec<f64>,
}

impl Workspace {
    /// One bucket with all values.
    pub fn whole(values: Vec<f64>) -> Self {
        let bucket = Bucket { start: 0, from: 0, to: values.len(), offset: 0 };
        Workspace { values, buckets: vec![bucket], ..Self::default() }
    }

    /// The buckets; the values of each series follow.
    pub fn with_buckets(buckets: Vec<Bucket>) -> Self {
        Workspace { buckets, ..Self::default() }
    }

    pub fn clear(&mut self) {
        self.values.clear();
        self.buckets.clear();
    }

    /// Appends one value for each bucket to the column of each method; reads only the method's statistic, not
    /// its rate. Missing values are marked as absent: the std of one value, any statistic of none.
    pub fn push_columns(&mut self, methods: &[AggregationMethod], columns: &mut [Vec<f64>]) {
        self.summaries.clear();
        let values = &self.values;
        self.summaries.extend(self.buckets.iter().map(|bucket| Summary::of(&values[bucket.from..bucket.to])));
        self.sorted.clear();
        for (method, column) in methods.iter().zip(columns) {
            match method.statistic {
                Statistic::Mean => self.push_simple(column, Summary::mean),
                Statistic::Sum => self.push_simple(column, |summary| summary.sum),
                Statistic::Last => self.push_simple(column, |summary| summary.last),
                Statistic::Max => self.push_simple(column, |summary| summary.max),
                Statistic::Min => self.push_simple(column, |summary| summary.min),
                Statistic::First => self.push_simple(column, |summary| summary.first),
                Statistic::Count => self.push_simple(column, |summary| summary.count as f64),
                Statistic::Std => self.push_std(column),
                Statistic::Median => self.push_sorted(column, |sorted, _| median(sorted)),
                Statistic::Increase | Statistic::RateReset => {
                    unreachable!("those of counters need the times of points: crate::counter")
                }
                Statistic::Percentile(percent) => {
                    self.push_sorted(column, |sorted, offset| percentile(sorted, percent, offset));
                }
            }
        }
    }

    fn push_simple(&self, column: &mut Vec<f64>, of: impl Fn(&Summary) -> f64) {
        let value = |summary: &Summary| if summary.count == 0 { absent() } else { of(summary) };
        column.extend(self.summaries.iter().map(value));
    }

    fn push_std(&self, column: &mut Vec<f64>) {
        let of = |(bucket, summary): (&Bucket, &Summary)| std(summary, &self.values[bucket.from..bucket.to]);
        column.extend(self.buckets.iter().zip(&self.summaries).map(of));
    }

    fn push_sorted(&mut self, column: &mut Vec<f64>, of: impl Fn(&[f64], u64) -> f64) {
        if self.sorted.is_empty() {
            self.sorted.extend_from_slice(&self.values);
            for bucket in &self.buckets {
                let nan_last = |a: &f64, b: &f64| a.is_nan().cmp(&b.is_nan());
                self.sorted[bucket.from..bucket.to]
                    .sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| nan_last(a, b)));
            }
        }
        column.extend(self.buckets.iter().map(|bucket| match &self.sorted[bucket.from..bucket.to] {
            [] => absent(),
            sorted => of(sorted, bucket.offset),
        }));
    }
}

/// The results of one pass over a bucket's values. Without values only `count` is valid.
#[derive(Clone, Copy, Debug)]
struct Summary {
    count: usize,
    sum: f64,
    min: f64,
    max: f64,
    first: f64,
    last: f64,
}

impl Summary {
    fn of(values: &[f64]) -> Self {
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
            return Summary { count: 0, sum: 0.0, min: 0.0, max: 0.0, first: 0.0, last: 0.0 };
        };
        let mut summary =
            Summary { count: values.len(), sum: 0.0 + first, min: first, max: first, first, last };
        for value in &values[1..] {
            summary.add(*value);
        }
        summary
    }

    /// Adds a later value, but does not count it.
    #[inline]
    fn add(&mut self, value: f64) {
        self.sum += value;
        if value < self.min || (self.min.is_nan() && !value.is_nan()) {
            self.min = value;
        }
        if value >= self.max || value.is_nan() {
            self.max = value;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// The values of a bucket after adding points (at least one) to its stored row, if it has one. Only for
/// methods that [`gnudi_model::ArchivePolicy::check_late`] allows.
pub(crate) fn with_values(methods: &[AggregationMethod], row: Option<&[f64]>, values: &[f64]) -> Vec<f64> {
    let summary = row.map_or_else(
        || Summary::of(values),
        |row| {
            let stored = |statistic| {
                let column = methods.iter().position(|method| *method == AggregationMethod::new(statistic));
                column.map_or(0.0, |column| row[column])
            };
            let mut summary = Summary {
                count: stored(Statistic::Count) as usize + values.len(),
                sum: stored(Statistic::Sum),
                min: stored(Statistic::Min),
                max: stored(Statistic::Max),
                first: 0.0,
                last: 0.0,
            };
            for value in values {
                summary.add(*value);
            }
            summary
        },
    );
    let value = |method: &AggregationMethod| match method.statistic {
        Statistic::Mean => summary.mean(),
        Statistic::Sum => summary.sum,
        Statistic::Min => summary.min,
        Statistic::Max => summary.max,
        Statistic::Count => summary.count as f64,
        _ => unreachable!("{method} needs all points"),
    };
    methods.iter().map(value).collect()
}

/// The smallest of each range of offsets, up to `max`, that give the same percentiles: positions between two powers of two
/// are rounded alike. A bucket has as many rates as points, or one fewer.
pub(crate) fn percentile_offsets(methods: &[AggregationMethod], points: usize, max: u64) -> Vec<u64> {
    let mut offsets = vec![0];
    for method in methods {
        let Statistic::Percentile(percent) = method.statistic else { continue };
        for last in [points.saturating_sub(1), points.saturating_sub(2)] {
            let position = last as f64 * (f64::from(percent) / 100.0);
            let reaching = |bits: u32| (1u64 << bits).checked_sub(position as u64);
            offsets.extend((0..u64::BITS).filter_map(reaching).filter(|offset| *offset <= max));
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

fn std(summary: &Summary, values: &[f64]) -> f64 {
    if summary.count < 2 {
        return absent();
    }
    let mean = summary.mean();
    let squares = values.iter().fold(0.0, |sum, value| {
        let distance = value - mean;
        sum + distance * distance
    });
    (squares / (summary.count - 1) as f64).sqrt()
}

fn median(sorted: &[f64]) -> f64 {
    let low = sorted.len() - 1 - sorted.len() / 2;
    let high = sorted.len() / 2;
    // An overflow here overflows in numpy too.
    let sum = sorted[low] + sorted[high];
    sum / 2.0
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
    use crate::rows::is_absent;

    fn of(values: &[f64], name: &str, offset: u64) -> Option<f64> {
        let mut workspace = Workspace::whole(values.to_vec());
        workspace.buckets[0].offset = offset;
        let mut column = [Vec::new()];
        workspace.push_columns(&[name.parse().unwrap()], &mut column);
        assert_eq!(column[0].len(), 1);
        (!is_absent(column[0][0])).then_some(column[0][0])
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
            assert_eq!(of(&[], name, 0), None);
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
        let zeros = [0.0, -0.0, 0.0, -0.0];
        assert_eq!(of(&zeros, "max", 0).map(f64::to_bits), Some((-0.0f64).to_bits()));
        assert_eq!(of(&zeros, "min", 0).map(f64::to_bits), Some(0));
        // The sum of two largest numbers overflows in the median.
        assert_eq!(of(&[f64::MAX], "median", 0), Some(f64::INFINITY));
        assert_eq!(of(&[f64::MAX], "50pct", 0), Some(f64::MAX));
    }

    #[test]
    fn few_offsets_give_all_values_of_a_percentile() {
        const MAX: u64 = 2_000;
        for (name, points) in [("50pct", 1), ("1pct", 2), ("37pct", 7), ("99pct", 64), ("29pct", 101)] {
            let values: Vec<f64> = (0..points).map(|value| f64::from(value).sqrt()).collect();
            let offsets = percentile_offsets(&[name.parse().unwrap()], values.len(), MAX);
            assert!(offsets.len() < 30, "{name}: {offsets:?}");
            for offset in 0..=MAX {
                let known = offsets[offsets.partition_point(|known| *known <= offset) - 1];
                assert_eq!(of(&values, name, offset), of(&values, name, known), "{name} at {offset}");
            }
        }
    }

    #[test]
    fn a_percentile_depends_on_its_place_in_the_series() {
        // numpy: 1000 + 1 * 0.3 is 1000.3, whose fraction is 0.29999999999995453.
        assert_eq!(of(&[10.0, 11.0], "30pct", 0), Some(10.3));
        assert_eq!(of(&[10.0, 11.0], "30pct", 1000), Some(10.299_999_999_999_955));
    }
}
