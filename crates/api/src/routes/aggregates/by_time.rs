//! Groups by time of the week: `groupby=time:weekday`, `groupby=time:hour`, with `utc_offset` and
//! `reaggregation`. An extension of Gnocchi's API.
//!
//! The operations are computed first. Each bucket then belongs to the weekday and hour in which it begins, in
//! UTC or at an offset. `reaggregation` aggregates the buckets of a series that belong to the same group.

use std::collections::BTreeMap;

use gnudi_app::query::Query;
use gnudi_engine::Engine;
use gnudi_series::{
    cross::{Clock, ClockTime, CrossMeasures},
    operations::{CrossStatistic, Reaggregation},
};

use crate::{measures::document::Document, routes::prelude::*};

const WEEKDAY: &str = "time:weekday";
const HOUR: &str = "time:hour";
/// The largest offset of any time zone.
const OFFSET_SECONDS_MAX: i64 = 14 * 3_600;
/// The maximum number of series of all groups in a response.
const SERIES_MAX: usize = 1_000_000;

/// The measures by time, in order.
pub(super) type TimeGroups = BTreeMap<ClockTime, Vec<CrossMeasures>>;

/// The requested groups by time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ByTime {
    clock: Clock,
    statistic: Option<CrossStatistic>,
}

impl ByTime {
    /// Removes the time fields from `fields`; `None` if there are none.
    ///
    /// # Errors
    /// 400 for an unknown time field, offset or method.
    pub fn take(fields: &mut Vec<String>, query: &Query) -> Result<Option<Self>> {
        let (times, others): (Vec<String>, Vec<String>) =
            fields.drain(..).partition(|field| field.starts_with("time:"));
        *fields = others;
        if times.is_empty() {
            return Ok(None);
        }
        if times.iter().any(|time| time != WEEKDAY && time != HOUR) {
            let reason = format!("Must be an attribute, {WEEKDAY} or {HOUR}");
            return Err(ApiError::argument("groupby", &reason));
        }
        let refuse = || {
            let reason = "Must be a time ahead of UTC, such as +02:00 or -03:30, of up to 14 hours";
            ApiError::argument("utc_offset", reason)
        };
        let offset = query.single("utc_offset", refuse)?.map(|text| offset(text).ok_or_else(refuse));
        let refuse =
            || ApiError::argument("reaggregation", "Must be mean, median, std, min, max, sum, var or count");
        let method = query.single("reaggregation", refuse)?.map(|text| {
            let method: Option<Reaggregation> = text.parse().ok();
            method.filter(|method| !method.rate).map(|method| method.statistic).ok_or_else(refuse)
        });
        let has = |name: &str| times.iter().any(|time| time == name);
        let offset_seconds = offset.transpose()?.unwrap_or(0);
        let clock = Clock { by_weekday: has(WEEKDAY), by_hour: has(HOUR), offset_seconds };
        Ok(Some(ByTime { clock, statistic: method.transpose()? }))
    }

    /// Refuses (413) too many series.
    pub fn check(&self, series: usize) -> Result<()> {
        if series.saturating_mul(self.clock.times_max()) > SERIES_MAX {
            return Err(ApiError::too_large(format!(
                "There are more than {SERIES_MAX} series by time: aggregate them, or request fewer metrics"
            )));
        }
        Ok(())
    }

    /// Refuses (413) details of too many metrics: each group repeats them.
    pub fn check_details(&self, call: &Call<'_>, metrics: usize) -> Result<()> {
        let max = call.app.options().limits.aggregate_references_max;
        if metrics.saturating_mul(self.clock.times_max()) > max {
            return Err(ApiError::too_large(format!(
                "There are more than {max} details by time: request no details, or fewer metrics"
            )));
        }
        Ok(())
    }

    /// The measures of each time that has points; if there are none, one group without a time. There may be many points,
    /// so they are split outside the threads that serve requests.
    pub async fn split(&self, engine: &Engine, measures: Vec<CrossMeasures>) -> TimeGroups {
        let ByTime { clock, statistic } = *self;
        let split = move || {
            let mut groups = clock.split(&measures, statistic);
            if groups.is_empty() {
                groups.insert(ClockTime { weekday: None, hour: None }, measures);
            }
            groups
        };
        engine.compute(split).await
    }

    /// Appends the groups. `key` has a group's other fields; `write` appends its measures.
    pub fn write(
        &self,
        document: &mut Document,
        key: &Value,
        groups: TimeGroups,
        mut write: impl FnMut(&mut Document, Vec<CrossMeasures>) -> Result<()>,
    ) -> Result<()> {
        for (number, (time, measures)) in groups.into_iter().enumerate() {
            document.text(if number > 0 { ", " } else { "" });
            document.group(&self.key(key, time), |document| write(document, measures))?;
        }
        Ok(())
    }

