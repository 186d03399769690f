//! Aggregates a stored series again, into coarser buckets or calendar periods.

use gnudi_model::{AggregationMethod, Statistic, Timespan, Timestamp};

use crate::{
    aggregate::{Bucket, Workspace},
    calendar::Calendar,
    read::ReadError,
};

/// The buckets of a resampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    /// Positive.
    Span(Timespan),
    Calendar(Calendar),
}

impl Resample {
    /// The start of the bucket that holds `time`.
    pub fn floor(self, time: Timestamp) -> Timestamp {
        match self {
            Resample::Span(span) => Timestamp(crate::layout::floor(time.0, span.0)),
            Resample::Calendar(calendar) => calendar.floor(time),
        }
    }

    /// The start of the bucket after the one at `start`; `None` for calendar periods.
    fn next(self, start: Timestamp) -> Option<Timestamp> {
        match self {
            Resample::Span(span) => start.0.checked_add(span.0).map(Timestamp),
            Resample::Calendar(_) => None,
        }
    }
}

/// Aggregates a series (oldest first, both columns of one length) with `method`. A `rate:` method works on
/// the differences of the stored values, as in Gnocchi, even if they are rates already; it is an error on a
/// calendar. Increases are summed; increases per second are averaged.
pub fn resample(
    timestamps: &[Timestamp],
    values: &[f64],
    to: Resample,
    method: AggregationMethod,
) -> Result<(Vec<Timestamp>, Vec<f64>), ReadError> {
    let (timestamps, mut columns) = Grouping::new(timestamps, to, method)?.apply(&[values]);
    Ok((timestamps, columns.pop().expect("one column")))
}

/// The grouping of points into buckets, computed once for all series with the same times.
#[derive(Debug)]
pub(crate) struct Grouping {
    method: AggregationMethod,
    /// None is empty. Omits buckets without a value: the std of one point.
    buckets: Vec<Bucket>,
}

impl Grouping {
    pub fn new(timestamps: &[Timestamp], to: Resample, method: AggregationMethod) -> Result<Self, ReadError> {
        let method = match method.statistic {
            Statistic::Increase => AggregationMethod::new(Statistic::Sum),
            Statistic::RateReset => AggregationMethod::new(Statistic::Mean),
            _ => method,
        };
        match to {
            Resample::Span(span) if span.0 <= 0 => return Err(ReadError::ResampleSpan),
            Resample::Calendar(_) if method.rate => return Err(ReadError::RateOnCalendar),
            _ => {}
        }
        // The first point has no difference.
        let timestamps = if method.rate { timestamps.get(1..).unwrap_or_default() } else { timestamps };
        let points_min = if method.statistic == Statistic::Std { 2 } else { 1 };
        let mut buckets = Vec::new();
        let mut from = 0;
        while let Some(&first) = timestamps.get(from) {
            let start = to.floor(first);
            let next = to.next(start);
            let inside =
                |time: &Timestamp| next.map_or_else(|| to.floor(*time) == start, |next| *time < next);
            let end = from + timestamps[from..].iter().take_while(|time| inside(time)).count();
            if end - from >= points_min {
                buckets.push(Bucket { start: start.0, from, to: end, offset: from as u64 });
            }
            from = end;
        }
        Ok(Grouping { method, buckets })
    }

    /// The buckets' starts, and each column's values; each column is as long as the times were.
    pub fn apply<C: AsRef<[f64]>>(self, columns: &[C]) -> (Vec<Timestamp>, Vec<Vec<f64>>) {
        let starts = self.buckets.iter().map(|bucket| Timestamp(bucket.start)).collect();
        let AggregationMethod { rate, statistic } = self.method;
        let sum = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value);
        match (rate, statistic) {
            // The two most common methods need one pass only.
            (false, Statistic::Sum) => return (starts, self.each(columns, sum)),
            (false, Statistic::Mean) => {
                return (starts, self.each(columns, |values| sum(values) / values.len() as f64));
            }
            _ => {}
        }
        let plain = [AggregationMethod::new(statistic)];
        let mut workspace = Workspace::with_buckets(self.buckets);
        let mut one = |column: &C| {
            let column = column.as_ref();
            workspace.values.clear();
            if rate {
                workspace.values.extend(column.windows(2).map(|pair| pair[1] - pair[0]));
            } else {
                workspace.values.extend_from_slice(column);
            }
            let mut values = [Vec::with_capacity(workspace.buckets.len())];
            workspace.push_columns(&plain, &mut values);
            let [values] = values;
            values
        };
        (starts, columns.iter().map(&mut one).collect())
    }

    /// Applies `of` to each bucket of each column.
    fn each<C: AsRef<[f64]>>(&self, columns: &[C], of: impl Fn(&[f64]) -> f64) -> Vec<Vec<f64>> {
        let one = |column: &C| {
            let column = column.as_ref();
            self.buckets.iter().map(|bucket| of(&column[bucket.from..bucket.to])).collect()
        };
        columns.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: &[i64]) -> Vec<Timestamp> {
        seconds.iter().map(|&second| Timestamp::from_secs(second)).collect()
    }

    #[test]
    fn spans_and_rates() {
        let times = seconds(&[0, 10, 20, 60, 70, 130]);
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let minute = Resample::Span(Timespan::from_secs(60));
        let of = |name: &str| resample(&times, &values, minute, name.parse().unwrap()).unwrap();
        assert_eq!(of("sum"), (seconds(&[0, 60, 120]), vec![7.0, 24.0, 32.0]));
        assert_eq!(of("rate:sum"), (seconds(&[0, 60, 120]), vec![3.0, 12.0, 16.0]));
        assert_eq!(of("std").0, seconds(&[0, 60]));
        assert_eq!(of("rate:count").1, [2.0, 2.0, 1.0]);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let month = Resample::Calendar(Calendar::Month);
        assert_eq!(resample(&[], &[], month, "rate:mean".parse().unwrap()), Err(ReadError::RateOnCalendar));
        let none = Resample::Span(Timespan(0));
        assert_eq!(resample(&[], &[], none, "mean".parse().unwrap()), Err(ReadError::ResampleSpan));
    }
}
