//! Reads a metric's aggregates: its head, the sealed blocks in the range, joined by `gnudi_series::read`.

use gnudi_drivers::aggregates::{AggregateStore, BlockRange};
use gnudi_model::{Aggregation, ArchivePolicy, MetricId, Timespan, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    read::{self, ReadError},
};

pub use gnudi_series::resample::Resample;

use crate::EngineError;

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

/// One aggregation's points, oldest first; both columns have the same length.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Of the stored aggregation; a resampled answer still names it.
    pub granularity: Timespan,
    pub timestamps: Vec<Timestamp>,
    pub values: Vec<f64>,
}

pub(crate) async fn measures(
    store: &dyn AggregateStore,
    metric: MetricId,
    policy: &ArchivePolicy,
    query: &MeasuresQuery,
) -> Result<Vec<Measures>, EngineError> {
    // The head before the blocks: rows that are sealed in between are then seen twice, which joining resolves, and
    // never missed.
    let head = store.read_heads(&[metric]).await.pop().expect("one answer per metric")?;
    let Some(head) = head else {
        return Ok(query.aggregations.iter().map(|aggregation| empty(aggregation.granularity)).collect());
    };
    let damaged = |reason: String| EngineError::Damaged { metric, reason };
    let head = Head::decode(&head).map_err(|error| damaged(error.to_string()))?;
    let layout = Layout::of(policy);
    let ranges: Vec<BlockRange> = query
        .aggregations
        .iter()
        .map(|aggregation| {
            let (from, to) = read::block_range(*aggregation, query.start, query.stop, query.resample);
            BlockRange { metric, granularity: aggregation.granularity, from, to }
        })
        .collect();
    let mut answers = Vec::with_capacity(ranges.len());
    for (aggregation, blocks) in query.aggregations.iter().zip(store.read_blocks(&ranges).await) {
        let blocks = blocks?;
        let blocks: Vec<_> = blocks.iter().map(|(key, bytes)| (key.first, key.last, &bytes[..])).collect();
        let series = read::assemble(
            &blocks,
            Some(&head),
            &layout,
            *aggregation,
            query.start,
            query.stop,
            query.resample,
        )
        .map_err(|error| match error {
            ReadError::Codec(error) => damaged(error.to_string()),
            refused => EngineError::Resample(refused.to_string()),
        })?;
        answers.push(Measures {
            granularity: series.granularity,
            timestamps: series.timestamps,
            values: series.values,
        });
    }
    Ok(answers)
}

fn empty(granularity: Timespan) -> Measures {
    Measures { granularity, timestamps: Vec::new(), values: Vec::new() }
}
