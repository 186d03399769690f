//! Sizes of the rows' work, by scale and peer.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::peers::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    Small,
    Full,
}

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
    pub fn new(scale: Scale, peer: Peer) -> Self {
        let small = Counts {
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
        let full = Counts {
            load: Duration::from_secs(10),
            push_metrics: 1_000,
            metadata_metrics: 100_000,
            resources: 100_000,
            read_metrics: 8,
            stream_single_rounds: 60,
            many_metrics: 1_000_000,
            many_measures: 5_000_000,
            ..small
        };
        let slow = |factor: usize| Counts {
            push_metrics: 100 * factor,
            metadata_metrics: 1_000 * factor,
            resources: 500 * factor,
            aggregate_metrics: 20 * factor,
            aggregate_resources: 20 * factor,
            read_metrics: factor,
            year_points: 60 * 24 * 60 * factor,
            day_metrics: 20 * factor,
            process_metrics: 200 * factor,
            stream_metrics: 200 * factor,
            stream_rounds: 10,
            stream_single_rounds: 1,
            memory_metrics: 200 * factor,
            many_metrics: 0,
            ..if scale == Scale::Small { small } else { full }
        };
        match (scale, peer) {
            (Scale::Small, Peer::Gnocchi) => slow(1),
            (Scale::Full, Peer::Gnocchi) => slow(4),
            (Scale::Small, _) => small,
            (Scale::Full, _) => full,
        }
    }
}
