//! The increase of counters. A counter only grows, until it restarts at 0. A value below the one before means
//! a restart, and is the increase since.

use gnudi_model::{AggregationMethod, Measure, Statistic, Timestamp};

use crate::{aggregate::Bucket, rows::absent};

/// The increase from each value to the next, or the increase per second; one fewer than there are values.
///
/// An absent value (NaN) has no increase. The value after it is compared with the last one present: the
/// increase across a gap counts where the gap ends.
pub(crate) fn increases(times: &[Timestamp], values: &[f64], per_second: bool) -> Vec<f64> {
    let mut increases = Vec::with_capacity(values.len().saturating_sub(1));
    let mut before: Option<(Timestamp, f64)> = None;
    for (row, (&time, &value)) in times.iter().zip(values).enumerate() {
        let increase = match before {
            Some((since, before)) if !value.is_nan() => {
                let increase = growth(before, value);
                if per_second { increase / seconds(since, time) } else { increase }
            }
            _ => f64::NAN,
        };
        if row > 0 {
            increases.push(increase);
        }
        if !value.is_nan() {
            before = Some((time, value));
        }
    }
    increases
}

/// The increase from one value to the next.
fn growth(before: f64, value: f64) -> f64 {
    if value < before { value } else { value - before }
}

/// Appends one value for each bucket to the column of each method; all must be methods of counters. The
/// buckets' ranges count from `first`; `before` is the point before `points`.
///
/// A NaN is a gap: the increases from the point before it and to the point after it are unknown.
pub(crate) fn push_columns(
    points: &[Measure],
    before: Option<Measure>,
    first: usize,
    buckets: &[Bucket],
    methods: &[AggregationMethod],
    columns: &mut [Vec<f64>],
) {
    for bucket in buckets {
        let (begin, end) = (first + bucket.from, first + bucket.to);
        let mut previous = if begin > 0 { Some(points[begin - 1]) } else { before };
        let (mut increase, mut nanoseconds) = (0.0, 0);
        for point in &points[begin..end] {
            if let Some(previous) =
                previous.filter(|previous| !previous.value.is_nan() && !point.value.is_nan())
            {
                increase += growth(previous.value, point.value);
                nanoseconds += point.timestamp.0 - previous.timestamp.0;
            }
            previous = Some(*point);
        }
        for (method, column) in methods.iter().zip(&mut *columns) {
            column.push(match method.statistic {
                // Times of points are distinct.
                _ if nanoseconds == 0 => absent(),
                Statistic::RateReset => increase / (nanoseconds as f64 / 1e9),
                _ => increase,
            });
        }
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.0 - from.0) as f64 / 1e9
}
