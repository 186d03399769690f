//! The query arguments of aggregation across metrics.

use gnudi_app::{
    ApiError,
    json::Value,
    python,
    query::{Argument, Query},
};
use gnudi_model::{Timespan, Timestamp};
use gnudi_series::cross::Fill;

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
    pub fn of(query: &Query, now: Timestamp, empty_answers: bool) -> Result<Self, ApiError> {
        let needed_overlap = read(query, "needed_overlap", "Must be a number", python::float_of_text)?;
        let time = |name| {
            let timestamp = |text: &str| python::timestamp(text, now).ok();
            read(query, name, "Must be a datetime or a timestamp", timestamp)
        };
        let (start, stop) = (time("start")?, time("stop")?);
        let refuse = |reason| ApiError::argument("granularity", reason);
        let granularity = query.get("granularity").map(|argument| timespan(&argument)).transpose();
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

    pub fn needed_overlap(&self) -> f64 {
        self.needed_overlap.unwrap_or(NEEDED_OVERLAP)
    }

    /// The requested granularities.
    pub fn granularities(&self) -> Option<Vec<Timespan>> {
        self.granularity.map(|granularity| vec![granularity])
    }
}

/// Parses an optional argument with `of`.
fn read<T>(
    query: &Query,
    name: &str,
    reason: &str,
    of: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let refuse = || ApiError::argument(name, reason);
    query.single(name, refuse)?.map(|text| of(text).ok_or_else(refuse)).transpose()
}

/// Parses a timespan.
fn timespan(argument: &Argument<'_>) -> Result<Timespan, &'static str> {
    match argument {
        Argument::One(text) => python::timespan(&Value::from(*text)),
        Argument::Several(_) => Err("Unable to parse timespan"),
    }
}

/// The fields to group by: sorted and distinct.
pub(crate) fn groupby(query: &Query) -> Vec<String> {
    let mut fields: Vec<String> = match query.get("groupby") {
        None | Some(Argument::One("")) => Vec::new(),
        Some(Argument::One(field)) => vec![field.to_owned()],
        Some(Argument::Several(fields)) => fields.into_iter().map(str::to_owned).collect(),
    };
    fields.sort_unstable();
    fields.dedup();
    fields
}

#[cfg(test)]
mod tests {
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
