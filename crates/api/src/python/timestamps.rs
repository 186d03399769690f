//! Gnocchi's `to_timestamps`: seconds since the epoch, ISO dates as numpy reads them, or spans relative to now. The
//! first item decides which it is.
//!
//! Where Gnocchi stores what is no time (`nan`, `NaT`, a number that overflows) this refuses it.

use gnudi_model::{Timespan, Timestamp, timestamp::days_from_civil};

use super::{float, float_of_text};
use crate::{json::Value, measures::days_in_month};

/// Why a list holds no timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTimestamps {
    /// An item's type is wrong.
    Type,
    /// An item means no time.
    Value,
    /// An item lies before the epoch, or behind the last nanosecond that numpy counts.
    BeforeEpoch,
    /// An item is a number or a word that Gnocchi takes for a time, and that none is.
    NoTime,
}

impl NotTimestamps {
    /// Gnocchi's words; it has none for a wrong type.
    pub fn text(self) -> &'static str {
        match self {
            NotTimestamps::BeforeEpoch => "Timestamp must be after Epoch",
            NotTimestamps::Type | NotTimestamps::Value | NotTimestamps::NoTime => {
                "Unable to convert timestamps"
            }
        }
    }
}

type Result<T> = std::result::Result<T, NotTimestamps>;

/// The form of a list of timestamps.
enum Form {
    Seconds,
    Date,
    Relative,
}

/// The times that the values mean. Of several faults, the one is told that Gnocchi comes across first: it converts all
/// values before it looks at where they lie.
pub fn timestamps<'v>(
    values: impl ExactSizeIterator<Item = &'v Value> + Clone,
    now: Timestamp,
) -> Result<Vec<Timestamp>> {
    let Some(first) = values.clone().next() else { return Ok(Vec::new()) };
    let form = match first {
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(NotTimestamps::Type),
        Value::Str(text) if float_of_text(text).is_some() => Form::Seconds,
        Value::Str(text) if !matches!(date(text, now), Err(NotTimestamps::Type)) => Form::Date,
        Value::Str(_) => Form::Relative,
        _ => Form::Seconds,
    };
    // Numpy looks at the shape of a list before it looks at its items.
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

/// The time that a query argument means.
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
    let nanoseconds = (seconds * 1e9).trunc();
    if nanoseconds.abs() < 9_223_372_036_854_775_807.0 {
        Ok(nanoseconds as i64)
    } else {
        Err(NotTimestamps::NoTime)
    }
}

fn date_item(value: &Value, now: Timestamp) -> Result<i64> {
    match value {
        // What does not parse is no error of type here, as the first item has parsed.
        Value::Str(text) => date(text, now).map_err(|error| match error {
            NotTimestamps::Type => NotTimestamps::Value,
            other => other,
        }),
        // Numpy takes integers among dates as nanoseconds.
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
    // Python's now has microseconds.
    let now = now.0 - now.0.rem_euclid(1_000);
    now.checked_add(span.ok_or(NotTimestamps::Value)?.0).ok_or(NotTimestamps::BeforeEpoch)
}

fn after_epoch(nanoseconds: i64) -> Result<Timestamp> {
    if nanoseconds < 0 { Err(NotTimestamps::BeforeEpoch) } else { Ok(Timestamp(nanoseconds)) }
}

/// Nanoseconds since the epoch of a date as `numpy.datetime64` reads it; the error `Type` means that it does not.
fn date(text: &str, now: Timestamp) -> Result<i64> {
    match text.to_ascii_lowercase().as_str() {
        "" | "nat" => return Err(NotTimestamps::NoTime),
        "now" => return Ok(now.0 - now.0.rem_euclid(1_000_000_000)),
        "today" => return Ok(now.0 - now.0.rem_euclid(86_400_000_000_000)),
        _ => {}
    }
    let whole = DateReader { rest: text.as_bytes(), negative: text.starts_with('-') }.read();
    let nanoseconds = whole.ok_or(NotTimestamps::Type)?;
    i64::try_from(nanoseconds).map_err(|_| NotTimestamps::BeforeEpoch)
}

/// Follows numpy's grammar: `[+-]year[-MM[-DD[(T| )hh[:mm[:ss[.f]]][Z|(+|-)hh[[:]mm]]]]]`, spaces in front of all and, where
/// there is a time, behind.
struct DateReader<'t> {
    rest: &'t [u8],
    negative: bool,
}

