//! The arguments about each metric's last measure and its dropped late measures: showing them, sorting by
//! them, and finding silent metrics.
//!
//! The figures are in the metrics' heads, so a request reads a limited number of metrics. Beyond it, the
//! response is partial and links to the next page.

use gnudi_app::{Result, json::Value, query::Query};
use gnudi_engine::{LastMeasure, Measured};
use gnudi_indexer::SortDirection;
use gnudi_model::Timestamp;

use crate::pagination::Pagination;

/// A figure of a metric's measures. Its name is both the argument that shows it and a sort key.
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

    /// The figure in a response.
    fn shown(self, measured: Measured) -> Value {
        match self {
            Figure::LastMeasure => measured.last.time().map(Timestamp::to_iso_micros).into(),
            Figure::LateDropped => measured.late_dropped.into(),
        }
    }

    /// The sort key; metrics without the figure are sorted together.
    pub fn key(self, measured: Measured) -> Option<i128> {
        match self {
            Figure::LastMeasure => measured.last.time().map(|time| time.0.into()),
            Figure::LateDropped => measured.late_dropped.map(Into::into),
        }
    }
}

/// Selects metrics without measures since a time.
const SILENT_SINCE: &str = "silent_since";

/// How many heads a search for silent metrics reads per request.
pub const SCANNED_MAX: usize = 20_000;
/// How many metrics one request may sort (413).
pub const SORTED_MAX: usize = 1_000_000;

/// A listing's arguments about these figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastMeasures {
    pub show: Shown,
    /// Selects metrics without a measure at or after this time.
    pub silent_since: Option<Timestamp>,
    /// The figure to sort by.
    pub sort: Option<(Figure, SortDirection)>,
}

/// The figures to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown([Option<Figure>; Figure::ALL.len()]);

impl Shown {
    /// # Errors
    /// 400 for an invalid boolean.
    pub fn of(query: &Query) -> Result<Self> {
        let mut shown = Shown::default();
        for (place, figure) in shown.0.iter_mut().zip(Figure::ALL) {
            *place = query.flag(figure.name(), false)?.then_some(figure);
        }
        Ok(shown)
    }

    /// The first figure, if any.
    pub fn any(self) -> Option<Figure> {
        self.0.into_iter().flatten().next()
    }

    /// Adds the figures to a metric in a response.
    pub fn add_to(self, metric: &mut Value, measured: Measured) {
        if let Value::Object(entries) = metric {
            let shown = self.0.into_iter().flatten();
            entries.extend(shown.map(|figure| (figure.name().to_owned(), figure.shown(measured))));
        }
    }
}

impl LastMeasures {
    /// # Errors
    /// 400 for an invalid argument.
    pub fn of(query: &Query, pagination: &Pagination, now: Timestamp) -> Result<Self> {
        let silent_since = silent_since(query, now)?;
        let mut sort = None;
        for figure in Figure::ALL {
            sort = sort.or(pagination.sort_by_only(figure.name())?.map(|direction| (figure, direction)));
        }
        Ok(LastMeasures { show: Shown::of(query)?, silent_since, sort })
    }

    /// Whether no figure is requested.
    pub fn is_none(&self) -> bool {
        *self == LastMeasures::default()
    }

    pub fn takes(&self, last: LastMeasure) -> bool {
        self.silent_since.is_none_or(|since| last.is_silent_since(since))
    }
}

/// The argument `silent_since`: selects metrics without a measure at or after this time.
///
/// # Errors
/// 400 for an invalid time.
pub fn silent_since(query: &Query, now: Timestamp) -> Result<Option<Timestamp>> {
    query.time(SILENT_SINCE, now)
}
