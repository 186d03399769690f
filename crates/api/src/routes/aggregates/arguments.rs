//! The query arguments of aggregation across metrics.

use std::sync::Arc;

use gnudi_app::{ApiError, Result, python, query::Query};
use gnudi_engine::{CrossMeasuresQuery, CrossReference};
use gnudi_model::{Timespan, Timestamp};
use gnudi_series::{cross::Fill, operations::Operation};

/// The default of `needed_overlap`: the percentage of points that series must have in common.
const NEEDED_OVERLAP: f64 = 100.0;

/// The arguments: the range, the granularity, and how to treat gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub start: Option<Timestamp>,
    pub stop: Option<Timestamp>,
    pub granularity: Option<Timespan>,
    needed_overlap: Option<f64>,
    pub fill: Option<Fill>,
    /// Whether an empty result is a response, instead of 404 or 400.
    pub may_be_empty: bool,
}

impl Arguments {
    /// # Errors
    /// 400 for an invalid argument; of several, the first in Gnocchi's order. `empty`, an extension, comes
    /// last. `empty_answers` is its default.
    pub fn of(query: &Query, now: Timestamp, empty_answers: bool) -> Result<Self> {
        let needed_overlap = read(query, "needed_overlap", "Must be a number", python::float_of_text)?;
        let (start, stop) = (query.time("start", now)?, query.time("stop", now)?);
        let refuse = |reason| ApiError::argument("granularity", reason);
        let granularity = query.get("granularity").map(|argument| argument.timespan()).transpose();
        let granularity = granularity.map_err(refuse)?;
        let reason = "Must be a float, 'dropna', 'null', 'ffill', 'bfill', 'full_ffill' or 'full_bfill'";
        let fill = |text: &str| python::float_of_text(text).map(Fill::Value).or_else(|| text.parse().ok());
        let fill = read(query, "fill", reason, fill)?;
        let may_be_empty = query.flag("empty", empty_answers)?;
        Ok(Arguments { start, stop, granularity, needed_overlap, fill, may_be_empty })
    }

    /// If neither an overlap nor a fill is given, drops gaps.
    pub fn or_drop_gaps(mut self) -> Self {
        if self.needed_overlap.is_none() && self.fill.is_none() {
            self.fill = Some(Fill::DropNa);
        }
        self
    }

    /// The same arguments for another range.
    pub fn between(self, start: Option<Timestamp>, stop: Option<Timestamp>) -> Self {
        Arguments { start, stop, ..self }
    }

    /// The engine's query with these arguments.
    pub fn query(&self, references: Vec<CrossReference>, operations: Arc<Operation>) -> CrossMeasuresQuery {
        CrossMeasuresQuery {
            references,
            operations,
            granularities: self.granularities(),
            start: self.start,
            stop: self.stop,
            needed_overlap: self.needed_overlap(),
            fill: self.fill,
            may_be_empty: self.may_be_empty,
        }
    }

    pub fn needed_overlap(&self) -> f64 {
        self.needed_overlap.unwrap_or(NEEDED_OVERLAP)
    }

    /// The requested granularities.
    pub fn granularities(&self) -> Option<Vec<Timespan>> {
        self.granularity.map(|granularity| vec![granularity])
    }
}

/// Parses an optional argument with `of`.
fn read<T>(query: &Query, name: &str, reason: &str, of: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
    let refuse = || ApiError::argument(name, reason);
    query.single(name, refuse)?.map(|text| of(text).ok_or_else(refuse)).transpose()
}

/// The fields to group by: sorted and distinct.
pub(crate) fn groupby(query: &Query) -> Vec<String> {
    let mut fields = query.list("groupby");
    fields.sort_unstable();
    fields.dedup();
    fields
}

#[cfg(test)]
mod tests {
    use gnudi_app::json::Value;

    use super::*;

    fn of(text: &str) -> Result<Arguments, String> {
        Arguments::of(&Query::parse(Some(text)), Timestamp::from_secs(100), false)
            .map_err(|error| error.detail.get("detail").map(Value::repr).unwrap_or_default())
    }

    #[test]
    fn arguments_are_read_in_gnocchis_order() {
        let all = of("fill=1e2&granularity=1m&stop=20&start=10&needed_overlap=50.5").unwrap();
        assert_eq!((all.start, all.stop), (Some(Timestamp::from_secs(10)), Some(Timestamp::from_secs(20))));
        assert_eq!(all.granularities(), Some(vec![Timespan::from_secs(60)]));
        assert_eq!((all.needed_overlap(), all.fill), (50.5, Some(Fill::Value(100.0))));
        assert_eq!(of("fill=full_ffill").unwrap().or_drop_gaps().fill, Some(Fill::FullForward));
        assert_eq!(of("").unwrap().or_drop_gaps().fill, Some(Fill::DropNa));
        assert_eq!(of("needed_overlap=0").unwrap().or_drop_gaps().fill, None);
        assert_eq!(of("").unwrap().needed_overlap(), 100.0);
        for (text, argument) in [
            ("fill=x&granularity=x&stop=x&start=x&needed_overlap=x", "'needed_overlap'"),
            ("fill=x&granularity=x&stop=x&start=x", "'start'"),
            ("fill=x&granularity=x&stop=x", "'stop'"),
            ("fill=x&granularity=x", "'granularity'"),
            ("fill=x", "'fill'"),
            ("fill=1&fill=1", "'fill'"),
            ("granularity=1&granularity=1", "'granularity'"),
            ("needed_overlap=1&needed_overlap=1", "'needed_overlap'"),
            ("start=", "'start'"),
        ] {
            assert_eq!(of(text), Err(argument.to_owned()), "{text}");
        }
    }

    #[test]
    fn groups_are_by_distinct_fields_in_order() {
        let fields = |text: &str| groupby(&Query::parse(Some(text)));
        assert!(fields("").is_empty() && fields("groupby=").is_empty());
        assert_eq!(fields("groupby=b&groupby=a&groupby=b"), ["a", "b"]);
        assert_eq!(fields("groupby=&groupby=a"), ["", "a"]);
    }
}
