//! What requests ask of the times when metrics were measured last: to see them, to sort by them, to find what has been silent.
//!
//! They are read from the metrics' heads, so a request looks at so many metrics at most, and where it looks at more, its answer ends
//! with a link to go on.

use gnudi_engine::LastMeasure;
use gnudi_indexer::SortDirection;
use gnudi_model::{MetricId, Timestamp};

use crate::{
    call::Call, error::ApiError, json::Value, pagination::Pagination, policy::Rule, python, query::Query,
};

/// The argument that shows it, and the key that it sorts by.
pub const NAME: &str = "last_measure";
/// The argument that finds what was not measured since.
const SILENT_SINCE: &str = "silent_since";

/// Metrics whose heads a search for silent ones reads in one request.
pub const SCANNED_MAX: usize = 20_000;
/// Metrics that one request sorts (413).
pub const SORTED_MAX: usize = 50_000;

/// What a listing asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastMeasures {
    /// Whether they are shown.
    pub show: bool,
    /// Only those without a measure at this time or later.
    pub silent_since: Option<Timestamp>,
    /// Whether they sort the list.
    pub sort: Option<SortDirection>,
}

impl LastMeasures {
    /// # Errors
    /// 400 where an argument does not mean what it must.
    pub fn of(query: &Query, pagination: &Pagination, now: Timestamp) -> Result<Self, ApiError> {
        let silent_since = silent_since(query, now)?;
        let sort = pagination.sort_by_only(NAME)?;
        Ok(LastMeasures { show: query.flag(NAME, false)?, silent_since, sort })
    }

    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == LastMeasures::default()
    }

    pub fn takes(&self, last: LastMeasure) -> bool {
        self.silent_since.is_none_or(|since| last.is_silent_since(since))
    }

    /// How an answer shows a metric's.
    pub fn shown(last: LastMeasure) -> Value {
        last.time().map(Timestamp::to_iso_micros).into()
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

impl Call<'_> {
    /// When the metrics were measured last.
    pub(crate) async fn last_measures(&self, metrics: &[MetricId]) -> Result<Vec<LastMeasure>, ApiError> {
        self.reads_metrics(metrics.len());
        Ok(self.app.engine().last_measures(metrics).await?)
    }

    /// Refuses (403) a caller who may list metrics whose measures are not to be read.
    pub(crate) fn reads_what_it_lists(&self) -> Result<(), ApiError> {
        let read = self.metrics_seen(Rule::GetMeasures)?;
        if read.is_none() || read == self.metrics_seen(Rule::ListMetric)? {
            return Ok(());
        }
        Err(ApiError::insufficient_privileges(Rule::GetMeasures))
    }
}
