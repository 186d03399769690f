//! Functions of all samples of a window: sums, extremes, positions.

#![allow(clippy::unnecessary_wraps, reason = "all are of the type `OverTime`")]

use super::{Answer, Samples, seconds};
use crate::numbers::{Mean, add_compensated, quantile};

pub(crate) fn avg(samples: &Samples<'_>, _: &[f64]) -> Answer {
    if let Some(counts) = samples.counts {
        return Ok(Some(total(samples.values) / total(counts)));
    }
    let mut mean = Mean::new(samples.values[0]);
    for value in &samples.values[1..] {
        mean.add(*value);
    }
    Ok(Some(mean.value()))
}

fn total(values: &[f64]) -> f64 {
    let (mut sum, mut compensation) = (0.0, 0.0);
    for value in values {
        (sum, compensation) = add_compensated(*value, sum, compensation);
    }
    if f64::is_infinite(sum) { sum } else { sum + compensation }
}

pub(crate) fn sum(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(total(samples.values)))
}

pub(crate) fn count(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(samples.counts.map_or(samples.values.len() as f64, total)))
}

pub(crate) fn present(_: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(1.0))
}

pub(crate) fn first(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(samples.values[0]))
}

pub(crate) fn last(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(samples.values.last().copied())
}

pub(crate) fn time_of_first(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(seconds(samples.times[0])))
}

pub(crate) fn time_of_last(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(samples.times.last().map(|time| seconds(*time)))
}

/// The index of the value that no other beats. NaN loses against all.
fn extreme(values: &[f64], beats: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if beats(*value, values[best]) || values[best].is_nan() {
            best = at;
        }
    }
    best
}

pub(crate) fn max(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(samples.values[extreme(samples.values, |a, b| a > b)]))
}

pub(crate) fn min(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(samples.values[extreme(samples.values, |a, b| a < b)]))
}

/// The last of equal values counts.
pub(crate) fn time_of_max(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(seconds(samples.times[extreme(samples.values, |a, b| a >= b)])))
}

pub(crate) fn time_of_min(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(seconds(samples.times[extreme(samples.values, |a, b| a <= b)])))
}

pub(crate) fn median_absolute_deviation(samples: &Samples<'_>, _: &[f64]) -> Answer {
    if samples.values.iter().any(|value| value.is_nan()) {
        return Ok(Some(f64::NAN));
    }
    let mut values = samples.values.to_vec();
    let median = quantile(0.5, &mut values);
    for value in &mut values {
        *value = (*value - median).abs();
    }
    Ok(Some(quantile(0.5, &mut values)))
}

pub(crate) fn quantile_over_time(samples: &Samples<'_>, scalars: &[f64]) -> Answer {
    Ok(Some(quantile(scalars[0], &mut samples.values.to_vec())))
}

fn variance(values: &[f64]) -> f64 {
    let mut count = 0.0;
    let (mut mean, mut mean_rest) = (0.0, 0.0);
    let (mut squares, mut squares_rest) = (0.0, 0.0);
    for value in values {
        count += 1.0;
        let delta = value - (mean + mean_rest);
        (mean, mean_rest) = add_compensated(delta / count, mean, mean_rest);
        let square = delta * (value - (mean + mean_rest));
        (squares, squares_rest) = add_compensated(square, squares, squares_rest);
    }
    (squares + squares_rest) / count
}

pub(crate) fn stdvar(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(variance(samples.values)))
}

pub(crate) fn stddev(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(variance(samples.values).sqrt()))
}

/// The height of an interval in `integral`: that of its left point (0), its right point (1), or their mean (2). `None`
/// for an unknown strategy.
pub(crate) fn integral_strategy(number: f64) -> Option<u8> {
    [0, 1, 2].into_iter().find(|strategy| f64::from(*strategy) == number)
}

/// The area under the samples, in seconds. NaN counts as zero.
pub(crate) fn integral(samples: &Samples<'_>, scalars: &[f64]) -> Answer {
    let strategy = scalars.first().and_then(|number| integral_strategy(*number)).unwrap_or(2);
    let number = |value: f64| if value.is_nan() { 0.0 } else { value };
    let (mut area, mut rest) = (0.0, 0.0);
    for at in 1..samples.values.len() {
        let (left, right) = (number(samples.values[at - 1]), number(samples.values[at]));
        let (height, height_rest) = match strategy {
            0 => (left, 0.0),
            1 => (right, 0.0),
            _ => middle(left, right),
        };
        if height != 0.0 || height_rest != 0.0 {
            let width = seconds(samples.times[at] - samples.times[at - 1]);
            (area, rest) = add_compensated(height * width, area, rest + height_rest * width);
        }
    }
    Ok(Some(if f64::is_infinite(area) { area } else { area + rest }))
}

/// The mean of two numbers with its rounding error.
fn middle(left: f64, right: f64) -> (f64, f64) {
    let (sum, rest) = add_compensated(right, left, 0.0);
    if sum.is_infinite() && left.is_finite() && right.is_finite() {
        return add_compensated(right / 2.0, left / 2.0, 0.0);
    }
    (sum / 2.0, rest / 2.0)
}
