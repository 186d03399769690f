//! A query's syntax tree, with positions.

use crate::functions::Function;
use crate::plan::{AggregateOp, At, BinaryOp, Cardinality, Extension, LengthOp, Matcher, ValueKind};

/// A part of the query's text: the byte at which it starts, and the one after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Number { value: f64, is_duration: bool },
    Text(String),
    Paren(Box<Expr>),
    Vector(Selector),
    Range { selector: Selector, range: Length },
    Subquery(Box<Subquery>),
    Unary { minus: bool, expr: Box<Expr> },
    Binary(Box<Binary>),
    Aggregate(Box<Aggregate>),
    Call { function: &'static Function, args: Vec<Expr> },
}

#[derive(Debug)]
pub(crate) struct Selector {
    /// The name before the braces.
    pub name: Option<String>,
    /// Those within braces; they may include one of the name.
    pub matchers: Vec<Matcher>,
    pub shift: Shift,
    pub extension: Option<Extension>,
}

/// The modifiers `offset` and `@` of a selector or a subquery.
#[derive(Debug, Default)]
pub(crate) struct Shift {
    pub offset: Option<Length>,
    pub at: Option<At>,
}

#[derive(Debug)]
pub(crate) struct Subquery {
    pub expr: Expr,
    pub range: Length,
    pub step: Option<Length>,
    pub shift: Shift,
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub op: BinaryOp,
    /// The byte at which the operator stands.
    pub op_at: usize,
    pub left: Expr,
    pub right: Expr,
    pub returns_bool: bool,
    pub matching: Matching,
}

#[derive(Debug, Default)]
pub(crate) struct Matching {
    pub cardinality: Cardinality,
    /// `on (labels)`; otherwise `ignoring (labels)`.
    pub on: bool,
    pub labels: Vec<String>,
    /// The labels of `group_left` or `group_right`.
    pub include: Vec<String>,
    /// The value of a series that is missing on this side.
    pub fill_left: Option<f64>,
    pub fill_right: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: AggregateOp,
    /// The first argument of `topk`, `quantile` and others.
    pub param: Option<Expr>,
    pub expr: Expr,
    pub without: bool,
    pub grouping: Vec<String>,
}

/// A duration: a literal, or arithmetic on durations.
#[derive(Debug)]
pub(crate) struct Length {
    pub kind: LengthKind,
    pub span: Span,
    /// It stands in parentheses.
    pub wrapped: bool,
}

#[derive(Debug)]
pub(crate) enum LengthKind {
    /// A literal.
    Seconds {
        value: f64,
        /// Written with units (`5m`), not as a number of seconds.
        is_duration: bool,
    },
    /// The query's step.
    Step,
    /// From the query's start to its end.
    Range,
    /// Without a minus, a literal in parentheses, or what follows `offset +`.
    Unary {
        minus: bool,
        length: Box<Length>,
    },
    Binary {
        op: LengthOp,
        left: Box<Length>,
        right: Box<Length>,
    },
}

impl Expr {
    /// The expression within any pairs of parentheses.
    pub(crate) fn inner(&self) -> &Expr {
        let mut inner = self;
        while let ExprKind::Paren(within) = &inner.kind {
            inner = within;
        }
        inner
    }

    /// The expressions directly within.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Number { .. } | ExprKind::Text(_) | ExprKind::Vector(_) | ExprKind::Range { .. } => {
                Vec::new()
            }
            ExprKind::Paren(inner) | ExprKind::Unary { expr: inner, .. } => vec![inner.as_ref()],
            ExprKind::Subquery(subquery) => vec![&subquery.expr],
            ExprKind::Binary(binary) => vec![&binary.left, &binary.right],
            ExprKind::Aggregate(aggregate) => aggregate.param.iter().chain([&aggregate.expr]).collect(),
            ExprKind::Call { args, .. } => args.iter().collect(),
        }
    }

    /// The type of an expression that has been checked.
    pub(crate) fn kind(&self) -> ValueKind {
        match &self.inner().kind {
            ExprKind::Number { .. } => ValueKind::Scalar,
            ExprKind::Text(_) => ValueKind::String,
            ExprKind::Range { .. } | ExprKind::Subquery(_) => ValueKind::Matrix,
            ExprKind::Call { function, .. } => function.returns,
            ExprKind::Unary { expr, .. } => expr.kind(),
            ExprKind::Binary(binary) if binary.right.kind() == ValueKind::Scalar => binary.left.kind(),
            ExprKind::Paren(_) | ExprKind::Vector(_) | ExprKind::Binary(_) | ExprKind::Aggregate(_) => {
                ValueKind::Vector
            }
        }
    }
}

impl Matching {
    pub(crate) fn fills(&self) -> bool {
        self.fill_left.is_some() || self.fill_right.is_some()
    }
}

impl Length {
    /// The value of a number or duration literal; `None` for arithmetic.
    pub(crate) fn literal_seconds(&self) -> Option<f64> {
        match self.kind {
            LengthKind::Seconds { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether it is a literal of zero nanoseconds, which as an offset counts as none.
    pub(crate) fn is_zero(&self) -> bool {
        self.literal_seconds().is_some_and(|seconds| (seconds * 1e9).round() == 0.0)
    }

    /// Milliseconds of a literal, validated by the parser; 0 for arithmetic.
    pub(crate) fn literal_ms(&self) -> i64 {
        let nanoseconds = self.literal_seconds().map(|seconds| (seconds * 1e9).round());
        nanoseconds.map_or(0, |nanoseconds| nanoseconds as i64 / 1_000_000)
    }
}
