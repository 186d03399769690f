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
    pub memory_metrics: usize,
    /// Few and many metrics, and measures spread over either; zero skips the row.
    pub few_metrics: usize,
    pub many_metrics: usize,
    pub many_measures: usize,
}

impl Counts {
    pub fn new(peer: Peer) -> Self {
        let of = |usual, gnocchi| if peer == Peer::Gnocchi { gnocchi } else { usual };
        Counts {
            load: Duration::from_millis(500),
            push_metrics: of(200, 100),
            metadata_metrics: of(20_000, 1_000),
            resources: of(20_000, 500),
            aggregate_metrics: of(1_000, 20),
            aggregate_resources: of(100_000, 20),
            read_metrics: of(4, 1),
            year_points: of(365, 60) * 24 * 60,
            day_metrics: of(280, 20),
            process_metrics: of(20_000, 200),
            stream_metrics: of(20_000, 200),
            stream_rounds: of(60, 10),
            stream_single_rounds: of(5, 1),
            memory_metrics: of(20_000, 200),
            few_metrics: 1_000,
            many_metrics: of(50_000, 0),
            many_measures: 1_000_000,
        }
    }
}
