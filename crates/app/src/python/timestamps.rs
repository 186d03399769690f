//! Gnocchi's `to_timestamps`: seconds since the epoch, ISO dates as numpy parses them, or spans relative to
//! now. The first item decides the form of all.
//!
//! Gnocchi stores values that are no time (`nan`, `NaT`, an overflowing number); this refuses them.

pub use gnudi_model::python::NotTimestamps;
use gnudi_model::{
    Timespan, Timestamp,
    python::{after_epoch, nanoseconds_of_date, nanoseconds_of_seconds, nanoseconds_relative},
};

use super::{float, float_of_text};
use crate::json::Value;

type Result<T> = std::result::Result<T, NotTimestamps>;

/// The form of a list of timestamps.
enum Form {
    Seconds,
    Date,
    Relative,
}

/// Converts the values to timestamps. Of several errors, returns Gnocchi's first: it converts all values
/// before it checks their range.
pub fn timestamps<'v>(
    values: impl ExactSizeIterator<Item = &'v Value> + Clone,
    now: Timestamp,
) -> Result<Vec<Timestamp>> {
    let Some(first) = values.clone().next() else { return Ok(Vec::new()) };
    let form = match first {
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(NotTimestamps::Type),
        Value::Str(text) if float_of_text(text).is_some() => Form::Seconds,
        Value::Str(text) if !matches!(nanoseconds_of_date(text, now), Err(NotTimestamps::Type)) => Form::Date,
        Value::Str(_) => Form::Relative,
        _ => Form::Seconds,
    };
    // Numpy checks the shape of a list before its items.
    if !matches!(form, Form::Relative) && values.clone().any(|value| matches!(value, Value::Array(_))) {
        return Err(NotTimestamps::Value);
    }
    let mut times = Vec::with_capacity(values.len());
    let mut fault = None;
    for value in values {
        let time = match form {
            Form::Seconds => seconds(value),
            Form::Date => date_item(value, now),
            Form::Relative => relative(value, now),
        };
        match time.and_then(after_epoch) {
            Ok(time) => times.push(time),
            Err(NotTimestamps::BeforeEpoch) => fault = Some(NotTimestamps::BeforeEpoch),
            Err(NotTimestamps::NoTime) => fault = fault.or(Some(NotTimestamps::NoTime)),
            Err(error) => return Err(error),
        }
    }
    fault.map_or(Ok(times), Err)
}

/// Converts a query argument to a timestamp.
pub fn timestamp(text: &str, now: Timestamp) -> Result<Timestamp> {
    timestamps([Value::from(text)].iter(), now).map(|times| times[0])
}

fn seconds(value: &Value) -> Result<i64> {
    let seconds = match (float(value), value) {
        (Some(seconds), _) => seconds,
        (None, Value::Object(_)) => return Err(NotTimestamps::Type),
        (None, Value::Null) => return Err(NotTimestamps::NoTime),
        (None, _) => return Err(NotTimestamps::Value),
    };
    nanoseconds_of_seconds(seconds)
}

fn date_item(value: &Value, now: Timestamp) -> Result<i64> {
    match value {
        // The first item is a date, so a malformed one is an error of value, not of type.
        Value::Str(text) => nanoseconds_of_date(text, now).map_err(|error| match error {
            NotTimestamps::Type => NotTimestamps::Value,
            other => other,
        }),
        // In a list of dates numpy reads integers as nanoseconds.
        Value::Int(nanoseconds) => Ok(*nanoseconds),
        Value::Bool(flag) => Ok(i64::from(*flag)),
        Value::Null => Err(NotTimestamps::NoTime),
        _ => Err(NotTimestamps::Value),
    }
}

fn relative(value: &Value, now: Timestamp) -> Result<i64> {
    let span = match (float(value), value) {
        (Some(seconds), _) => Timespan::from_secs_f64(seconds),
        (None, Value::Str(text)) => Timespan::parse(text),
        (None, Value::Array(_) | Value::Object(_)) => return Err(NotTimestamps::Type),
        (None, _) => None,
    };
    nanoseconds_relative(span, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T12:34:56.789012345Z.
    const NOW: Timestamp = Timestamp(1_795_264_496_789_012_345);

    fn one(text: &str) -> Result<i64> {
        timestamp(text, NOW).map(|time| time.0)
    }

    #[test]
    fn relative_times_count_from_now() {
        assert_eq!(one("-10 minutes"), Ok(1_795_263_896_789_012_000));
        assert_eq!(one("1:30"), Ok(1_795_264_586_789_012_000));
        assert_eq!(one("now"), Ok(1_795_264_496_000_000_000));
        assert_eq!(one("Today"), Ok(1_795_219_200_000_000_000));
        assert_eq!(one("-100 weeks"), Ok(1_734_784_496_789_012_000));
        assert_eq!(one("-10000 weeks"), Err(NotTimestamps::BeforeEpoch));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "NaT", "nan", "inf", "-inf", "1e10", "9223372036.854776", "x", "5 parsecs"] {
            assert!(one(text).is_err(), "{text}");
        }
    }
}
