//! Arithmetic and printing of numbers as Go has them: compensated sums, quantiles of samples, `%g`.

use std::cmp::Ordering;

/// Neumaier's improvement of Kahan summation: the sum and its compensation after one more term.
pub(crate) fn add_compensated(term: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let total = sum + term;
    if total.is_infinite() {
        (total, 0.0)
    } else if sum.abs() >= term.abs() {
        (total, compensation + ((sum - total) + term))
    } else {
        (total, compensation + ((term - total) + sum))
    }
}

/// The mean of values that come one by one: a compensated sum, divided at the end. Once that sum would overflow, the mean itself is
/// updated with each value (`incremental`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mean {
    count: f64,
    /// The sum; the mean if `incremental`.
    state: f64,
    compensation: f64,
    incremental: bool,
}

impl Mean {
    pub(crate) fn new(first: f64) -> Mean {
        Mean { count: 1.0, state: first, compensation: 0.0, incremental: false }
    }

    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        if !self.incremental {
            let (sum, compensation) = add_compensated(value, self.state, self.compensation);
            if !sum.is_infinite() {
                (self.state, self.compensation) = (sum, compensation);
                return;
            }
            self.incremental = true;
            self.state /= self.count - 1.0;
            self.compensation /= self.count - 1.0;
        }
        let weight = (self.count - 1.0) / self.count;
        (self.state, self.compensation) =
            add_compensated(value / self.count, weight * self.state, weight * self.compensation);
    }

    pub(crate) fn value(&self) -> f64 {
        if self.incremental {
            self.state + self.compensation
        } else {
            self.state / self.count + self.compensation / self.count
        }
    }
}

/// Ascending order in which NaN comes first.
pub(crate) fn nan_first(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

/// The quantile of values, which get sorted. Between two values it is their weighted mean.
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    values.sort_by(|a, b| nan_first(*a, *b));
    let last = values.len() - 1;
    let rank = q * last as f64;
    let lower = rank.floor().max(0.0) as usize;
    let weight = rank - rank.floor();
    if weight == 0.0 {
        return values[lower];
    }
    values[lower] * (1.0 - weight) + values[(lower + 1).min(last)] * weight
}

/// Equal, up to a relative difference. NaN equals NaN.
pub(crate) fn almost_equal(a: f64, b: f64, tolerance: f64) -> bool {
    if a.is_nan() && b.is_nan() || a == b {
        return true;
    }
    let size = a.abs() + b.abs();
    let difference = (a - b).abs();
    if a == 0.0 || b == 0.0 || size < f64::MIN_POSITIVE {
        return difference < tolerance * f64::MIN_POSITIVE;
    }
    difference / size.min(f64::MAX) < tolerance
}

/// A number as Go's `%f` without a limit of digits prints it.
pub(crate) fn plain(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_string()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_string()
    } else {
        format!("{value}")
    }
}

/// A number as Go's `%g` prints it.
pub(crate) fn general(value: f64) -> String {
    general_below(6, value)
}

/// As [`general`], with an exponent for numbers from this power of ten on.
pub(crate) fn general_below(exponent_end: i32, value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return plain(value);
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..exponent_end).contains(&exponent) {
        return plain(value);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_go() {
        assert_eq!(general(1.5), "1.5");
        assert_eq!(general(-1e21), "-1e+21");
        assert_eq!((general(123_456.0).as_str(), general(1_234_567.0).as_str()), ("123456", "1.234567e+06"));
        assert_eq!(general(1.25e-7), "1.25e-07");
        assert_eq!(general(f64::INFINITY), "+Inf");
        assert_eq!(plain(1e22), "10000000000000000000000");
    }

    #[test]
    fn compensates() {
        let (mut sum, mut compensation) = (0.0, 0.0);
        for term in [1.0, 1e100, 1.0, -1e100] {
            (sum, compensation) = add_compensated(term, sum, compensation);
        }
        assert_eq!(sum + compensation, 2.0);
    }

    #[test]
    fn means_do_not_overflow() {
        let mut mean = Mean::new(f64::MAX);
        mean.add(f64::MAX);
        assert_eq!(mean.value(), f64::MAX);
    }
}
