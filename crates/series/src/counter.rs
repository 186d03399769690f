//! How much counters grow. A counter only grows, until it begins again at 0: a value below the one before tells that it did,
//! and is what it grew since.

use gnudi_model::Timestamp;

/// The increase from one value to the next, or that for each second in between; one less than there are values.
///
/// A value that is absent (NaN) has no increase, and the next is compared with the last one that was there: what a counter grew
/// across a gap counts where the gap ends.
pub(super) fn increases(times: &[Timestamp], values: &[f64], per_second: bool) -> Vec<f64> {
    let mut increases = Vec::with_capacity(values.len().saturating_sub(1));
    let mut before: Option<(Timestamp, f64)> = None;
    for (row, (&time, &value)) in times.iter().zip(values).enumerate() {
        let increase = match before {
            Some((since, before)) if !value.is_nan() => {
                let increase = if value < before { value } else { value - before };
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

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.0 - from.0) as f64 / 1e9
}
