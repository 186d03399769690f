//! The filter language of searches: a tree of comparisons of a resource's fields with values.
//!
//! The tree is what both forms of the language (JSON and text) mean; reading them is the API's. A comparison with an absent
//! field is neither true nor false, as in SQL, but that `!=` with a value is true.
//!
//! `condition` reads a tree against a type and evaluates it; the databases have their own way of the latter.

mod condition;
mod field;
mod like;
mod operand;
mod order;

use uuid::Uuid;

pub(crate) use condition::{Condition, Scope, Test};
pub use condition::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_VALUES_MAX, PATTERN_BYTES_MAX};
pub(crate) use field::{Field, FieldKind};
pub use like::Pattern;
pub use order::SORTS_MAX;
pub(crate) use order::{FieldSort, compare, invalid_marker, order_of};

/// Which of a resource's revisions, or which resources, are meant.
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
    /// SQL's `LIKE`, by character, minding case: `%` for any text, `_` for any character.
    Like {
        field: String,
        pattern: FilterValue,
    },
    /// True where empty.
    And(Vec<Filter>),
    /// True where empty.
    Or(Vec<Filter>),
    Not(Box<Filter>),
    /// `{}`: refused wherever it is looked at.
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value as the request has it; a field's type says how it is read.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Uuid(Uuid),
}

/// A value that a field has, or is compared with: one of the field's kind.
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
