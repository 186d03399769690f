//! Limits on the content of requests. Limits of the HTTP layer are [`gnudi_server::HttpLimits`].

use crate::error::{ApiError, Result};

/// Limits on a request. Each default is far above what Gnocchi's clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a query string (400).
    pub query_arguments_max: usize,
    /// Bytes of points and details in all responses that clients have not read yet (503).
    pub answers_bytes_max: usize,
    /// Measures of a request (413).
    pub measures_max: usize,
    /// Metrics of a batch, or of a resource in a request (413).
    pub batch_metrics_max: usize,
    /// Bytes of a body after decompression (413).
    pub inflated_bytes_max: usize,
    /// Resources, and series of their metrics, of an aggregation across metrics (413).
    pub aggregate_references_max: usize,
}

impl Limits {
    /// Refuses (413) more metrics than [`Limits::batch_metrics_max`].
    pub fn check_metrics(&self, count: usize) -> Result<()> {
        if count > self.batch_metrics_max {
            return Err(ApiError::too_large(format!(
                "There are more than {} metrics",
                self.batch_metrics_max
            )));
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            query_arguments_max: 256,
            answers_bytes_max: 512 << 20,
            measures_max: 500_000,
            batch_metrics_max: 50_000,
            inflated_bytes_max: 64 << 20,
            aggregate_references_max: 200_000,
        }
    }
}
