//! Metrics as series of samples: raw points where kept, otherwise buckets of aggregates.
//!
//! `query` defines what is requested, `segments` where it comes from, `read` reads it for many metrics in
//! parallel. The API defines the meaning of series, and checks permissions.

mod query;
mod read;
mod segments;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use gnudi_model::{ArchivePolicy, MetricId};

pub use query::{Resolution, SampleQuery, Stamp, Values};

/// A metric to read.
#[derive(Clone, Debug)]
pub struct SampledMetric {
    pub metric: MetricId,
    pub policy: Arc<ArchivePolicy>,
}

/// A metric's samples: times in milliseconds, strictly ascending, and as many values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    pub times_ms: Vec<i64>,
    pub values: Vec<f64>,
    /// The number of measures in each value, if requested and some values are of buckets.
    pub counts: Option<Vec<f64>>,
    /// The lookback of the samples, if some of them are of buckets: see [`SampleQuery::lookback_ms`].
    pub lookback_ms: Option<i64>,
}
