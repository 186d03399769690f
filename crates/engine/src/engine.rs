//! The engine: what the API calls.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::{
    aggregates::StoreError,
    incoming::{Batch, Incoming, IncomingError},
};
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{Aggregation, ArchivePolicy, MetricId, Timespan, Timestamp};

/// What to read of one metric.
#[derive(Clone, Debug)]
pub struct MeasuresQuery {
    /// The aggregations wanted, coarsest granularity first.
    pub aggregations: Vec<Aggregation>,
    /// The bucket that holds it is the first.
    pub start: Option<Timestamp>,
    /// Exclusive.
    pub stop: Option<Timestamp>,
    pub resample: Option<Resample>,
}

/// Into what buckets stored points are aggregated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    Span(Timespan),
    /// `Y`, `H`, `Q`, `M` or `W`.
    Calendar(char),
}

/// One aggregation's points, oldest first; both columns have the same length.
#[derive(Clone, Debug)]
pub struct Measures {
    pub granularity: Timespan,
    pub timestamps: Vec<Timestamp>,
    pub values: Vec<f64>,
}

/// What `/v1/status` shows of the workers.
#[derive(Clone, Debug, Default)]
pub struct ProcessingStatus {
    pub processors: Vec<String>,
    pub metrics_waiting: u64,
    pub measures_waiting: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Indexer(#[from] IndexerError),
    /// Waiting measures were not folded within the operation timeout (503).
    #[error("Unable to refresh metric: {0}. Metric is locked. Please try again.")]
    RefreshTimeout(MetricId),
}

pub struct Engine {
    indexer: Arc<dyn Indexer>,
    incoming: Arc<dyn Incoming>,
}

impl Engine {
    pub fn indexer(&self) -> &dyn Indexer {
        &*self.indexer
    }

    /// Takes measures; `Ok` means durable.
    pub async fn append(&self, batch: Batch) -> Result<(), EngineError> {
        Ok(self.incoming.append(batch).await?)
    }

    /// Folds what waits for the metrics now, and returns when it can be read.
    pub async fn refresh(&self, _metrics: &[MetricId], _timeout: Duration) -> Result<(), EngineError> {
        todo!()
    }

    /// The points of each aggregation of the query, in its order.
    pub async fn measures(
        &self,
        _metric: MetricId,
        _policy: &ArchivePolicy,
        _query: &MeasuresQuery,
    ) -> Result<Vec<Measures>, EngineError> {
        todo!()
    }

    pub async fn status(&self) -> Result<ProcessingStatus, EngineError> {
        todo!()
    }
}
