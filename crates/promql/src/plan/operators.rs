//! The operators: names, precedence, operand types.

use super::ValueKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Unless,
}

const BINARY: [(BinaryOp, &str); 16] = [
    (BinaryOp::Add, "+"),
    (BinaryOp::Sub, "-"),
    (BinaryOp::Mul, "*"),
    (BinaryOp::Div, "/"),
    (BinaryOp::Mod, "%"),
    (BinaryOp::Pow, "^"),
    (BinaryOp::Atan2, "atan2"),
    (BinaryOp::Equal, "=="),
    (BinaryOp::NotEqual, "!="),
    (BinaryOp::Less, "<"),
    (BinaryOp::LessEqual, "<="),
    (BinaryOp::Greater, ">"),
    (BinaryOp::GreaterEqual, ">="),
    (BinaryOp::And, "and"),
    (BinaryOp::Or, "or"),
    (BinaryOp::Unless, "unless"),
];

impl BinaryOp {
    pub(crate) fn by_name(name: &str) -> Option<BinaryOp> {
        BINARY.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    pub(crate) fn name(self) -> &'static str {
        BINARY.iter().find(|known| known.0 == self).map_or("", |known| known.1)
    }

    /// Precedence; powers bind most tightly.
    pub(crate) fn binds(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And | BinaryOp::Unless => 2,
            _ if self.is_comparison() => 3,
            BinaryOp::Add | BinaryOp::Sub => 4,
            BinaryOp::Pow => 6,
            _ => 5,
        }
    }

    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateOp {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    Group,
    Stddev,
    Stdvar,
    Topk,
    Bottomk,
    CountValues,
    Quantile,
    Limitk,
    LimitRatio,
}

const AGGREGATE: [(AggregateOp, &str); 14] = [
    (AggregateOp::Sum, "sum"),
    (AggregateOp::Avg, "avg"),
    (AggregateOp::Count, "count"),
    (AggregateOp::Min, "min"),
    (AggregateOp::Max, "max"),
    (AggregateOp::Group, "group"),
    (AggregateOp::Stddev, "stddev"),
    (AggregateOp::Stdvar, "stdvar"),
    (AggregateOp::Topk, "topk"),
    (AggregateOp::Bottomk, "bottomk"),
    (AggregateOp::CountValues, "count_values"),
    (AggregateOp::Quantile, "quantile"),
    (AggregateOp::Limitk, "limitk"),
    (AggregateOp::LimitRatio, "limit_ratio"),
];

impl AggregateOp {
    /// In any case.
    pub(crate) fn by_name(name: &str) -> Option<AggregateOp> {
        AGGREGATE.iter().find(|known| known.1.eq_ignore_ascii_case(name)).map(|known| known.0)
    }

    pub(crate) fn name(self) -> &'static str {
        AGGREGATE.iter().find(|known| known.0 == self).map_or("", |known| known.1)
    }

    /// The type of its parameter, if it has one.
    pub(crate) fn param(self) -> Option<ValueKind> {
        use AggregateOp::{Bottomk, CountValues, LimitRatio, Limitk, Quantile, Topk};
        match self {
            CountValues => Some(ValueKind::String),
            Topk | Bottomk | Quantile | Limitk | LimitRatio => Some(ValueKind::Scalar),
            _ => None,
        }
    }
}
