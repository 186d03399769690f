//! The result of a node: a table of numbers in rows (times) and columns (series), or one number.
//!
//! Kinds are numpy's: a comparison gives booleans, a count integers, and both stay so until combined with a
//! float. Columns that are the query's own series are borrowed.

use std::borrow::Cow;

use super::{OperationError, Result};

/// Columns of one kind and one length.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Columns<'g> {
    Float(Vec<Cow<'g, [f64]>>),
    Int(Vec<Vec<i64>>),
    Bool(Vec<Vec<bool>>),
}

impl Columns<'_> {
    pub fn floats(columns: Vec<Vec<f64>>) -> Self {
        Columns::Float(columns.into_iter().map(Cow::Owned).collect())
    }
}

/// A table of columns. A scalar has one row and one column and is no array: Gnocchi cannot aggregate it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value<'g> {
    pub is_scalar: bool,
    pub rows: usize,
    pub columns: Columns<'g>,
}

impl<'g> Value<'g> {
    pub fn scalar(number: f64) -> Self {
        Value { is_scalar: true, rows: 1, columns: Columns::Float(vec![Cow::Owned(vec![number])]) }
    }

    pub fn array(rows: usize, columns: Columns<'g>) -> Self {
        Value { is_scalar: false, rows, columns }
    }

    pub fn width(&self) -> usize {
        match &self.columns {
            Columns::Float(columns) => columns.len(),
            Columns::Int(columns) => columns.len(),
            Columns::Bool(columns) => columns.len(),
        }
    }

    /// How many numbers it owns in memory.
    pub fn cells_owned(&self) -> usize {
        match &self.columns {
            Columns::Float(columns) => {
                columns.iter().filter(|column| matches!(column, Cow::Owned(_))).count() * self.rows
            }
            _ => self.width() * self.rows,
        }
    }

    /// The value itself if it is an array; `what` names the operation for the error.
    pub fn into_array(self, what: &'static str) -> Result<Self> {
        if self.is_scalar { Err(OperationError::Scalar(what)) } else { Ok(self) }
    }

    pub fn into_floats(self) -> Vec<Cow<'g, [f64]>> {
        match self.columns {
            Columns::Float(columns) => columns,
            Columns::Int(columns) => convert(&columns, |number| number as f64),
            Columns::Bool(columns) => convert(&columns, |truth| f64::from(u8::from(truth))),
        }
    }

    /// The values as integers; must not contain floats.
    pub fn into_ints(self) -> Vec<Vec<i64>> {
        match self.columns {
            Columns::Int(columns) => columns,
            Columns::Bool(columns) => {
                let ints = |column: Vec<bool>| column.into_iter().map(i64::from).collect();
                columns.into_iter().map(ints).collect()
            }
            Columns::Float(_) => unreachable!("a float never becomes a whole number again"),
        }
    }

    pub fn is_float(&self) -> bool {
        matches!(self.columns, Columns::Float(_))
    }

    pub fn is_bool(&self) -> bool {
        matches!(self.columns, Columns::Bool(_))
    }
}

fn convert<'g, T: Copy>(columns: &[Vec<T>], float: impl Fn(T) -> f64) -> Vec<Cow<'g, [f64]>> {
    columns.iter().map(|column| Cow::Owned(column.iter().map(|&item| float(item)).collect())).collect()
}
