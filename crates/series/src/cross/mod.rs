//! The series of many metrics at once: joined on a common grid of times, filled where they have gaps, checked for their
//! overlap, and given to [`crate::operations`].
//!
//! What is read, and which granularities the metrics have in common, is decided before; this is only maths.

mod clock;
mod fill;
mod join;

use std::{borrow::Cow, sync::Arc};

use gnudi_model::{Timespan, Timestamp};

use crate::{
    operations::{Grid, MetricName, Names, Operation, OperationError, evaluate},
    resample::Resample,
};

pub use clock::{Clock, ClockTime};
pub use fill::{Fill, UnknownFill};
pub use join::CELLS_MAX;

/// What is asked of the series.
#[derive(Clone, Debug)]
pub struct CrossQuery<'a> {
    /// Its size has been checked.
    pub operations: &'a Operation,
    /// The series were cut by these. An end that is not given is where the series begin or cease to overlap.
    pub start: Option<Timestamp>,
    pub stop: Option<Timestamp>,
    /// In percent: how many of the times all series must have. Only without `fill`.
    pub needed_overlap: f64,
    /// `None` takes the series as they are, and demands overlap.
    pub fill: Option<Fill>,
    /// Whether there is an answer, without points, where there is nothing to compute on: no points, no time that all series
    /// have, or no series of a name. Otherwise most of these are errors, as in Gnocchi.
    pub may_be_empty: bool,
}

/// Why series cannot be aggregated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CrossError {
    /// Gnocchi's `UnAggregableTimeseries` (400).
    #[error("{}", .0.reason)]
    Unaggregable(Box<Unaggregable>),
    /// What Gnocchi answers 500 to, or a limit (400).
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// More than [`CELLS_MAX`] (413).
    #[error("the timeseries have more than {CELLS_MAX} points on their common times: ask for less")]
    TooManyPoints,
}

/// The parts of Gnocchi's error body, beside its `cause`, "Metrics cannot be aggregated".
#[derive(Clone, Debug, PartialEq)]
pub struct Unaggregable {
    pub reason: String,
    /// `detail`: for each a list of name, aggregation and, where there is one, granularity.
    pub references: Vec<(MetricName, Option<Timespan>)>,
}

impl CrossError {
    /// An error about all `names`.
    pub fn unaggregable<'a>(
        names: impl IntoIterator<Item = &'a MetricName>,
        reason: impl Into<String>,
    ) -> Self {
        let references = names.into_iter().map(|name| (name.clone(), None)).collect();
        CrossError::Unaggregable(Box::new(Unaggregable { reason: reason.into(), references }))
    }
}

/// One metric's points of one aggregation, oldest first; both have the same length. Series that were read together and
/// have the same times share them, which saves comparing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossSeries {
    pub timestamps: Arc<Vec<Timestamp>>,
    pub values: Vec<f64>,
}

/// One granularity's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossMeasures {
    /// Of the stored series, or what the operations resampled them to.
    pub granularity: Resample,
    /// Whether the series were made one: then there is one column, otherwise one for each reference, in their order.
    pub aggregated: bool,
    /// Columns without gaps share their times.
    pub columns: Vec<CrossSeries>,
}

impl CrossMeasures {
    /// The operations' answer where they name no series at all; of whichever granularity, as it has no points.
    pub fn without_series(operations: &Operation) -> Self {
        CrossMeasures::empty(Resample::Span(Timespan(0)), 0, operations)
    }

    /// The operations' answer on so many series without points.
    fn empty(granularity: Resample, series: usize, operations: &Operation) -> Self {
        let aggregated = operations.is_aggregated();
        let columns = vec![CrossSeries::default(); if aggregated { 1 } else { series }];
        CrossMeasures { granularity, aggregated, columns }
    }
}

