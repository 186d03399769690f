//! What a query means: a tree of operations, and the selectors whose series it needs.
//! `lower` makes it of the parser's tree, `syntax` looks at the text before the parser does, `selection` works out times.

mod literals;
mod lower;
mod selection;
mod syntax;
mod text;

use std::fmt;
use std::sync::Arc;

use regex::Regex;

use crate::error::Error;
use crate::functions::Function;
use crate::limits::Limits;

pub use selection::{QueryTimes, Selection, Windows};
pub use text::{format, syntax_tree};

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Scalar,
    String,
    Vector,
    Matrix,
}

impl ValueKind {
    /// As Prometheus' errors call it.
    pub(crate) fn documented(self) -> &'static str {
        match self {
            ValueKind::Scalar => "scalar",
            ValueKind::String => "string",
            ValueKind::Vector => "instant vector",
            ValueKind::Matrix => "range vector",
        }
    }
}

/// How a matcher compares.
#[derive(Debug, Clone)]
pub(crate) enum MatchOp {
    Equal,
    NotEqual,
    Matches(Regex),
    NotMatches(Regex),
}

/// How a matcher compares, as an operator is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    Equal,
    NotEqual,
    Matches,
    NotMatches,
}

/// A condition on one label. An absent label has the value "".
#[derive(Debug, Clone)]
pub struct Matcher {
    pub name: String,
    pub value: String,
    pub(crate) op: MatchOp,
}

impl Matcher {
    /// A label has this value.
    pub fn equal(name: &str, value: &str) -> Matcher {
        Matcher { name: name.to_owned(), value: value.to_owned(), op: MatchOp::Equal }
    }

    /// A matcher that no query's text has. Regular expressions match the whole value.
    pub fn new(kind: MatchKind, name: &str, value: &str) -> Result<Matcher, Error> {
        let regex = || {
            // A dot matches line feeds, too.
            let regex = Regex::new(&format!("^(?s:{value})$"));
            regex.map_err(|error| Error::bad_data(error.to_string()))
        };
        let op = match kind {
            MatchKind::Equal => MatchOp::Equal,
            MatchKind::NotEqual => MatchOp::NotEqual,
            MatchKind::Matches => MatchOp::Matches(regex()?),
            MatchKind::NotMatches => MatchOp::NotMatches(regex()?),
        };
        Ok(Matcher { name: name.to_owned(), value: value.to_owned(), op })
    }

    pub fn matches(&self, value: &str) -> bool {
        match &self.op {
            MatchOp::Equal => self.value == value,
            MatchOp::NotEqual => self.value != value,
            MatchOp::Matches(regex) => regex.is_match(value),
            MatchOp::NotMatches(regex) => !regex.is_match(value),
        }
    }

    /// The operator as it is written: `=`, `!=`, `=~` or `!~`. Regular expressions match the whole value.
    pub fn operator(&self) -> &'static str {
        match &self.op {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Matches(_) => "=~",
            MatchOp::NotMatches(_) => "!~",
        }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}{:?}", self.name, self.operator(), self.value)
    }
}

/// The `@` modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Start,
    End,
    Time(i64),
}

/// What a selector or a subquery reads, relative to the time of evaluation. Milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub range: i64,
    pub offset: i64,
    pub at: Option<At>,
}

/// A selector of series in the query's text.
#[derive(Debug, Clone)]
pub(crate) struct Selector {
    pub matchers: Vec<Matcher>,
    /// `range` is 0 for an instant vector.
    pub window: Window,
    pub is_range: bool,
    /// Of the subqueries around it, the outermost first.
    pub subqueries: Vec<Window>,
    pub function: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Number(f64),
    Text(Arc<str>),
    Vector { selector: usize },
    Range { selector: usize },
    Subquery { expr: Box<Node>, window: Window, step: Option<i64> },
    Call { function: &'static Function, args: Vec<Node>, invariant: bool },
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negate { expr: Box<Node>, invariant: bool, kind: ValueKind },
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: AggregateOp,
    pub expr: Node,
    pub param: Option<Node>,
    pub grouping: Grouping,
    pub invariant: bool,
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

/// `by` or `without`; nothing is `by ()`.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub without: bool,
    /// Sorted.
    pub labels: Vec<Arc<str>>,
}

/// Whether a sorted list of labels has this one.
pub(crate) fn lists(labels: &[Arc<str>], name: &str) -> bool {
    labels.binary_search_by(|label| label.as_ref().cmp(name)).is_ok()
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub op: BinaryOp,
    pub left: Node,
    pub right: Node,
    pub matching: Matching,
    pub returns_bool: bool,
    pub kind: ValueKind,
    pub invariant: bool,
}

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

impl BinaryOp {
    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    OneToOne,
    ManyToOne,
    OneToMany,
}

#[derive(Debug, Clone)]
pub(crate) struct Matching {
    pub cardinality: Cardinality,
    pub on: bool,
    /// Sorted.
    pub labels: Vec<Arc<str>>,
    /// Labels that `group_left` or `group_right` takes from the "one" side.
    pub include: Vec<Arc<str>>,
    pub fill_left: Option<f64>,
    pub fill_right: Option<f64>,
}

/// A query that can be evaluated.
#[derive(Debug)]
pub struct Plan {
    pub(crate) root: Node,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) kind: ValueKind,
}

impl Plan {
    /// The type of the query's value. Range queries need a scalar or an instant vector.
    pub fn kind(&self) -> ValueKind {
        self.kind
    }
}

impl Node {
    pub(crate) fn kind(&self) -> ValueKind {
        match self {
            Node::Number(_) => ValueKind::Scalar,
            Node::Text(_) => ValueKind::String,
            Node::Vector { .. } | Node::Aggregate(_) => ValueKind::Vector,
            Node::Range { .. } | Node::Subquery { .. } => ValueKind::Matrix,
            Node::Call { function, .. } => function.returns,
            Node::Binary(binary) => binary.kind,
            Node::Negate { kind, .. } => *kind,
        }
    }

    /// The value is the same at each step.
    pub(crate) fn is_invariant(&self, selectors: &[Selector]) -> bool {
        match self {
            Node::Number(_) | Node::Text(_) => true,
            Node::Vector { selector } | Node::Range { selector } => selectors[*selector].window.at.is_some(),
            Node::Subquery { window, .. } => window.at.is_some(),
            Node::Call { invariant, .. } | Node::Negate { invariant, .. } => *invariant,
            Node::Aggregate(aggregate) => aggregate.invariant,
            Node::Binary(binary) => binary.invariant,
        }
    }
}

/// Parse a query. Functions and operators that Prometheus calls experimental need `experimental`.
pub fn parse(query: &str, limits: &Limits, experimental: bool) -> Result<Plan, Error> {
    syntax::check(query, limits)?;
    lower::lower(&syntax::parse(query)?, limits, experimental)
}

/// The matchers of a query that is no more than an instant selector, as `match[]` takes them.
pub fn parse_selector(text: &str, limits: &Limits) -> Result<Vec<Matcher>, Error> {
    let mut plan = parse(text, limits, false)?;
    let is_plain = |selector: &Selector| selector.window.offset == 0 && selector.window.at.is_none();
    match (&plan.root, plan.selectors.pop()) {
        (Node::Vector { .. }, Some(selector)) if is_plain(&selector) => Ok(selector.matchers),
        _ => Err(Error::bad_data("parse error: expected an instant vector selector and nothing else")),
    }
}
