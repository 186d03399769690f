//! Functions of windows with a value at each border: the last sample before it (`anchored`), or a linear interpolation
//! of the samples around it (`smoothed`). The samples extend beyond the window.

use super::{OverTime, Samples, rate};
use crate::error::{Error, Result};
use crate::plan::Extension;

/// What a function does with such windows.
pub(crate) fn function(name: &str, extension: Extension) -> Result<OverTime> {
    let function: OverTime = match (extension, name) {
        (Extension::Anchored, "rate") => |samples, _| Ok(change_rate(samples, false)),
        (Extension::Anchored, "increase") => |samples, _| Ok(change(samples, false, true)),
        (Extension::Anchored, "delta") => |samples, _| Ok(change(samples, false, false)),
        (Extension::Anchored, "resets") => {
            |samples, _| anchored(samples).map_or(Ok(None), |anchored| rate::resets(&anchored, &[]))
        }
        (Extension::Anchored, "changes") => {
            |samples, _| anchored(samples).map_or(Ok(None), |anchored| rate::changes(&anchored, &[]))
        }
        (Extension::Smoothed, "rate") => |samples, _| Ok(change_rate(samples, true)),
        (Extension::Smoothed, "increase") => |samples, _| Ok(change(samples, true, true)),
        (Extension::Smoothed, "delta") => |samples, _| Ok(change(samples, true, false)),
        (Extension::Anchored, _) => {
            return refused("anchored", "changes, delta, increase, rate, resets", name);
        }
        (Extension::Smoothed, _) => return refused("smoothed", "delta, increase, rate", name),
    };
    Ok(function)
}

fn refused(modifier: &str, functions: &str, name: &str) -> Result<OverTime> {
    Err(Error::execution(format!("{modifier} modifier can only be used with: {functions} - not with {name}")))
}

/// The samples of the window and the last one before, if there are any in the window.
fn anchored<'s>(samples: &Samples<'s>) -> Option<Samples<'s>> {
    let before = samples.times.partition_point(|time| *time <= samples.window_start);
    if before == samples.times.len() {
        return None;
    }
    let first = before.saturating_sub(1);
    Some(Samples { times: &samples.times[first..], values: &samples.values[first..], ..*samples })
}

/// The borders of a window: the values there, and the samples between them.
pub(crate) struct Borders<'s> {
    pub left: f64,
    pub right: f64,
    pub times: &'s [i64],
    pub values: &'s [f64],
}

/// Interpolates between two samples. A counter reset between them counts as a restart at zero.
fn between(samples: &Samples<'_>, at: usize, time: i64, counter: bool) -> f64 {
    let (before, after) = (samples.values[at], samples.values[at + 1]);
    let before = if counter && after < before { 0.0 } else { before };
    let (start, end) = (samples.times[at], samples.times[at + 1]);
    before + (after - before) * (time - start) as f64 / (end - start) as f64
}

/// `None` where there is no sample within the window, or none before its end.
pub(crate) fn borders<'s>(samples: &Samples<'s>, smoothed: bool, counter: bool) -> Option<Borders<'s>> {
    let (start, end) = (samples.window_start, samples.window_end);
    let times = samples.times;
    let mut last = times.len() - 1;
    let mut first = times[..last].partition_point(|time| *time <= start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < end);
    }
    if times[last] <= start || smoothed && times[first] > end {
        return None;
    }
    let left = if smoothed && times[first] < start {
        between(samples, first, start, counter)
    } else {
        samples.values[first]
    };
    let right = if times[last] <= end || last == 0 {
        samples.values[last]
    } else if smoothed {
        between(samples, last - 1, end, counter)
    } else {
        samples.values[last - 1]
    };
    first += usize::from(times[first] <= start);
    let behind = if times[last] >= end { last } else { last + 1 };
    let inner = first..behind.max(first);
    Some(Borders { left, right, times: &times[inner.clone()], values: &samples.values[inner] })
}

/// The change of a counter per second.
fn change_rate(samples: &Samples<'_>, smoothed: bool) -> Option<f64> {
    change(samples, smoothed, true).map(|change| change / samples.range_seconds())
}

/// The change from border to border, corrected for counter resets.
fn change(samples: &Samples<'_>, smoothed: bool, counter: bool) -> Option<f64> {
    let Borders { left, right, values, .. } = borders(samples, smoothed, counter)?;
    let change = right - left;
    if !counter {
        return Some(change);
    }
    // Summed before it is added, as in Prometheus: the last digits depend on the order.
    let (mut correction, mut before) = (0.0, left);
    for value in values.iter().chain([&right]) {
        if *value < before {
            correction += before;
        }
        before = *value;
    }
    Some(change + correction)
}
