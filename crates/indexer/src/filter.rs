//! Filters of searches: a tree of comparisons of a resource's fields with values.
//!
//! The tree represents both forms of the language (JSON and text), which the API parses. As in SQL, a comparison with
//! null is neither true nor false, except that `!=` with a value is true.
//!
//! `condition` resolves a tree against a type and evaluates it in memory; databases use SQL instead.

mod condition;
mod field;
mod like;
mod operand;
mod order;

use uuid::Uuid;

pub use gnudi_model::Comparison;

pub(crate) use condition::{Condition, Scope, Test};
pub use condition::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_VALUES_MAX, PATTERN_BYTES_MAX};
pub(crate) use field::{Field, FieldKind};
pub use like::Pattern;
pub use order::SORTS_MAX;
pub(crate) use order::{FieldSort, compare, invalid_marker, order_of};

/// A filter of resources or of their revisions.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Compare {
        comparison: Comparison,
        field: String,
        value: FilterValue,
    },
    In {
        field: String,
        values: Vec<FilterValue>,
    },
    /// SQL's `LIKE`, by character and case-sensitive: `%` for any text, `_` for any character.
    Like {
        field: String,
        pattern: FilterValue,
    },
    /// True where empty.
    And(Vec<Filter>),
    /// True where empty.
    Or(Vec<Filter>),
    Not(Box<Filter>),
    /// `{}`: always rejected.
    Empty,
}

impl Filter {
    pub fn compare(field: &str, comparison: Comparison, value: FilterValue) -> Self {
        Filter::Compare { comparison, field: field.to_owned(), value }
    }

    pub fn equal(field: &str, value: FilterValue) -> Self {
        Filter::compare(field, Comparison::Equal, value)
    }
}

/// A value in a request; it is converted to the field's type.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Uuid(Uuid),
}

/// A value of a field, or one to compare it with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Text(String),
    Uuid(Uuid),
    Number(f64),
    Integer(i64),
    Bool(bool),
    /// Nanoseconds since the epoch.
    Time(i64),
    /// Nanoseconds.
    Span(i64),
}
