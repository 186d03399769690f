//! Metrics as series of samples: raw points where they are kept, buckets of aggregates elsewhere.
//!
//! `query` says what is wanted, `segments` where it comes from, `read` reads it for many metrics on all processors. What series mean, and who
//! may read them, is the API's business.

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

/// The samples of a metric: times in milliseconds, ascending without repetition, and as many values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    pub times_ms: Vec<i64>,
    pub values: Vec<f64>,
    /// Of how many measures each value is the sum, where that was asked for and some are of buckets.
    pub counts: Option<Vec<f64>>,
    /// How far instant vectors look back, where some samples are of buckets.
    pub lookback_ms: Option<i64>,
}
