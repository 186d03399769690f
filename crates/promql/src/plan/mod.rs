//! The meaning of a query: a tree of operations, and the selectors whose series it needs. `lower` builds it from the
//! syntax tree, `operators` names its operators, `re2` reads regular expressions, `selection` determines times.

mod literals;
mod lower;
mod operators;
mod re2;
mod selection;

use std::fmt;
use std::sync::Arc;

use regex::Regex;
use regex_syntax::hir::Hir;

use crate::error::{Error, Result};
use crate::functions::Function;
use crate::labels::{Labels, METADATA};
use crate::limits::Limits;
use crate::quoted::quoted;
use crate::syntax::{self, ExprKind};

use literals::Literals;
pub(crate) use literals::expression_states;
pub(crate) use operators::{AggregateOp, BinaryOp, LengthOp};
pub use selection::{QueryTimes, Selection, Windows};

/// The type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Scalar,
    String,
    Vector,
    Matrix,
}

impl ValueKind {
    /// As Prometheus' documents call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ValueKind::Scalar => "scalar",
            ValueKind::String => "string",
            ValueKind::Vector => "vector",
            ValueKind::Matrix => "matrix",
        }
    }

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
    /// See [`Matcher::states`].
    states: usize,
    /// For `=~`.
    literals: Literals,
}

impl Matcher {
    /// The condition that a label has this value.
    pub fn equal(name: &str, value: &str) -> Matcher {
        Matcher::of(MatchOp::Equal, name, value, 0, Literals::default())
    }

    fn of(op: MatchOp, name: &str, value: &str, states: usize, literals: Literals) -> Matcher {
        Matcher { name: name.to_owned(), value: value.to_owned(), op, states, literals }
    }

    /// A matcher from its parts. Regular expressions match the whole value.
    pub fn new(kind: MatchKind, name: &str, value: &str) -> Result<Matcher> {
        let (op, states, literals) = match kind {
            MatchKind::Equal => (MatchOp::Equal, 0, Literals::default()),
            MatchKind::NotEqual => (MatchOp::NotEqual, 0, Literals::default()),
            MatchKind::Matches => {
                let (regex, hir) = expression(value)?;
                (MatchOp::Matches(regex), literals::states(&hir), Literals::of(&hir))
            }
            MatchKind::NotMatches => {
                let (regex, hir) = expression(value)?;
                (MatchOp::NotMatches(regex), literals::states(&hir), Literals::default())
            }
        };
        Ok(Matcher::of(op, name, value, states, literals))
    }

    /// About how many states an automaton of its regular expression has; 0 without one.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Whether a test of the value may take many seconds, during which nothing interrupts it: at worst it takes time in
    /// proportion to the value's length times the size of the regular expression.
    pub fn takes_long(&self, value: &str) -> bool {
        takes_long(self.states, value)
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

/// The maximum of a value's bytes times the states of the expression: a search at this limit takes some seconds.
const SEARCH_MAX: usize = 1 << 30;

/// Whether a search of a value with this many states exceeds [`SEARCH_MAX`].
pub(crate) fn takes_long(states: usize, value: &str) -> bool {
    states.saturating_mul(value.len()) > SEARCH_MAX
}

/// A regular expression for whole values, and its parts.
fn expression(value: &str) -> Result<(Regex, Hir)> {
    let translated = re2::translated(value);
    let regex = Regex::new(&literals::of_test(&translated));
    // An error shows the expression with its groups.
    let regex = regex.or_else(|_| Regex::new(&anchored(&translated)));
    let regex = regex.map_err(|error| Error::bad_data(error.to_string()))?;
    // The expression must be valid on its own: it must not close the group that `anchored` puts around it.
    let hir = literals::hir(&translated).map_err(Error::bad_data)?;
    Ok((regex, hir))
}

/// A regular expression for whole values, in the syntax of `regex`. A dot matches line feeds, too.
pub(crate) fn whole(pattern: &str) -> String {
    anchored(&re2::translated(pattern))
}

/// As [`whole`], for an expression that is in the syntax of `regex` already.
fn anchored(translated: &str) -> String {
    format!("^(?s:{translated})$")
}

/// The maximum number of states of all regular expressions of a request, estimated; they take some 100 MB.
const REGEX_STATES_MAX: usize = 1_000_000;

/// Counts the states of a request's regular expressions: one as short as `\pL{40}` takes megabytes.
#[derive(Debug, Default)]
pub struct RegexStates(usize);

impl RegexStates {
    /// Adds the states of a matcher.
    ///
    /// # Errors
    /// The sum exceeds the limit.
    pub fn add(&mut self, matcher: &Matcher) -> Result<()> {
        self.add_states(matcher.states())
    }

    /// Adds the states of the regular expression of `label_replace`. The evaluation reports an invalid one.
    pub(crate) fn add_replaced(&mut self, pattern: &str) -> Result<()> {
        self.add_states(expression_states(&whole(pattern)))
    }

    fn add_states(&mut self, states: usize) -> Result<()> {
        self.0 = self.0.saturating_add(states);
        if self.0 > REGEX_STATES_MAX {
            return Err(Error::bad_data("the regular expressions are too large"));
        }
        Ok(())
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        (&self.name, &self.value, self.operator()) == (&other.name, &other.value, other.operator())
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}{}", self.name, self.operator(), quoted(&self.value))
    }
}

/// The `@` modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Start,
    End,
    Time(i64),
}

