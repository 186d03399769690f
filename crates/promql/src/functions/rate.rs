//! Functions of the change within a window. Counters only grow: a value lower than the previous one means a reset.

#![allow(clippy::unnecessary_wraps, reason = "all are of the type `OverTime`")]

use super::{Answer, Samples, seconds};

pub(crate) fn rate(samples: &Samples<'_>, _: &[f64]) -> Answer {
    let range = samples.range_seconds();
    Ok(extrapolated(samples, true).map(|(change, factor)| change * (factor / range)))
}

pub(crate) fn increase(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(extrapolated(samples, true).map(|(change, factor)| change * factor))
}

pub(crate) fn delta(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(extrapolated(samples, false).map(|(change, factor)| change * factor))
}

/// The change between the first and the last sample, and the factor that extends it to the window.
///
/// If a series has a sample near a border of the window (within 1.1 times the mean distance of samples), it is
/// extrapolated to that border; otherwise by half the mean distance. A counter is not extrapolated below zero.
fn extrapolated(samples: &Samples<'_>, counter: bool) -> Option<(f64, f64)> {
    let last = samples.values.len() - 1;
    if last == 0 {
        return None;
    }
    let mut change = samples.values[last] - samples.values[0];
    if counter {
        for pair in samples.values.windows(2) {
            if pair[1] < pair[0] {
                change += pair[0];
            }
        }
    }
    let mut to_start = seconds(samples.times[0] - samples.window_start);
    let mut to_end = seconds(samples.window_end - samples.times[last]);
    let sampled = seconds(samples.times[last] - samples.times[0]);
    let distance = sampled / last as f64;
    let near = distance * 1.1;
    if to_start >= near {
        to_start = distance / 2.0;
    }
    if counter && change > 0.0 && samples.values[0] >= 0.0 {
        let to_zero = sampled * (samples.values[0] / change);
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= near {
        to_end = distance / 2.0;
    }
    let factor = if sampled == 0.0 { 1.0 } else { (sampled + to_start + to_end) / sampled };
    Some((change, factor))
}

/// The last two samples: (time, value) each.
fn last_two(samples: &Samples<'_>) -> Option<[(i64, f64); 2]> {
    let second = samples.values.len().checked_sub(2)?;
    let sample = |at: usize| (samples.times[at], samples.values[at]);
    Some([sample(second), sample(second + 1)])
}

pub(crate) fn irate(samples: &Samples<'_>, _: &[f64]) -> Answer {
    let Some([before, last]) = last_two(samples) else { return Ok(None) };
    let change = if last.1 < before.1 { last.1 } else { last.1 - before.1 };
    Ok(Some(change / seconds(last.0 - before.0)))
}

pub(crate) fn idelta(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(last_two(samples).map(|[before, last]| last.1 - before.1))
}

fn pairs(samples: &Samples<'_>, counted: impl Fn(f64, f64) -> bool) -> f64 {
    samples.values.windows(2).filter(|pair| counted(pair[0], pair[1])).count() as f64
}

pub(crate) fn resets(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(pairs(samples, |before, after| after < before)))
}

pub(crate) fn changes(samples: &Samples<'_>, _: &[f64]) -> Answer {
    Ok(Some(pairs(samples, |before, after| after != before && !(after.is_nan() && before.is_nan()))))
}
