//! The language of `/v1/aggregates`: a tree of operations over the series of many metrics.
//!
//! An [`Operation`] is made by whoever reads requests; [`evaluate`] computes it on a grid of times and series. Numbers
//! are numpy's, since Gnocchi's operations are numpy's functions: what is a NaN, in which order sums are added, and that
//! comparisons give truth values, with which arithmetic goes on by rules of its own.
//!
//! [`operator`] and [`reaggregation`] hold the names; [`text`] prints a tree as Python prints its lists, for error
//! texts. Reading a tree from JSON or an S-expression is the API's job.

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

/// A tree may be so deep: a root alone has depth 1. Whoever builds a tree stops there.
pub const DEPTH_MAX: usize = 64;

/// A tree may have so many nodes; a metric node counts once for each of its references.
pub const NODES_MAX: usize = 100_000;

/// The name of series: a metric's id, or a pattern of metric names, and the name of a stored aggregation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricName {
    /// As the client wrote it.
    pub name: String,
    /// As the client wrote it; whether there is such a method is checked where the metric is known.
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
    /// `clip`: the only operator of three operands. Without `max` it is `clip_min`.
    Clip {
        value: Box<Operation>,
        min: Box<Operation>,
        max: Option<Box<Operation>>,
    },
    /// Makes one series of all.
    Aggregate {
        method: Reaggregation,
        operand: Box<Operation>,
    },
    /// Over each series' last `window` points, at least 1.
    Rolling {
        method: Reaggregation,
        window: u64,
        operand: Box<Operation>,
    },
    /// Each series on its own, as stored series are resampled. `/v1/aggregates` takes only the names of
    /// [`Reaggregation`] here, see [`Reaggregation::stored`].
    Resample {
        method: AggregationMethod,
        to: Resample,
        operand: Box<Operation>,
    },
}

/// What a tree evaluates to, as far as the tree alone tells.
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

/// What a metric node names.
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

/// The tree is larger than anybody needs.
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

    /// The nodes right under this one.
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

    /// Every name in the tree once, in the order of their first mention: the references of a query come in this order.
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

    /// Nodes of the tree, each name counted as one.
    pub fn nodes(&self) -> usize {
        let own = if let Operation::Metric(metrics) = self { metrics.names().len() } else { 1 };
        own + self.operands().map(Operation::nodes).sum::<usize>()
    }

    /// Whether the tree makes one series of those that it names, as [`Evaluated::aggregated`] says afterwards.
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
            // Series that are combined with series become one, whatever they are.
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

    /// Refuses a tree beyond [`DEPTH_MAX`] or [`NODES_MAX`].
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
