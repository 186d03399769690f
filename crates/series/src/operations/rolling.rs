//! Statistics over a rolling window of each series. As in numpy, each window is summed on its own, pairwise.

use std::borrow::Cow;

use super::{
    CrossStatistic,
    elementwise::{fmax, fmin},
    reduce::median,
    sum::pairwise,
    value::{Columns, Value},
};

/// The approximate cost of a value in a median relative to one in a sum.
const MEDIAN_COST: u64 = 16;

/// The cost of rolling, in values processed.
pub(super) fn cost(statistic: CrossStatistic, window: usize, operand: &Value<'_>) -> u64 {
    let windows = (operand.rows - window + 1) as u64 * operand.width() as u64;
    let each = if statistic == CrossStatistic::Median { MEDIAN_COST } else { 1 };
    windows.saturating_mul(window as u64).saturating_mul(each)
}

/// The statistic of all values; ignores NaN.
pub fn summary(statistic: CrossStatistic, values: &[f64]) -> f64 {
    let present: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    if present.is_empty() {
        let is_number = matches!(statistic, CrossStatistic::Sum | CrossStatistic::Count);
        return if is_number { 0.0 } else { f64::NAN };
    }
    let rows = present.len();
    let value = Value::array(rows, Columns::Float(vec![Cow::Owned(present)]));
    rolling(statistic, rows, value).into_floats()[0][0]
}

/// The statistic of each `window` (`1..=rows`) consecutive rows; the result has `window - 1` rows fewer.
pub(super) fn rolling<'g>(statistic: CrossStatistic, window: usize, operand: Value<'g>) -> Value<'g> {
    let rows = operand.rows - window + 1;
    if statistic == CrossStatistic::Count {
        let count = |column: &Cow<'g, [f64]>| windows(column, window, |values| count(values) as i64);
        let counts = match &operand.columns {
            Columns::Float(columns) => columns.iter().map(count).collect(),
            _ => vec![vec![window as i64; rows]; operand.width()],
        };
        return Value::array(rows, Columns::Int(counts));
    }
    let keeps_kind = matches!(statistic, CrossStatistic::Sum | CrossStatistic::Min | CrossStatistic::Max);
    if operand.is_float() || !keeps_kind {
        let columns = operand.into_floats();
        let rolled = columns.iter().map(|column| Cow::Owned(floats(statistic, window, column))).collect();
        return Value::array(rows, Columns::Float(rolled));
    }
    let is_bool = operand.is_bool();
    let of = |values: &[i64]| match statistic {
        CrossStatistic::Min => values.iter().copied().fold(i64::MAX, i64::min),
        CrossStatistic::Max => values.iter().copied().fold(i64::MIN, i64::max),
        _ => values.iter().copied().fold(0, i64::wrapping_add),
    };
    let columns = operand.into_ints();
    let rolled = columns.iter().map(|column| windows(column, window, of));
    if is_bool && statistic != CrossStatistic::Sum {
        let truths = rolled.map(|column| column.into_iter().map(|number| number != 0).collect());
        return Value::array(rows, Columns::Bool(truths.collect()));
    }
    Value::array(rows, Columns::Int(rolled.collect()))
}

fn windows<T, R>(column: &[T], window: usize, of: impl FnMut(&[T]) -> R) -> Vec<R> {
    column.windows(window).map(of).collect()
}

fn count(values: &[f64]) -> usize {
    values.iter().filter(|value| !value.is_nan()).count()
}

fn sum(values: &[f64]) -> f64 {
    pairwise(values, &|value: f64| if value.is_nan() { 0.0 } else { value })
}

fn variance(values: &[f64]) -> f64 {
    let count = count(values) as f64;
    let mean = sum(values) / count;
    let squares = pairwise(values, &|value: f64| {
        let distance = value - mean;
        if value.is_nan() { 0.0 } else { distance * distance }
    });
    if count == 0.0 { f64::NAN } else { squares / count }
}

fn floats(statistic: CrossStatistic, window: usize, column: &[f64]) -> Vec<f64> {
    let extreme = |of: fn(f64, f64) -> f64| {
        windows(column, window, move |values| values.iter().copied().reduce(of).expect("a window has values"))
    };
    match statistic {
        CrossStatistic::Sum => windows(column, window, sum),
        CrossStatistic::Mean => windows(column, window, |values| sum(values) / count(values) as f64),
        CrossStatistic::Var => windows(column, window, variance),
        CrossStatistic::Std => windows(column, window, |values| variance(values).sqrt()),
        CrossStatistic::Min => extreme(fmin),
        CrossStatistic::Max => extreme(fmax),
        CrossStatistic::Median => {
            let mut present = Vec::with_capacity(window);
            windows(column, window, |values| {
                present.clear();
                present.extend(values.iter().copied().filter(|value| !value.is_nan()));
                median(&mut present, window)
            })
        }
        CrossStatistic::Count => unreachable!("counts are whole numbers"),
    }
}
