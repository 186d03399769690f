//! Sizes of the rows' work, by peer.

use std::time::Duration;

use crate::peers::Peer;

/// Sizes of a peer's work. Gnocchi gets less where it would take hours: rates, not counts, are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Duration of a load with a fixed time.
    pub load: Duration,
    /// Metrics of pushes.
    pub push_metrics: usize,
    /// Metrics to create, show and delete.
    pub metadata_metrics: usize,
    /// Resources to create, show and search.
    pub resources: usize,
    /// Metrics with a day by the minute, aggregated together.
    pub aggregate_metrics: usize,
    /// Resources with a history and a metric each, aggregated together.
    pub aggregate_resources: usize,
    /// Metrics with a month by the minute, read in turn.
    pub read_metrics: usize,
    /// Points of a metric that is read completely.
    pub year_points: usize,
    /// Metrics whose last day is read.
    pub day_metrics: usize,
    /// Metrics that get 60 points each.
    pub process_metrics: usize,
    /// Metrics and rounds of single measures streamed over them, in batches.
    pub stream_metrics: usize,
    pub stream_rounds: usize,
    /// Rounds of the same with a call per measure.
    pub stream_single_rounds: usize,
    /// Idle metrics.
    pub memory_metrics: usize,
    /// Few and many metrics, and measures spread over either; zero skips the row.
    pub few_metrics: usize,
    pub many_metrics: usize,
    pub many_measures: usize,
}

impl Counts {
    pub fn new(peer: Peer) -> Self {
        let usual = Counts {
            load: Duration::from_millis(500),
            push_metrics: 200,
            metadata_metrics: 20_000,
            resources: 20_000,
            aggregate_metrics: 1_000,
            aggregate_resources: 100_000,
            read_metrics: 4,
            year_points: 365 * 24 * 60,
            day_metrics: 280,
            process_metrics: 20_000,
            stream_metrics: 20_000,
            stream_rounds: 60,
            stream_single_rounds: 5,
            memory_metrics: 20_000,
            few_metrics: 1_000,
            many_metrics: 50_000,
            many_measures: 1_000_000,
        };
        if peer != Peer::Gnocchi {
            return usual;
        }
        Counts {
            push_metrics: 100,
            metadata_metrics: 1_000,
            resources: 500,
            aggregate_metrics: 20,
            aggregate_resources: 20,
            read_metrics: 1,
            year_points: 60 * 24 * 60,
            day_metrics: 20,
            process_metrics: 200,
            stream_metrics: 200,
            stream_rounds: 10,
            stream_single_rounds: 1,
            memory_metrics: 200,
            many_metrics: 0,
            ..usual
        }
    }
}
