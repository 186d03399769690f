//! Results of queries.

use crate::labels::Labels;

/// A sample of an instant vector.
#[derive(Debug, Clone)]
pub struct Sample {
    pub labels: Labels,
    pub time_ms: i64,
    pub value: f64,
}

/// A series of a matrix: (time in milliseconds, value), ascending.
#[derive(Debug, Clone)]
pub struct SampleSeries {
    pub labels: Labels,
    pub samples: Vec<(i64, f64)>,
}

/// The value of a query.
#[derive(Debug, Clone)]
pub enum Value {
    Scalar { time_ms: i64, value: f64 },
    String { time_ms: i64, value: String },
    Vector(Vec<Sample>),
    Matrix(Vec<SampleSeries>),
}

impl Value {
    /// The `resultType` of Prometheus' HTTP API.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Scalar { .. } => "scalar",
            Value::String { .. } => "string",
            Value::Vector(_) => "vector",
            Value::Matrix(_) => "matrix",
        }
    }
}

/// The cost of an evaluation, counted as in Prometheus. Samples of a subquery count once, not per window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Samples read by the steps; overlapping windows count repeatedly.
    pub queried_samples: u64,
    /// Samples read by the steps; overlapping windows count once.
    pub read_samples: u64,
    /// Maximum samples in memory.
    pub peak_samples: usize,
    /// Series of all selectors.
    pub series: u64,
}

/// A value with annotations.
#[derive(Debug, Clone)]
pub struct QueryResult {
    pub value: Value,
    pub warnings: Vec<String>,
    pub infos: Vec<String>,
    pub usage: Usage,
}
