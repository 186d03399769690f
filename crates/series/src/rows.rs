//! Finalised buckets in memory: their starts and, for each, one value per method.

use gnudi_model::{AggregationMethod, Statistic};

/// Stands for the value that a bucket does not have (a std of one point, a rate of the first point). A signalling NaN:
/// these statistics are results of arithmetic, and arithmetic never gives one.
const ABSENT: u64 = 0x7ff4_6e6f_6e65_0000;

pub(crate) fn absent() -> f64 {
    f64::from_bits(ABSENT)
}

pub(crate) fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT
}

/// Whether a bucket that has points may lack this method's value.
pub(crate) fn may_lack(method: AggregationMethod) -> bool {
    method.rate || method.statistic == Statistic::Std
}

/// Rows in the order of their starts; row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub starts: Vec<i64>,
    /// As many for each start as there are methods.
    pub values: Vec<f64>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Drops the rows that start before `start`.
    pub fn drop_before(&mut self, start: i64) {
        let count = self.starts.partition_point(|&row| row < start);
        if count > 0 {
            let width = self.values.len() / self.starts.len();
            self.starts.drain(..count);
            self.values.drain(..count * width);
        }
    }
}
