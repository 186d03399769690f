//! Aggregates across metrics: reads the series of many metrics in bulk, and evaluates operations on them.
//!
//! `plan` decides what to read and rejects what Gnocchi rejects, `bulk` reads it in parallel;
//! `gnudi_series::cross` does the maths. The API checks permissions, and formats the result.

mod bulk;
mod plan;

use std::sync::Arc;

use gnudi_model::{ArchivePolicy, MetricId, Timespan, Timestamp};
use gnudi_series::{
    cross::{self, CrossError, CrossMeasures, CrossQuery, CrossSeries, Fill},
    operations::{MetricName, Operation},
};

use crate::{Engine, EngineError};

pub use bulk::{Bulk, HeldPoints, MetricRead, POINTS_MAX};

/// One series of a query: a metric and one of its aggregations.
#[derive(Clone, Debug)]
pub struct CrossReference {
    pub metric: MetricId,
    pub policy: Arc<ArchivePolicy>,
    /// For error texts: the metric's id, or its name if it was requested by resource.
    pub shown_name: String,
    /// Its name in the operations: the id, or the pattern that its name matches; and the aggregation's name.
    pub name: MetricName,
}

/// A query across metrics.
#[derive(Clone, Debug)]
pub struct CrossMeasuresQuery {
    /// At least one; a metric may occur several times. Defines the order of the result's columns.
    pub references: Vec<CrossReference>,
    /// Its size must have been checked: see [`Operation::check_size`].
    pub operations: Arc<Operation>,
    /// `None`: those that all metrics have in common.
    pub granularities: Option<Vec<Timespan>>,
    /// The first bucket is the one that contains it.
    pub start: Option<Timestamp>,
    /// Exclusive.
    pub stop: Option<Timestamp>,
    /// In percent; only without `fill`.
    pub needed_overlap: f64,
    pub fill: Option<Fill>,
    /// See [`CrossQuery::may_be_empty`].
    pub may_be_empty: bool,
}

/// Why a query across metrics failed.
#[derive(Debug, thiserror::Error)]
pub enum CrossMeasuresError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The series cannot be combined, or the operations are meaningless for them.
    #[error(transparent)]
    Cross(#[from] CrossError),
    /// A metric's policy does not keep the aggregation (404). The granularity is the policy's first.
    #[error("Aggregation method '{method}' at granularity '{}' for metric {metric} does not exist", granularity.to_python_text())]
    UnknownAggregation { metric: MetricId, method: String, granularity: Timespan },
    /// More than [`POINTS_MAX`] (413).
    #[error("more than {POINTS_MAX} points would have to be read: query fewer metrics or a shorter range")]
    TooManyPoints,
    /// The running queries hold too many points in total (503).
    #[error("too many large queries are running")]
    TooManyHeld,
}

impl Engine {
    /// Aggregates across metrics, one result per granularity, coarsest first, without waiting measures.
    pub async fn cross_measures(
        &self,
        query: CrossMeasuresQuery,
    ) -> Result<Vec<CrossMeasures>, CrossMeasuresError> {
        assert!(!query.references.is_empty(), "a query has a reference");
        let plan::Plan { granularities, reads, places } = plan::plan(&query)?;
        let (series, held) = self.measures_of_many(reads, query.start, query.stop, POINTS_MAX).await?;
        let evaluating = move || {
            let _held = held;
            evaluate(query, &granularities, &places, series)
        };
        self.compute(evaluating).await
    }
}

/// `series` are indexed by read and aggregation.
fn evaluate(
    query: CrossMeasuresQuery,
    granularities: &[Timespan],
    places: &[plan::Place],
    mut series: Vec<Vec<CrossSeries>>,
) -> Result<Vec<CrossMeasures>, CrossMeasuresError> {
    let names: Vec<MetricName> = query.references.into_iter().map(|reference| reference.name).collect();
    let cross_query = CrossQuery {
        operations: &query.operations,
        start: query.start,
        stop: query.stop,
        needed_overlap: query.needed_overlap,
        fill: query.fill,
        may_be_empty: query.may_be_empty,
    };
    let mut answers = Vec::with_capacity(granularities.len());
    for (index, &granularity) in granularities.iter().enumerate() {
        let take = |place: &plan::Place| {
            let series = &mut series[place.read][place.first_aggregation + index];
            // The last use takes it, earlier ones clone it.
            if place.is_last { std::mem::take(series) } else { series.clone() }
        };
        let columns = places.iter().map(take).collect();
        answers.push(cross::cross(&names, granularity, columns, &cross_query)?);
    }
    Ok(answers)
}
