//! Reduces many series to one: a statistic of each row.
//!
//! Sums accumulate from series to series, but pairwise if there is a single row: numpy adds in memory order.
//! NaN counts as a missing value.

use std::borrow::Cow;

use super::{
    CrossStatistic, OperationError, Reaggregation, Result,
    elementwise::{fmax, fmin},
    sum::pairwise,
    value::{Columns, Value},
};

/// From this many values on, numpy computes medians differently, which matters if their sum overflows.
const LARGE_MEDIAN: usize = 600;

/// The statistic of each row, as one column. The caller applies `rate:`.
pub(super) fn across(method: Reaggregation, operand: Value<'_>) -> Result<Value<'_>> {
    let rows = operand.rows;
    let array = |columns| Ok(Value::array(rows, columns));
    let statistic = method.statistic;
    if operand.width() == 0 && matches!(statistic, CrossStatistic::Min | CrossStatistic::Max) {
        return Err(OperationError::NoSeries);
    }
    if statistic == CrossStatistic::Count {
        return array(Columns::Int(vec![counts(&operand)]));
    }
    if operand.is_float()
        || !matches!(statistic, CrossStatistic::Sum | CrossStatistic::Min | CrossStatistic::Max)
    {
        let columns = operand.into_floats();
        let values = float_statistic(statistic, rows, &columns);
        return array(Columns::Float(vec![Cow::Owned(values)]));
    }
    let is_bool = operand.is_bool();
    let columns = operand.into_ints();
    let fold = |of: fn(i64, i64) -> i64| {
        let folded = columns.iter().map(Cow::from).reduce(|into, column| {
            Cow::Owned(into.iter().zip(column.iter()).map(|(&a, &b)| of(a, b)).collect())
        });
        folded.map_or_else(|| vec![0; rows], Cow::into_owned)
    };
    let values = match statistic {
        CrossStatistic::Min => fold(i64::min),
        CrossStatistic::Max => fold(i64::max),
        _ => return array(Columns::Int(vec![fold(i64::wrapping_add)])),
    };
    if is_bool {
        return array(Columns::Bool(vec![values.into_iter().map(|number| number != 0).collect()]));
    }
    array(Columns::Int(vec![values]))
}

fn counts(operand: &Value<'_>) -> Vec<i64> {
    let Columns::Float(columns) = &operand.columns else { return vec![operand.width() as i64; operand.rows] };
    let mut counts = vec![0; operand.rows];
    for column in columns {
        for (count, value) in counts.iter_mut().zip(column.iter()) {
            *count += i64::from(!value.is_nan());
        }
    }
    counts
}

fn float_statistic(statistic: CrossStatistic, rows: usize, columns: &[Cow<'_, [f64]>]) -> Vec<f64> {
    match statistic {
        CrossStatistic::Sum => sums(rows, columns, nan_as_zero),
        CrossStatistic::Mean => means(rows, columns).0,
        CrossStatistic::Var => variances(rows, columns),
        CrossStatistic::Std => variances(rows, columns).into_iter().map(f64::sqrt).collect(),
        CrossStatistic::Min => extremes(columns, fmin),
        CrossStatistic::Max => extremes(columns, fmax),
        CrossStatistic::Median => medians(rows, columns),
        CrossStatistic::Count => unreachable!("counts are whole numbers"),
    }
}

/// The sum of each row; `of` maps a row's index and a value.
fn sums(rows: usize, columns: &[Cow<'_, [f64]>], of: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    if rows == 1 {
        let row: Vec<f64> = columns.iter().map(|column| of(0, column[0])).collect();
        return vec![pairwise(&row, &|value| value)];
    }
    let mut sums = vec![0.0; rows];
    for column in columns {
        for (row, (sum, &value)) in sums.iter_mut().zip(column.iter()).enumerate() {
            *sum += of(row, value);
        }
    }
    sums
}

fn nan_as_zero(_row: usize, value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// The mean and the number of values of each row.
fn means(rows: usize, columns: &[Cow<'_, [f64]>]) -> (Vec<f64>, Vec<f64>) {
    // Two columns at a time: half the loads and stores of the running sums.
    let mut sums = vec![0.0; rows];
    let mut counts = vec![0.0; rows];
    let mut pairs = columns.chunks_exact(2);
    for pair in &mut pairs {
        let values = pair[0].iter().zip(pair[1].iter());
        for ((sum, count), (&a, &b)) in sums.iter_mut().zip(&mut counts).zip(values) {
            let (has_a, has_b) = (!a.is_nan(), !b.is_nan());
            *sum += if has_a { a } else { 0.0 };
            *sum += if has_b { b } else { 0.0 };
            *count += if has_a { 1.0 } else { 0.0 } + if has_b { 1.0 } else { 0.0 };
        }
    }
    for column in pairs.remainder() {
        for ((sum, count), &value) in sums.iter_mut().zip(&mut counts).zip(column.iter()) {
            *sum += if value.is_nan() { 0.0 } else { value };
            *count += if value.is_nan() { 0.0 } else { 1.0 };
        }
    }
    if rows == 1 {
        // As in `sums`: pairwise.
        sums = self::sums(rows, columns, nan_as_zero);
    }
    for (sum, count) in sums.iter_mut().zip(&counts) {
        *sum /= count;
    }
    (sums, counts)
}

fn variances(rows: usize, columns: &[Cow<'_, [f64]>]) -> Vec<f64> {
    let (means, counts) = means(rows, columns);
    let mut squares = sums(rows, columns, |row, value| {
        let distance = value - means[row];
        if value.is_nan() { 0.0 } else { distance * distance }
    });
    for (square, count) in squares.iter_mut().zip(counts) {
        *square = if count == 0.0 { f64::NAN } else { *square / count };
    }
    squares
}

/// Needs at least one column.
fn extremes(columns: &[Cow<'_, [f64]>], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut extremes = columns[0].to_vec();
    for column in &columns[1..] {
        for (extreme, &value) in extremes.iter_mut().zip(column.iter()) {
            *extreme = of(*extreme, value);
        }
    }
    extremes
}

fn medians(rows: usize, columns: &[Cow<'_, [f64]>]) -> Vec<f64> {
    /// The number of rows gathered in one pass over the columns.
    const ROWS: usize = 16;
    let mut medians = Vec::with_capacity(rows);
    let mut gathered: Vec<Vec<f64>> = vec![Vec::with_capacity(columns.len()); ROWS.min(rows)];
    for start in (0..rows).step_by(ROWS) {
        let end = (start + ROWS).min(rows);
        for column in columns {
            for (values, &value) in gathered.iter_mut().zip(&column[start..end]) {
                if !value.is_nan() {
                    values.push(value);
                }
            }
        }
        for values in &mut gathered[..end - start] {
            medians.push(median(values, columns.len()));
            values.clear();
        }
    }
    medians
}

/// The median of values without NaN; reorders them. `all` counts the NaN, too.
pub(super) fn median(values: &mut [f64], all: usize) -> f64 {
    let (middle, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    if values.is_empty() {
        return f64::NAN;
    }
    let order = |a: &f64, b: &f64| a.partial_cmp(b).expect("no NaN");
    let (below, &mut high, _) = values.select_nth_unstable_by(middle, order);
    let low = match below.iter().copied().reduce(f64::max) {
        Some(low) if is_even => low,
        _ if all >= LARGE_MEDIAN => return 0.0 + high,
        _ => high,
    };
    (0.0 + low + high) / 2.0
}
