//! Parses the times (seconds or RFC 3339) and durations (seconds, or numbers with units like `1h30m`) that are
//! parameters of Prometheus' API.

use gnudi_model::timestamp::{days_from_civil, days_in_month};
use gnudi_promql::duration_ms;

/// What Prometheus' clients send as the start of an unlimited range.
const MIN_TIME: &str = "-292273086-05-16T16:47:06Z";
/// The same as the end.
const MAX_TIME: &str = "292277025-08-18T07:12:54.999999999Z";

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// Times are clamped to this magnitude, so that sums of a few of them do not overflow.
const MILLISECONDS_MAX: i64 = i64::MAX / 32;

/// Parses a time. Returns milliseconds since the epoch, rounded from seconds and truncated from RFC 3339.
///
/// # Errors
/// Prometheus' error text, if it is not a valid time.
pub fn parse_time(text: &str) -> Result<i64, String> {
    let seconds = parse_float(text).filter(|seconds| seconds.is_finite());
    let milliseconds = match (seconds, text) {
        (Some(seconds), _) => Some((seconds * 1000.0).round() as i64),
        (None, MIN_TIME) => Some(-MILLISECONDS_MAX),
        (None, MAX_TIME) => Some(MILLISECONDS_MAX),
        (None, _) => parse_rfc3339(text),
    };
    let milliseconds = milliseconds.ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))?;
    Ok(milliseconds.clamp(-MILLISECONDS_MAX, MILLISECONDS_MAX))
}

/// Parses a duration. Returns nanoseconds; they may be negative.
///
/// # Errors
/// Prometheus' error text, if it is not a valid duration or overflows.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let cannot = || format!("cannot parse {text:?} to a valid duration");
    if let Some(seconds) = parse_float(text) {
        let nanoseconds = seconds * 1e9;
        if nanoseconds.is_nan() {
            return Err(cannot());
        }
        if nanoseconds.abs() >= i64::MAX as f64 {
            return Err(format!("{}. It overflows int64", cannot()));
        }
        return Ok(nanoseconds as i64);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let milliseconds = duration_ms(rest).ok().filter(|_| !rest.is_empty()).ok_or_else(cannot)?;
    Ok(sign * milliseconds * NANOSECONDS_PER_MILLISECOND)
}

/// Go's `ParseFloat`, without hexadecimal numbers.
fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Parses `2006-01-02T15:04:05.999Z` or `...+07:00`. Returns milliseconds since the epoch.
fn parse_rfc3339(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let has = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    let has_separators = has(4, b'-') && has(7, b'-') && has(10, b'T') && has(13, b':') && has(16, b':');
    if !has_separators {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut milliseconds = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let digits = format!("{:0<3}", &fraction[..length]);
        milliseconds = if length == 0 { return None } else { digits[..3].parse().ok()? };
        rest = &fraction[length..];
    }
    let offset_minutes = if rest == "Z" {
        0
    } else {
        let at = text.len() - rest.len();
        let sign = match rest.as_bytes() {
            [b'+', _, _, b':', _, _] => 1,
            [b'-', _, _, b':', _, _] => -1,
            _ => return None,
        };
        let (hours, minutes) = (number(at + 1..at + 3)?, number(at + 4..at + 6)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        sign * (hours * 60 + minutes)
    };
    let seconds =
        days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_minutes * 60;
    Some(seconds * 1000 + milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_rfc_3339() {
        for (text, milliseconds) in [
            ("1435781430.781", 1_435_781_430_781),
            ("4", 4000),
            ("-1.5", -1500),
            ("1e3", 1_000_000),
            ("2015-06-03T13:21:58.555Z", 1_433_337_718_555),
            ("2015-06-03T14:21:58.555+01:00", 1_433_337_718_555),
            ("2016-02-29T00:00:00Z", 1_456_704_000_000),
            ("1970-01-01T00:00:00Z", 0),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            (MAX_TIME, MILLISECONDS_MAX),
            ("1e300", MILLISECONDS_MAX),
        ] {
            assert_eq!(parse_time(text), Ok(milliseconds), "{text}");
        }
        for text in [
            "",
            "abc",
            "30s",
            "NaN",
            "Inf",
            "2015-02-30T00:00:00Z",
            "2015-06-03T13:21:58",
            "2015-06-03T13:21:58.Z",
            "2015-06-03T13:21:5éZ",
        ] {
            assert_eq!(parse_time(text), Err(format!("cannot parse {text:?} to a valid timestamp")));
        }
    }

    #[test]
    fn durations_are_seconds_or_have_units() {
        for (text, nanoseconds) in [
            ("1", 1_000_000_000),
            ("0.5", 500_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1ms", 1_000_000),
            ("-1m", -60_000_000_000),
            ("1e-9", 1),
        ] {
            assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
        }
        for text in
            ["", "x", "1h1h", "1m1h", "1.5h", "NaN", "h", "99999999999999999999d", "9999999y", "-", "1é"]
        {
            assert_eq!(parse_duration(text), Err(format!("cannot parse {text:?} to a valid duration")));
        }
        let text = "cannot parse \"1e300\" to a valid duration. It overflows int64";
        assert_eq!(parse_duration("1e300"), Err(text.to_owned()));
    }
}