    fn key(&self, key: &Value, time: ClockTime) -> Value {
        let Value::Object(entries) = key else { unreachable!("a group is an object") };
        let mut entries = entries.clone();
        let number = |number: Option<u8>| number.map_or(Value::Null, |number| Value::Int(number.into()));
        if self.clock.by_weekday {
            entries.push((WEEKDAY.to_owned(), number(time.weekday)));
        }
        if self.clock.by_hour {
            entries.push((HOUR.to_owned(), number(time.hour)));
        }
        Value::Object(entries)
    }
}

/// Parses an offset to seconds ahead of UTC: `+02:00`, `-0330`, `Z`. A plus in a query string decodes to a
/// blank.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix(['+', ' ']).unwrap_or(text)),
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
        None => (digits, "00"),
    };
    let number = |text: &str| -> Option<i64> {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse().ok() } else { None }
    };
    let minutes = number(minutes).filter(|minutes| *minutes < 60)?;
    let seconds = number(hours)? * 3_600 + minutes * 60;
    (seconds <= OFFSET_SECONDS_MAX).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{Arc, mpsc},
    };

    use futures_util::FutureExt as _;
    use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
    use gnudi_engine::Resample;
    use gnudi_indexer::memory::MemoryIndexer;
    use gnudi_model::{SackCount, Timespan, Timestamp};
    use gnudi_series::cross::CrossSeries;

    use super::*;

    /// The only thread for them is busy.
    #[test]
    fn points_are_split_by_the_threads_for_computations() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.max_blocking_threads(1).enable_all().build().unwrap().block_on(async {
            let incoming = Arc::new(MemoryIncoming::new(SackCount::DEFAULT, 1 << 20));
            let store = Arc::new(MemoryAggregates::default());
            let engine =
                Engine::new(Arc::new(MemoryIndexer::default()), incoming, store, || Timestamp::EPOCH);
            let clock = Clock { by_hour: true, ..Clock::default() };
            let by_time = ByTime { clock, statistic: None };
            let timestamps = Arc::new([0, 3_600, 86_400].map(Timestamp::from_secs).to_vec());
            let measures = CrossMeasures {
                granularity: Resample::Span(Timespan::from_secs(3_600)),
                aggregated: true,
                columns: vec![CrossSeries { timestamps, values: vec![1.0; 3] }],
            };
            let (release, released) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || released.recv());
            let mut split = pin!(by_time.split(&engine, vec![measures]));
            assert!(split.as_mut().now_or_never().is_none());
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            let points = |measures: Vec<CrossMeasures>| measures[0].columns[0].values.len();
            let groups = split.await.into_iter().map(|(time, measures)| (time.hour, points(measures)));
            assert_eq!(groups.collect::<Vec<_>>(), [(Some(0), 2), (Some(1), 1)]);
        });
    }

    #[test]
    fn offsets_are_read() {
        for (text, seconds) in [
            ("Z", Some(0)),
            ("+02:00", Some(7_200)),
            (" 02:00", Some(7_200)),
            ("02", Some(7_200)),
            ("-0330", Some(-12_600)),
            ("+14:00", Some(50_400)),
            ("+14:01", None),
            ("2", None),
            ("+2:00", None),
            ("+02:60", None),
            ("", None),
            ("-", None),
            ("éé", None),
            ("Europe/Paris", None),
        ] {
            assert_eq!(offset(text), seconds, "{text}");
        }
    }

    #[test]
    fn times_are_taken_out_of_the_fields() {
        let take = |fields: &[&str], query: &str| {
            let mut fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            let taken = ByTime::take(&mut fields, &Query::parse(Some(query)));
            (fields, taken.map_err(|error| error.status.as_u16()))
        };
        assert_eq!(take(&["a", "b"], "utc_offset=x"), (vec!["a".to_owned(), "b".to_owned()], Ok(None)));
        let (fields, taken) = take(&["a", WEEKDAY], "utc_offset=-01:00&reaggregation=max");
        assert_eq!(fields, ["a"]);
        let clock = Clock { by_weekday: true, by_hour: false, offset_seconds: -3_600 };
        assert_eq!(taken, Ok(Some(ByTime { clock, statistic: Some(CrossStatistic::Max) })));
        for (field, query) in [
            ("time:month", ""),
            (HOUR, "utc_offset=x"),
            (HOUR, "utc_offset=Z&utc_offset=Z"),
            (HOUR, "reaggregation=rate:mean"),
            (HOUR, "reaggregation=last"),
        ] {
            assert_eq!(take(&[field], query).1, Err(400), "{field} {query}");
        }
    }
}
