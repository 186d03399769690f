//! Regression and smoothing over the samples of a window.

#![allow(clippy::unnecessary_wraps, reason = "all are of the type `OverTime`")]

use super::{Answer, Samples};
use crate::error::Error;
use crate::numbers::{add_compensated, plain};

#[derive(Default)]
struct Sum(f64, f64);

impl Sum {
    fn add(&mut self, term: f64) {
        (self.0, self.1) = add_compensated(term, self.0, self.1);
    }

    fn value(&self) -> f64 {
        self.0 + self.1
    }
}

/// Least squares: slope per second, and the value at `origin`.
fn line(samples: &Samples<'_>, origin: i64) -> (f64, f64) {
    let first = samples.values[0];
    if samples.values.iter().all(|value| *value == first) {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let (mut xs, mut ys, mut xys, mut squares) =
        (Sum::default(), Sum::default(), Sum::default(), Sum::default());
    for (time, y) in samples.times.iter().zip(samples.values) {
        let x = (time - origin) as f64 / 1e3;
        xs.add(x);
        ys.add(*y);
        xys.add(x * y);
        squares.add(x * x);
    }
    let count = samples.values.len() as f64;
    let covariance = xys.value() - xs.value() * ys.value() / count;
    let variance = squares.value() - xs.value() * xs.value() / count;
    let slope = covariance / variance;
    (slope, ys.value() / count - slope * xs.value() / count)
}

pub(crate) fn deriv(samples: &Samples<'_>, _: &[f64]) -> Answer {
    // A time among the samples' times keeps the numbers small.
    Ok((samples.values.len() >= 2).then(|| line(samples, samples.times[0]).0))
}

pub(crate) fn predict_linear(samples: &Samples<'_>, scalars: &[f64]) -> Answer {
    if samples.values.len() < 2 {
        return Ok(None);
    }
    let (slope, intercept) = line(samples, samples.time);
    Ok(Some(slope * scalars[0] + intercept))
}

/// Holt's linear trend method.
pub(crate) fn double_exponential_smoothing(samples: &Samples<'_>, scalars: &[f64]) -> Answer {
    let (smoothing, trending) = (scalars[0], scalars[1]);
    for (factor, name) in [(smoothing, "smoothing"), (trending, "trend")] {
        if factor <= 0.0 || factor >= 1.0 {
            let got = if factor.is_finite() { format!("{factor:.6}") } else { plain(factor) };
            let expected = format!("0 < {}f < 1", &name[..1]);
            return Err(Error::execution(format!("invalid {name} factor. Expected: {expected}, got: {got}")));
        }
    }
    let values = samples.values;
    if values.len() < 2 {
        return Ok(None);
    }
    let mut before = 0.0;
    let mut smoothed = values[0];
    let mut trend = values[1] - values[0];
    for (at, value) in values.iter().enumerate().skip(1) {
        if at > 1 {
            trend = trending * (smoothed - before) + (1.0 - trending) * trend;
        }
        let next = smoothing * value + (1.0 - smoothing) * (smoothed + trend);
        (before, smoothed) = (smoothed, next);
    }
    Ok(Some(smoothed))
}
