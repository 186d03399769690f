//! The series of many metrics: joined on a common grid of times, gaps filled, overlap checked, and evaluated
//! by [`crate::operations`].
//!
//! The caller reads the series and selects the metrics' common granularities; this module only computes.

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

/// A query over many series.
#[derive(Clone, Debug)]
pub struct CrossQuery<'a> {
    /// Its size is validated.
    pub operations: &'a Operation,
    /// The range that the series were cut to. Without a start or stop, the range is limited to where the
    /// series overlap.
    pub start: Option<Timestamp>,
    pub stop: Option<Timestamp>,
    /// The percentage of times that all series must have. Only without `fill`.
    pub needed_overlap: f64,
    /// `None` leaves gaps and requires overlap.
    pub fill: Option<Fill>,
    /// Whether to return an answer without points if there is no input: no points, no common time, or no
    /// series of a name. Otherwise most of these are errors, as in Gnocchi.
    pub may_be_empty: bool,
}

/// Errors of aggregating series.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CrossError {
    /// Gnocchi's `UnAggregableTimeseries` (400).
    #[error("{}", .0.reason)]
    Unaggregable(Box<Unaggregable>),
    /// An error for which Gnocchi answers 500, or a limit (400).
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// More than [`CELLS_MAX`] (413).
    #[error(
        "the timeseries have more than {CELLS_MAX} points on their common times: query fewer metrics or a shorter range"
    )]
    TooManyPoints,
}

/// The fields of Gnocchi's error body, besides its `cause`, "Metrics cannot be aggregated".
#[derive(Clone, Debug, PartialEq)]
pub struct Unaggregable {
    pub reason: String,
    /// `detail`: for each a list of name, aggregation and, if present, granularity.
    pub references: Vec<(MetricName, Option<Timespan>)>,
}

impl CrossError {
    /// An error that lists all `names`.
    pub fn unaggregable<'a>(
        names: impl IntoIterator<Item = &'a MetricName>,
        reason: impl Into<String>,
    ) -> Self {
        let references = names.into_iter().map(|name| (name.clone(), None)).collect();
        CrossError::Unaggregable(Box::new(Unaggregable { reason: reason.into(), references }))
    }
}

/// One metric's points of one aggregation, oldest first; both have the same length. Series that were read
/// together and have the same times share them, which avoids comparing them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossSeries {
    pub timestamps: Arc<Vec<Timestamp>>,
    pub values: Vec<f64>,
}

/// The answer for one granularity.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossMeasures {
    /// The stored granularity, or the one that the operations resampled to.
    pub granularity: Resample,
    /// Whether the series were aggregated into one column; otherwise there is one column for each reference,
    /// in order.
    pub aggregated: bool,
    /// Columns without gaps share their times.
    pub columns: Vec<CrossSeries>,
}

impl CrossMeasures {
    /// The answer of operations that name no series. It has no points, so its granularity does not matter.
    pub fn without_series(operations: &Operation) -> Self {
        CrossMeasures::empty(Resample::Span(Timespan(0)), 0, operations)
    }

    /// The operations' answer on `series` series without points.
    fn empty(granularity: Resample, series: usize, operations: &Operation) -> Self {
        let aggregated = operations.is_aggregated();
        let columns = vec![CrossSeries::default(); if aggregated { 1 } else { series }];
        CrossMeasures { granularity, aggregated, columns }
    }
}

/// Computes the answer for one granularity. There is one series for each of `names`, at least one; names may
/// repeat.
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

/// The rows to evaluate. Without a start or stop, the first or last complete row limits them.
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