/// How samples outside of a range's borders are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// The value at a border is the last sample before it.
    Anchored,
    /// The value at a border is interpolated between the samples around it.
    Smoothed,
}

/// The times that a selector or a subquery reads, relative to the evaluation time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub range: i64,
    pub offset: i64,
    /// The time that `@` names.
    pub at: Option<i64>,
}

impl Window {
    /// The window's end for an evaluation time.
    pub(crate) fn reference(&self, time: i64) -> i64 {
        self.at.unwrap_or(time) - self.offset
    }
}

/// A selector of series in the query's text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selector {
    pub matchers: Vec<Matcher>,
    /// `range` is 0 for an instant vector.
    pub window: Window,
    pub is_range: bool,
    pub extension: Option<Extension>,
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
    Call(Call),
    Info(Box<Info>),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negate { expr: Box<Node>, invariant: bool, kind: ValueKind },
}

#[derive(Debug)]
pub(crate) struct Call {
    pub function: &'static Function,
    pub args: Vec<Node>,
    /// The bytes of the query at which the call and its arguments begin.
    pub at: usize,
    pub args_at: Vec<usize>,
    pub invariant: bool,
}

/// `info`: adds labels of info series.
#[derive(Debug)]
pub(crate) struct Info {
    pub expr: Node,
    /// The selector of the info series.
    pub selector: usize,
    /// The query's matchers of metric names and of other labels.
    pub names: Vec<Matcher>,
    pub matchers: Vec<Matcher>,
    pub invariant: bool,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: AggregateOp,
    pub expr: Node,
    pub param: Option<Node>,
    /// The byte of the query at which the parameter begins.
    pub param_at: usize,
    pub grouping: Grouping,
    pub invariant: bool,
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

/// The labels of a series that a sorted list has (`only`), or those that it lacks, without the ones that describe the metric.
pub(crate) fn listed(labels: &Labels, list: &[Arc<str>], only: bool) -> Labels {
    if only {
        labels.filtered(|name| lists(list, name))
    } else {
        labels.filtered(|name| !lists(list, name) && !METADATA.contains(&name))
    }
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cardinality {
    #[default]
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
    has_subqueries: bool,
    pub(crate) times: QueryTimes,
    /// For positions in it.
    pub(crate) query: String,
}

impl Plan {
    /// Whether the query has subqueries. These make any number of steps, whatever data there is.
    pub fn has_subqueries(&self) -> bool {
        self.has_subqueries
    }
}

impl Node {
    pub(crate) fn kind(&self) -> ValueKind {
        match self {
            Node::Number(_) => ValueKind::Scalar,
            Node::Text(_) => ValueKind::String,
            Node::Vector { .. } | Node::Aggregate(_) | Node::Info(_) => ValueKind::Vector,
            Node::Range { .. } | Node::Subquery { .. } => ValueKind::Matrix,
            Node::Call(call) => call.function.returns,
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
            Node::Call(call) => call.invariant,
            Node::Negate { invariant, .. } => *invariant,
            Node::Info(info) => info.invariant,
            Node::Aggregate(aggregate) => aggregate.invariant,
            Node::Binary(binary) => binary.invariant,
        }
    }
}

/// The plan of a query for these times. Experimental functions of Prometheus are enabled.
pub fn parse(query: &str, times: QueryTimes, limits: &Limits) -> Result<Plan> {
    let tree = syntax::parse(query, limits)?;
    times.check()?;
    let kind = tree.kind();
    if !times.is_instant() && !matches!(kind, ValueKind::Scalar | ValueKind::Vector) {
        let kind = kind.documented();
        return Err(Error::bad_data(format!(
            "invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
        )));
    }
    lower::lower(query, &tree, times)
}

/// The matchers of each selector of a query, the second argument of `info` among them. Durations are not computed: they may
/// depend on the times of an evaluation.
pub fn parse_selectors_of(query: &str, limits: &Limits) -> Result<Vec<Vec<Matcher>>> {
    let tree = syntax::parse(query, limits)?;
    let (mut found, mut rest) = (Vec::new(), vec![&tree]);
    while let Some(expr) = rest.pop() {
        if let ExprKind::Vector(selector) | ExprKind::Range { selector, .. } = &expr.kind {
            found.push(lower::matchers(selector));
        }
        rest.extend(expr.children());
    }
    Ok(found)
}

/// The matchers of a selector, as `match[]` takes them; all of them may match nothing.
pub fn parse_selector(text: &str, limits: &Limits) -> Result<Vec<Matcher>> {
    Ok(lower::matchers(&syntax::parse_selector(text, limits)?))
}