/// Answers for one granularity. There is a series for each of `names`, at least one; several may have the same name.
pub fn cross(
    names: &[MetricName],
    granularity: Timespan,
    series: Vec<CrossSeries>,
    query: &CrossQuery<'_>,
) -> Result<CrossMeasures, CrossError> {
    assert_eq!(names.len(), series.len(), "each series has its name");
    let mut grid = join::join(granularity, series, query.fill)?;
    fill::fill(&mut grid.columns, query.fill);
    let names_known: Names = names.iter().collect();
    let granularity = Resample::Span(granularity);
    let empty = || CrossMeasures::empty(granularity, names.len(), query.operations);
    if query.may_be_empty && !names_known.have_all(query.operations) {
        return Ok(empty());
    }
    let range = match query.fill {
        None if query.may_be_empty && query.needed_overlap > 0.0 && !grid.complete_rows().contains(&true) => {
            0..0
        }
        None => overlap(names, &grid, query)?,
        Some(_) => 0..grid.times.len(),
    };
    if query.may_be_empty && range.is_empty() {
        return Ok(empty());
    }
    let times = &grid.times[range.clone()];
    let columns: Vec<&[f64]> = grid.columns.iter().map(|column| &column[range.clone()]).collect();
    let evaluated =
        evaluate(query.operations, &Grid { granularity, times, columns: &columns, names: &names_known });
    let evaluated = evaluated.map_err(|error| match error {
        OperationError::GranularityMismatch(..) | OperationError::Window { .. } => {
            CrossError::unaggregable(names, error.to_string())
        }
        other => other.into(),
    })?;
    let wanted = if evaluated.aggregated { 1 } else { names.len() };
    if evaluated.columns.len() < wanted {
        return Err(OperationError::NoSeries.into());
    }
    let times = match evaluated.times {
        Cow::Borrowed(times) if times.len() == grid.times.len() => grid.times.clone(),
        times => Arc::new(times.into_owned()),
    };
    let drop_gaps = query.fill.is_some_and(Fill::drops_gaps);
    let columns = evaluated.columns.into_iter().take(wanted).map(|column| finish(&times, column, drop_gaps));
    let columns = columns.collect();
    Ok(CrossMeasures { granularity: evaluated.granularity, aggregated: evaluated.aggregated, columns })
}

/// The times that are left: from the first to the last that all series have, where no ends are given.
fn overlap(
    names: &[MetricName],
    grid: &join::Joined,
    query: &CrossQuery<'_>,
) -> Result<std::ops::Range<usize>, CrossError> {
    let complete = grid.complete_rows();
    let count = complete.iter().filter(|complete| **complete).count();
    let (first, last) =
        (complete.iter().position(|complete| *complete), complete.iter().rposition(|complete| *complete));
    if count == 0 && query.needed_overlap > 0.0 {
        return Err(CrossError::unaggregable(names, "No overlap"));
    }
    let end = last.filter(|_| query.stop.is_none()).map_or(complete.len(), |last| last + 1);
    let begin = first.filter(|_| query.start.is_none()).unwrap_or(0);
    if !complete.is_empty() {
        let percent = count as f64 * 100.0 / (end - begin) as f64;
        if percent < query.needed_overlap {
            let reason = format!(
                "Less than {:.6}% of datapoints overlap in this timespan ({percent:.2}%)",
                query.needed_overlap
            );
            return Err(CrossError::unaggregable(names, reason));
        }
    }
    Ok(begin..end)
}

fn finish(times: &Arc<Vec<Timestamp>>, column: Cow<'_, [f64]>, drop_gaps: bool) -> CrossSeries {
    if !drop_gaps || column.iter().all(|value| value.is_finite()) {
        return CrossSeries { timestamps: times.clone(), values: column.into_owned() };
    }
    let present = times.iter().zip(column.iter()).filter(|(_, value)| value.is_finite());
    let (timestamps, values) = present.map(|(time, value)| (*time, *value)).unzip();
    CrossSeries { timestamps: Arc::new(timestamps), values }
}
