//! Finalised buckets in memory: their starts, and one value per method for each.

use std::ops::Range;

use gnudi_model::{AggregationMethod, Statistic, Timestamp};

/// Marks a missing value (the std of one point, the rate of the first point). A signalling NaN: these
/// statistics are results of arithmetic, which never gives one.
const ABSENT: u64 = 0x7ff4_6e6f_6e65_0000;

pub(crate) fn absent() -> f64 {
    f64::from_bits(ABSENT)
}

pub(crate) fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT
}

/// Whether a bucket with points may lack this method's value.
pub(crate) fn may_lack(method: AggregationMethod) -> bool {
    method.rate || method.statistic == Statistic::Std
}

/// Rows ordered by start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub starts: Vec<Timestamp>,
    /// One for each method, each as long as `starts`.
    pub columns: Vec<Vec<f64>>,
}

impl Rows {
    pub fn new(methods: usize) -> Self {
        Rows { starts: Vec::new(), columns: vec![Vec::new(); methods] }
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn reserve(&mut self, rows: usize) {
        self.starts.reserve(rows);
        self.columns.iter_mut().for_each(|column| column.reserve(rows));
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The values of a row, by method.
    pub fn row(&self, row: usize) -> Vec<f64> {
        self.columns.iter().map(|column| column[row]).collect()
    }

    /// Appends a row of `others`, which has the same columns.
    pub fn push_row_of(&mut self, others: &Rows, row: usize) {
        self.starts.push(others.starts[row]);
        for (column, other) in self.columns.iter_mut().zip(&others.columns) {
            column.push(other[row]);
        }
    }

    /// A copy of the rows in the range.
    pub fn slice(&self, range: Range<usize>) -> Rows {
        let columns = self.columns.iter().map(|column| column[range.clone()].to_vec()).collect();
        Rows { starts: self.starts[range].to_vec(), columns }
    }

    /// Removes and returns the first `count` rows.
    pub fn split_front(&mut self, count: usize) -> Rows {
        let columns = self.columns.iter_mut().map(|column| column.drain(..count).collect()).collect();
        Rows { starts: self.starts.drain(..count).collect(), columns }
    }

    /// Drops the rows from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.starts.truncate(len);
        self.columns.iter_mut().for_each(|column| column.truncate(len));
    }

    /// Drops the rows that start before `start`.
    pub fn drop_before(&mut self, start: Timestamp) {
        let count = self.starts.partition_point(|&row| row < start);
        self.starts.drain(..count);
        for column in &mut self.columns {
            column.drain(..count);
        }
    }

    /// Drops the rows without any value from row `from` on. Returns the start of the last dropped row.
    pub fn drop_empty(&mut self, from: usize) -> Option<Timestamp> {
        let (mut kept, mut dropped) = (from, None);
        for row in from..self.starts.len() {
            if self.columns.iter().any(|column| !is_absent(column[row])) {
                self.starts[kept] = self.starts[row];
                for column in &mut self.columns {
                    column[kept] = column[row];
                }
                kept += 1;
            } else {
                dropped = Some(self.starts[row]);
            }
        }
        self.truncate(kept);
        dropped
    }
}
