//! One measured value.

use crate::Timestamp;

/// A value at a time. NaN, infinities and -0.0 are values like any other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    pub timestamp: Timestamp,
    pub value: f64,
}
