//! The language of `/v1/aggregates`: a tree of operations over the series of many metrics.
//!
//! The API parses a request to an [`Operation`]; [`evaluate`] computes it on a grid of times and series.
//! Results equal numpy's, as Gnocchi's operations are numpy functions: NaN handling, the order of summation,
//! and comparisons that give booleans, which have their own arithmetic.
//!
//! [`operator`] and [`reaggregation`] contain the names; [`text`] prints a tree as Python prints its lists,
//! for error texts. The API parses JSON and S-expressions.

mod elementwise;
mod evaluate;
mod operator;
mod reaggregation;
mod reduce;
mod rolling;
mod sum;
mod text;
mod value;

use crate::resample::Resample;
use gnudi_model::AggregationMethod;

pub use evaluate::{CELLS_HELD_MAX, Evaluated, Grid, Names, OperationError, VALUES_TOUCHED_MAX, evaluate};
pub use operator::{BinaryFunction, BinaryOperator, Operator, UnaryFunction, UnaryOperator, UnknownOperator};
pub use reaggregation::{CrossStatistic, Reaggregation, UnknownReaggregation};
pub use rolling::summary;

pub(crate) type Result<T, E = OperationError> = std::result::Result<T, E>;

/// The most levels of a tree; a root alone has depth 1. Parsers stop at this depth.
pub const DEPTH_MAX: usize = 64;

/// The most nodes of a tree; a metric node counts once for each of its references.
pub const NODES_MAX: usize = 100_000;

/// The name of series: a metric's id or a pattern of metric names, and the name of a stored aggregation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricName {
    /// As the client wrote it.
    pub name: String,
    /// As the client wrote it; validated where the metric is known.
    pub aggregation: String,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// All series of these names, in the order of the query's references.
    Metric(Metrics),
    Constant(f64),
    Unary {
        operator: UnaryOperator,
        operand: Box<Operation>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<Operation>,
        right: Box<Operation>,
    },
    /// `clip`: the only operator of three operands. Without `max` it equals `clip_min`.
    Clip {
        value: Box<Operation>,
        min: Box<Operation>,
        max: Option<Box<Operation>>,
    },
    /// Aggregates all series into one.
    Aggregate {
        method: Reaggregation,
        operand: Box<Operation>,
    },
    /// Over each window of `window` points of each series, at least 1.
    Rolling {
        method: Reaggregation,
        window: u64,
        operand: Box<Operation>,
    },
    /// Resamples each series as stored series are resampled. `/v1/aggregates` accepts only the names of
    /// [`Reaggregation`] here; see [`Reaggregation::stored`].
    Resample {
        method: AggregationMethod,
        to: Resample,
        operand: Box<Operation>,
    },
}

/// The kind of a tree's result, derived from the tree alone.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    is_array: bool,
    is_aggregated: bool,
}

impl Shape {
    fn or(self, other: Shape) -> Shape {
        Shape {
            is_array: self.is_array || other.is_array,
            is_aggregated: self.is_aggregated || other.is_aggregated,
        }
    }
}

/// The names of a metric node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// `["metric", "name", "aggregation"]`
    One(MetricName),
    /// `["metric", ["name", "aggregation"], ...]`
    Many(Vec<MetricName>),
}

impl Metrics {
    pub fn names(&self) -> &[MetricName] {
        match self {
            Metrics::One(name) => std::slice::from_ref(name),
            Metrics::Many(names) => names,
        }
    }
}

/// The tree exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    #[error("operations may be nested {DEPTH_MAX} deep")]
    Depth,
    #[error("operations may have {NODES_MAX} nodes")]
    Nodes,
}

impl Operation {
    /// The operator; metric nodes and constants have none.
    pub fn operator(&self) -> Option<Operator> {
        match self {
            Operation::Metric(_) | Operation::Constant(_) => None,
            Operation::Unary { operator, .. } => Some(Operator::Unary(*operator)),
            Operation::Binary { operator, .. } => Some(Operator::Binary(*operator)),
            Operation::Clip { .. } => Some(Operator::Clip),
            Operation::Aggregate { .. } => Some(Operator::Aggregate),
            Operation::Rolling { .. } => Some(Operator::Rolling),
            Operation::Resample { .. } => Some(Operator::Resample),
        }
    }

    /// The direct children of this node.
    pub fn operands(&self) -> impl Iterator<Item = &Operation> {
        let operands: [Option<&Operation>; 3] = match self {
            Operation::Metric(_) | Operation::Constant(_) => [None, None, None],
            Operation::Unary { operand, .. }
            | Operation::Aggregate { operand, .. }
            | Operation::Rolling { operand, .. }
            | Operation::Resample { operand, .. } => [Some(operand), None, None],
            Operation::Binary { left, right, .. } => [Some(left), Some(right), None],
            Operation::Clip { value, min, max } => [Some(value), Some(min), max.as_deref()],
        };
        operands.into_iter().flatten()
    }

    /// Every distinct name in the tree, by first mention; the references of a query have this order.
    pub fn metric_names(&self) -> Vec<&MetricName> {
        let (mut names, mut seen) = (Vec::new(), std::collections::HashSet::new());
        self.collect_names(&mut |name| {
            if seen.insert(name) {
                names.push(name);
            }
        });
        names
    }

    fn collect_names<'a>(&'a self, each: &mut impl FnMut(&'a MetricName)) {
        if let Operation::Metric(metrics) = self {
            metrics.names().iter().for_each(&mut *each);
        }
        for operand in self.operands() {
            operand.collect_names(each);
        }
    }

    /// The number of nodes of the tree; each name counts as one.
    pub fn nodes(&self) -> usize {
        let own = if let Operation::Metric(metrics) = self { metrics.names().len() } else { 1 };
        own + self.operands().map(Operation::nodes).sum::<usize>()
    }

    /// Whether the tree aggregates its series into one; equals [`Evaluated::aggregated`].
    pub fn is_aggregated(&self) -> bool {
        self.shape().is_aggregated
    }

    fn shape(&self) -> Shape {
        let mut shapes = self.operands().map(Operation::shape);
        match self {
            Operation::Metric(_) => Shape { is_array: true, is_aggregated: false },
            Operation::Constant(_) => Shape { is_array: false, is_aggregated: false },
            Operation::Aggregate { .. } => Shape { is_array: true, is_aggregated: true },
            Operation::Clip { max: None, .. } => shapes.fold(Shape::default(), Shape::or),
            // Series combined with series give one.
            Operation::Binary { .. } | Operation::Clip { .. } => {
                let shapes: Vec<Shape> = shapes.collect();
                let is_joined = shapes.iter().all(|shape| shape.is_array);
                let combined = shapes.into_iter().fold(Shape::default(), Shape::or);
                Shape { is_aggregated: combined.is_aggregated || is_joined, ..combined }
            }
            Operation::Unary { .. } | Operation::Rolling { .. } | Operation::Resample { .. } => {
                shapes.next().expect("it has an operand")
            }
        }
    }

    /// An error if the tree exceeds [`DEPTH_MAX`] or [`NODES_MAX`].
    pub fn check_size(&self) -> Result<(), TooLarge> {
        let mut level: Vec<&Operation> = vec![self];
        let mut nodes = 0;
        for _ in 0..DEPTH_MAX {
            for node in &level {
                nodes += if let Operation::Metric(metrics) = node { metrics.names().len() } else { 1 };
            }
            if nodes > NODES_MAX {
                return Err(TooLarge::Nodes);
            }
            level = level.into_iter().flat_map(Operation::operands).collect();
            if level.is_empty() {
                return Ok(());
            }
        }
        Err(TooLarge::Depth)
    }
}
