//! What requests ask of the times when metrics were measured last, and of the late measures that were dropped: to see them, to sort by
//! them, to find what has been silent.
//!
//! They are read from the metrics' heads, so a request looks at so many metrics at most, and where it looks at more, its answer ends
//! with a link to go on.

use gnudi_app::{ApiError, json::Value, python, query::Query};
use gnudi_engine::{LastMeasure, Measured};
use gnudi_indexer::SortDirection;
use gnudi_model::Timestamp;

use crate::pagination::Pagination;

/// A figure of a metric's measures: the argument that shows it, and the key that it sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    LastMeasure,
    LateDropped,
}

impl Figure {
    const ALL: [Figure; 2] = [Figure::LastMeasure, Figure::LateDropped];

    pub const fn name(self) -> &'static str {
        match self {
            Figure::LastMeasure => "last_measure",
            Figure::LateDropped => "late_dropped",
        }
    }

    /// How an answer shows a metric's.
    fn shown(self, measured: Measured) -> Value {
        match self {
            Figure::LastMeasure => measured.last.time().map(Timestamp::to_iso_micros).into(),
            Figure::LateDropped => measured.late_dropped.into(),
        }
    }

    /// By what it sorts; metrics without it stand together.
    pub fn key(self, measured: Measured) -> Option<i128> {
        match self {
            Figure::LastMeasure => measured.last.time().map(|time| time.0.into()),
            Figure::LateDropped => measured.late_dropped.map(Into::into),
        }
    }
}

/// The argument that finds what was not measured since.
const SILENT_SINCE: &str = "silent_since";

/// Metrics whose heads a search for silent ones reads in one request.
pub const SCANNED_MAX: usize = 20_000;
/// Metrics that one request sorts (413).
pub const SORTED_MAX: usize = 1_000_000;

/// What a listing asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastMeasures {
    pub show: Shown,
    /// Only those without a measure at this time or later.
    pub silent_since: Option<Timestamp>,
    /// What sorts the list.
    pub sort: Option<(Figure, SortDirection)>,
}

/// Which figures are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown([Option<Figure>; Figure::ALL.len()]);

impl Shown {
    /// # Errors
    /// 400 where an argument is no truth value.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let mut shown = Shown::default();
        for (place, figure) in shown.0.iter_mut().zip(Figure::ALL) {
            *place = query.flag(figure.name(), false)?.then_some(figure);
        }
        Ok(shown)
    }

    /// The first of them.
    pub fn any(self) -> Option<Figure> {
        self.0.into_iter().flatten().next()
    }

    /// Adds them to a shown metric.
    pub fn add_to(self, metric: &mut Value, measured: Measured) {
        if let Value::Object(entries) = metric {
            let shown = self.0.into_iter().flatten();
            entries.extend(shown.map(|figure| (figure.name().to_owned(), figure.shown(measured))));
        }
    }
}

impl LastMeasures {
    /// # Errors
    /// 400 where an argument does not mean what it must.
    pub fn of(query: &Query, pagination: &Pagination, now: Timestamp) -> Result<Self, ApiError> {
        let silent_since = silent_since(query, now)?;
        let mut sort = None;
        for figure in Figure::ALL {
            sort = sort.or(pagination.sort_by_only(figure.name())?.map(|direction| (figure, direction)));
        }
        Ok(LastMeasures { show: Shown::of(query)?, silent_since, sort })
    }

    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == LastMeasures::default()
    }

    pub fn takes(&self, last: LastMeasure) -> bool {
        self.silent_since.is_none_or(|since| last.is_silent_since(since))
    }
}

/// The argument `silent_since`: only what was not measured at this time or later.
///
/// # Errors
/// 400 where it is none.
pub fn silent_since(query: &Query, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
    let refuse = || ApiError::argument(SILENT_SINCE, "Must be a datetime or a timestamp");
    let text = query.single(SILENT_SINCE, refuse)?;
    text.map(|text| python::timestamp(text, now).map_err(|_| refuse())).transpose()
}
