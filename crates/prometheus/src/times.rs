//! Parses the times (seconds or RFC 3339) and durations (seconds, or numbers with units like `1h30m`) that are
//! parameters of Prometheus' API.

use gnudi_model::timestamp::{days_from_civil, days_in_month};
use gnudi_promql::{duration_ms, quoted};

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
        // The fraction alone: the product of all seconds would be rounded before.
        (Some(seconds), _) => {
            let fraction_ms = (seconds.fract() * 1000.0).round() as i64;
            Some((seconds as i64).saturating_mul(1000).saturating_add(fraction_ms))
        }
        (None, MIN_TIME) => Some(-MILLISECONDS_MAX),
        (None, MAX_TIME) => Some(MILLISECONDS_MAX),
        (None, _) => parse_rfc3339(text),
    };
    let milliseconds =
        milliseconds.ok_or_else(|| format!("cannot parse {} to a valid timestamp", quoted(text)))?;
    Ok(milliseconds.clamp(-MILLISECONDS_MAX, MILLISECONDS_MAX))
}

/// Parses a duration. Returns nanoseconds; those of a number may be negative.
///
/// # Errors
/// Prometheus' error text, if it is not a valid duration or overflows.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let cannot = || format!("cannot parse {} to a valid duration", quoted(text));
    if let Some(seconds) = parse_float(text) {
        let nanoseconds = seconds * 1e9;
        // 2^63 itself is too much, -2^63 is not.
        if !(i64::MIN as f64..-(i64::MIN as f64)).contains(&nanoseconds) {
            return Err(format!("{}. It overflows int64", cannot()));
        }
        return Ok(nanoseconds as i64);
    }
    let milliseconds = duration_ms(text).ok().filter(|_| !text.is_empty()).ok_or_else(cannot)?;
    Ok(milliseconds * NANOSECONDS_PER_MILLISECOND)
}

/// A duration as Go prints it: `-1m30s`, `1.5ms`, `0s`.
pub fn duration_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let magnitude = nanoseconds.unsigned_abs();
    let (unit, decimals) = match magnitude {
        0 => ("s", 0),
        1..1_000 => ("ns", 0),
        1_000..1_000_000 => ("µs", 3),
        1_000_000..1_000_000_000 => ("ms", 6),
        _ => {
            let seconds = decimal(magnitude % 60_000_000_000, 9);
            let minutes = magnitude / 60_000_000_000;
            return match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            };
        }
    };
    format!("{sign}{}{unit}", decimal(magnitude, decimals))
}

/// A number with so many decimals, without the zeros at its end.
fn decimal(number: u64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    let (whole, fraction) = (number / unit, number % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0width$}", width = decimals as usize);
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Go's `ParseFloat`, without hexadecimal numbers and underscores: NaN has no sign, and a number that is too large is no infinity.
fn parse_float(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let is_signed_nan = number.is_nan() && text.starts_with(['+', '-']);
    let overflows = number.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
    (!is_signed_nan && !overflows).then_some(number)
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
            // The nearest double is less.
            ("1750000000.0015", 1_750_000_000_001),
            ("-1750000000.0015", -1_750_000_000_001),
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
            ("-60", -60_000_000_000),
            ("1e-9", 1),
            ("-9223372036854775808e-9", i64::MIN),
        ] {
            assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
        }
        for text in [
            "",
            "x",
            "1h1h",
            "1m1h",
            "1.5h",
            "-NaN",
            "1e999",
            "h",
            "99999999999999999999d",
            "9999999y",
            "-",
            "-1m",
            "1é",
        ] {
            assert_eq!(parse_duration(text), Err(format!("cannot parse {text:?} to a valid duration")));
        }
        for text in ["1e300", "-1e300", "NaN", "Inf", "9223372036854775808e-9"] {
            let expected = format!("cannot parse {text:?} to a valid duration. It overflows int64");
            assert_eq!(parse_duration(text), Err(expected));
        }
        let escaped = r#"cannot parse "\x01\u200b" to a valid duration"#;
        assert_eq!(parse_duration("\u{1}\u{200b}"), Err(escaped.to_owned()));
    }

    #[test]
    fn durations_are_printed_as_in_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (-1, "-1ns"),
            (-1_500, "-1.5µs"),
            (-2_000_000, "-2ms"),
            (-5_000_000_000, "-5s"),
            (-90_000_000_000, "-1m30s"),
            (3_600_500_000_000, "1h0m0.5s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(duration_text(nanoseconds), text);
        }
    }
}
