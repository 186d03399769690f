//! Functions of one number that the standard library lacks, or that differ in edge cases.

/// Beyond it, the logarithm of twice the value is as good as the exact formula.
const LARGE: f64 = 268_435_456.0;

/// -1, 1, or the value itself where it has no sign: zeros and NaN.
pub(crate) fn sign(value: f64) -> f64 {
    if value < 0.0 {
        -1.0
    } else if value > 0.0 {
        1.0
    } else {
        value
    }
}

pub(crate) fn acosh(value: f64) -> f64 {
    if value < 1.0 || value.is_nan() {
        f64::NAN
    } else if value > LARGE {
        value.ln() + std::f64::consts::LN_2
    } else {
        value.acosh()
    }
}

pub(crate) fn asinh(value: f64) -> f64 {
    if value.abs() > LARGE && value.is_finite() {
        (value.abs().ln() + std::f64::consts::LN_2).copysign(value)
    } else {
        value.asinh()
    }
}

pub(crate) fn atanh(value: f64) -> f64 {
    if value.abs() > 1.0 { f64::NAN } else { value.atanh() }
}

/// To the nearest multiple of a number. Ties go up.
pub(crate) fn round_to(value: f64, nearest: f64) -> f64 {
    // The inverse loses less precision.
    let inverse = 1.0 / nearest;
    (value * inverse + 0.5).floor() / inverse
}

/// The greater one; NaN if one of them is NaN.
pub(crate) fn max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        // `f64::max` and `f64::min` may choose either zero.
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

/// The lesser one; NaN if one of them is NaN.
pub(crate) fn min(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_ordered_by_sign() {
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(max(a, b).is_sign_positive() && min(a, b).is_sign_negative());
        }
        assert!(max(-0.0, -0.0).is_sign_negative() && min(0.0, 0.0).is_sign_positive());
    }
}
