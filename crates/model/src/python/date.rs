//! Parses times as `numpy.datetime64` and Gnocchi's `to_timestamp` do.
//!
//! Texts that Gnocchi stores although they are not times (`nan`, `NaT`, overflowing numbers) are rejected.

use super::float_of_text;
use crate::{
    Timespan, Timestamp,
    timestamp::{days_from_civil, days_in_month},
};

/// Why a list of timestamps is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTimestamps {
    /// An item has the wrong type.
    Type,
    /// An item is not a time.
    Value,
    /// An item is before the epoch, or after numpy's last nanosecond.
    BeforeEpoch,
    /// An item is a number or word that Gnocchi accepts as a time although it is not one.
    NoTime,
}

impl NotTimestamps {
    /// Gnocchi's message; it has none for a wrong type.
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

/// Parses a text like `to_timestamp`: seconds since the epoch, a date, or a span relative to now.
pub fn timestamp_of_text(text: &str, now: Timestamp) -> Result<Timestamp> {
    let nanoseconds = match float_of_text(text) {
        Some(seconds) => nanoseconds_of_seconds(seconds),
        None => match nanoseconds_of_date(text, now) {
            Err(NotTimestamps::Type) => nanoseconds_relative(Timespan::parse(text), now),
            nanoseconds => nanoseconds,
        },
    };
    after_epoch(nanoseconds?)
}

/// Converts a number like `to_timestamp`: seconds since the epoch.
pub fn timestamp_of_seconds(seconds: f64) -> Result<Timestamp> {
    after_epoch(nanoseconds_of_seconds(seconds)?)
}

/// The time as Python's `datetime` after Gnocchi's `to_datetime`: whole microseconds, by way of a float of seconds.
pub fn datetime(time: Timestamp) -> Timestamp {
    let seconds = time.0 as f64 / 1e9;
    let microseconds = (seconds.fract() * 1e6).round_ties_even();
    Timestamp(
        ((seconds.trunc() as i64).saturating_mul(1_000_000) + microseconds as i64).saturating_mul(1_000),
    )
}

/// Nanoseconds since the epoch, truncated towards zero.
pub fn nanoseconds_of_seconds(seconds: f64) -> Result<i64> {
    let nanoseconds = (seconds * 1e9).trunc();
    if nanoseconds.abs() < 9_223_372_036_854_775_807.0 {
        Ok(nanoseconds as i64)
    } else {
        Err(NotTimestamps::NoTime)
    }
}

/// Now plus a span, which may be negative, in nanoseconds since the epoch.
pub fn nanoseconds_relative(span: Option<Timespan>, now: Timestamp) -> Result<i64> {
    // Python's now has microseconds.
    let now = now.0 - now.0.rem_euclid(1_000);
    now.checked_add(span.ok_or(NotTimestamps::Value)?.0).ok_or(NotTimestamps::BeforeEpoch)
}

/// The time, unless it is before the epoch.
pub fn after_epoch(nanoseconds: i64) -> Result<Timestamp> {
    if nanoseconds < 0 { Err(NotTimestamps::BeforeEpoch) } else { Ok(Timestamp(nanoseconds)) }
}

/// Parses a date like `numpy.datetime64`, to nanoseconds since the epoch; the error `Type` means that it is not a date.
pub fn nanoseconds_of_date(text: &str, now: Timestamp) -> Result<i64> {
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

/// Follows numpy's grammar: `[+-]year[-MM[-DD[(T| )hh[:mm[:ss[.f]]][Z|(+|-)hh[[:]mm]]]]]`, with optional spaces before
/// it and, if it has a time, after it.
struct DateReader<'t> {
    rest: &'t [u8],
    negative: bool,
}

impl DateReader<'_> {
    fn read(mut self) -> Option<i128> {
        self.skip_space();
        self.expect(b"+-");
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

    /// Takes one of these bytes; `None` if another or none follows.
    fn expect(&mut self, any_of: &[u8]) -> Option<()> {
        any_of.contains(self.rest.first()?).then(|| self.rest = &self.rest[1..])
    }

    /// Any number of digits, including none; years out of range need not be exact.
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
        for unit_seconds in [60, 1] {
            if self.expect(b":").is_none() {
                return Some(i128::from(seconds) * 1_000_000_000);
            }
            seconds += self.two_digits(0..=59)? * unit_seconds;
        }
        let mut fraction = 0;
        if self.expect(b".").is_some() {
            // numpy parses down to attoseconds, and keeps nanoseconds.
            for place in 0..18 {
                let Some(digit) = self.take_digit() else { break };
                if place < 9 {
                    fraction += digit * 10_i64.pow(8 - place);
                }
            }
        }
        Some(i128::from(seconds) * 1_000_000_000 + i128::from(fraction))
    }

    /// The zone's offset in nanoseconds, to the end of the text.
    fn zone(&mut self) -> Option<i128> {
        let mut offset = 0;
        match self.rest.first() {
            Some(b'Z') => self.rest = &self.rest[1..],
            Some(sign @ (b'+' | b'-')) => {
                let sign = if *sign == b'-' { -1 } else { 1 };
                self.rest = &self.rest[1..];
                offset = self.two_digits(0..=23)? * 60;
                if !self.rest.is_empty() {
                    self.expect(b":");
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

    #[test]
    fn datetimes_have_whole_microseconds() {
        // Computed with Python.
        for (nanoseconds, microseconds) in [
            (0, 0),
            (1_500, 2),
            (1_700_000_000_000_000_000, 1_700_000_000_000_000),
            (1_700_000_000_123_456_000, 1_700_000_000_123_456),
            (1_700_000_000_999_999_900, 1_700_000_001_000_000),
            (1_700_000_000_999_999_400, 1_700_000_001_000_000),
            (1_700_000_000_123_455_600, 1_700_000_000_123_456),
            (1_700_000_000_000_000_600, 1_700_000_000_000_000),
            (1_795_264_496_789_012_345, 1_795_264_496_789_012),
            (1_795_264_496_789_012_600, 1_795_264_496_789_012),
            (1_795_264_496_789_012_800, 1_795_264_496_789_013),
            (4_102_444_799_999_999_000, 4_102_444_799_999_999),
        ] {
            assert_eq!(datetime(Timestamp(nanoseconds)).0, microseconds * 1_000, "{nanoseconds}");
        }
    }
}
