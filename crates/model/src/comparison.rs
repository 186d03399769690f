//! The six comparisons of values.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// By any of Gnocchi's names: `<=`, `≤` or `le`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "=" | "==" | "eq" => Comparison::Equal,
            "!=" | "≠" | "ne" => Comparison::NotEqual,
            "<" | "lt" => Comparison::Less,
            "<=" | "≤" | "le" => Comparison::LessOrEqual,
            ">" | "gt" => Comparison::Greater,
            ">=" | "≥" | "ge" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The negated comparison.
    pub fn inverse(self) -> Self {
        match self {
            Comparison::Equal => Comparison::NotEqual,
            Comparison::NotEqual => Comparison::Equal,
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
        }
    }

    /// Whether it is true for two values in this order.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Whether it is true for two doubles. Only `NotEqual` is true for NaN.
    pub fn holds_for(self, left: f64, right: f64) -> bool {
        left.partial_cmp(&right).map_or(self == Comparison::NotEqual, |ordering| self.holds(ordering))
    }
}