impl DateReader<'_> {
    fn read(mut self) -> Option<i128> {
        self.skip_space();
        if matches!(self.rest.first(), Some(b'+' | b'-')) {
            self.rest = &self.rest[1..];
        }
        if self.rest.is_empty() {
            return None;
        }
        let year = self.year();
        let (mut month, mut day) = (1, 1);
        if !self.rest.is_empty() {
            self.expect(b"-")?;
            month = self.two_digits(1..=12)?;
        }
        if !self.rest.is_empty() {
            self.expect(b"-")?;
            day = self.two_digits(1..=31)?;
            if day > days_in_month(year, month) {
                return None;
            }
        }
        let midnight = i128::from(days_from_civil(year, month, day)) * 86_400_000_000_000;
        if self.rest.is_empty() {
            return Some(midnight);
        }
        self.expect(b"T ")?;
        let nanoseconds = midnight + self.time()?;
        Some(nanoseconds - self.zone()?)
    }

    fn skip_space(&mut self) {
        while matches!(self.rest.first(), Some(b' ' | b'\t'..=b'\r')) {
            self.rest = &self.rest[1..];
        }
    }

    fn take_digit(&mut self) -> Option<i64> {
        let digit = self.rest.first().filter(|byte| byte.is_ascii_digit())?;
        self.rest = &self.rest[1..];
        Some(i64::from(digit - b'0'))
    }

    fn expect(&mut self, any_of: &[u8]) -> Option<()> {
        any_of.contains(self.rest.first()?).then(|| self.rest = &self.rest[1..])
    }

    /// Any number of digits, none included; years that no timestamp reaches are all the same.
    fn year(&mut self) -> i64 {
        let mut year = 0;
        while let Some(digit) = self.take_digit() {
            year = (year * 10 + digit).min(1_000_000_000);
        }
        if self.negative { -year } else { year }
    }

    fn two_digits(&mut self, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let number = self.take_digit()? * 10 + self.take_digit()?;
        range.contains(&number).then_some(number)
    }

    /// Nanoseconds since midnight.
    fn time(&mut self) -> Option<i128> {
        let mut seconds = self.two_digits(0..=23)? * 3600;
        if self.rest.first() != Some(&b':') {
            return Some(i128::from(seconds) * 1_000_000_000);
        }
        self.expect(b":")?;
        seconds += self.two_digits(0..=59)? * 60;
        if self.rest.first() != Some(&b':') {
            return Some(i128::from(seconds) * 1_000_000_000);
        }
        self.expect(b":")?;
        seconds += self.two_digits(0..=59)?;
        let mut fraction = 0;
        if self.rest.first() == Some(&b'.') {
            self.rest = &self.rest[1..];
            // Attoseconds are the finest that numpy reads; nanoseconds remain.
            for place in 0..18 {
                let Some(digit) = self.take_digit() else { break };
                if place < 9 {
                    fraction += digit * 10_i64.pow(8 - place);
                }
            }
        }
        Some(i128::from(seconds) * 1_000_000_000 + i128::from(fraction))
    }

    /// The zone's offset in nanoseconds, up to the end of the text.
    fn zone(&mut self) -> Option<i128> {
        let mut offset = 0;
        match self.rest.first() {
            Some(b'Z') => self.rest = &self.rest[1..],
            Some(sign @ (b'+' | b'-')) => {
                let sign = if *sign == b'-' { -1 } else { 1 };
                self.rest = &self.rest[1..];
                offset = self.two_digits(0..=23)? * 60;
                if !self.rest.is_empty() {
                    if self.rest[0] == b':' {
                        self.rest = &self.rest[1..];
                    }
                    offset += self.two_digits(0..=59)?;
                }
                offset *= sign;
            }
            _ => {}
        }
        self.skip_space();
        self.rest.is_empty().then_some(i128::from(offset) * 60_000_000_000)
    }
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
