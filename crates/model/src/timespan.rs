//! A span of time in whole nanoseconds.

use serde::{Deserialize, Serialize};

use crate::python::{float_of_text, with_ascii_digits};

/// Nanoseconds. Granularities and timespans are positive; offsets ("-10 minutes") may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timespan(pub i64);

impl Timespan {
    pub const fn from_secs(seconds: i64) -> Self {
        Timespan(seconds * 1_000_000_000)
    }

    /// Seconds, truncated to whole nanoseconds as in Gnocchi; `None` if out of range.
    pub fn from_secs_f64(seconds: f64) -> Option<Self> {
        let nanoseconds = (seconds * 1e9).trunc();
        // The bound is 2^63, where the cast would saturate.
        (nanoseconds.abs() < 9_223_372_036_854_775_808.0).then_some(Timespan(nanoseconds as i64))
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Parses seconds ("300", "0.5") or a duration in the forms of the Python package pytimeparse ("5 minutes",
    /// "1h30m", "1:30:00", "-10 seconds"); `None` if it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(seconds) = float_of_text(text) {
            return Self::from_secs_f64(seconds);
        }
        parse_duration(text).and_then(Self::from_secs_f64)
    }

    /// Python's `str(datetime.timedelta)`, Gnocchi's form of spans: `0:05:00`, `30 days, 0:00:00`.
    pub fn to_python_text(self) -> String {
        // timedelta has microseconds, rounded half to even.
        let micros = (self.0 as f64 / 1e3).round_ties_even() as i64;
        let (days, rest) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
        let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
        let text = match days {
            0 => String::new(),
            1 | -1 => format!("{days} day, "),
            _ => format!("{days} days, "),
        };
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match fraction {
            0 => format!("{text}{hours}:{minutes:02}:{seconds:02}"),
            _ => format!("{text}{hours}:{minutes:02}:{seconds:02}.{fraction:06}"),
        }
    }
}

/// Units by name, in seconds; in a text they appear in this order, longest first.
const UNITS: [(&[&str], i128); 5] = [
    (&["w", "wk", "wks", "week", "weeks"], 604_800),
    (&["d", "dy", "dys", "day", "days"], 86_400),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600),
    (&["m", "min", "mins", "minute", "minutes"], 60),
    (&["s", "sec", "secs", "second", "seconds"], 1),
];

/// No separator may follow seconds, unlike other units.
const SECONDS_UNIT: usize = UNITS.len() - 1;

/// Decimal fractions are added exactly, as multiples of 10^-FRACTION_DIGITS.
const FRACTION_DIGITS: usize = 18;
const FRACTION_ONE: i128 = 10_i128.pow(FRACTION_DIGITS as u32);

/// A number and its unit.
struct Amount<'t> {
    number: &'t str,
    unit_seconds: i128,
}

/// Seconds, parsed like the Python package pytimeparse 1.1.10: words (`1h 30m`), a clock (`1:30:00`), or both.
fn parse_duration(text: &str) -> Option<f64> {
    let text = with_ascii_digits(text.trim());
    let (sign, body) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest.trim_start()),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text).trim_start()),
    };
    let body = body.to_ascii_lowercase();
    let mut parts = Vec::new();
    let rest = take_words(&body, &mut parts);
    let weeks_and_days_only = parts.iter().all(|part| part.unit_seconds >= 86_400);
    let complete = rest.is_empty() || weeks_and_days_only && take_clock(rest, parts.is_empty(), &mut parts);
    if !complete || parts.is_empty() {
        return None;
    }
    sum(&parts).map(|seconds| sign * seconds)
}

/// Adds the numbers with units at the beginning to `parts`; returns the rest.
fn take_words<'t>(text: &'t str, parts: &mut Vec<Amount<'t>>) -> &'t str {
    let (mut rest, mut next_unit) = (text, 0);
    loop {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let word = rest[number_end..].trim_start();
        let word_end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let unit = (next_unit..UNITS.len()).find(|unit| UNITS[*unit].0.contains(&&word[..word_end]));
        let (Some(unit), 1..) = (unit, number_end) else { return rest };
        parts.push(Amount { number: &rest[..number_end], unit_seconds: UNITS[unit].1 });
        next_unit = unit + 1;
        rest = word[word_end..].trim_start();
        if unit != SECONDS_UNIT && rest.starts_with([',', '/']) {
            rest = rest[1..].trim_start();
        }
    }
}

/// Adds a clock to `parts`: `[[days:]hours:]minutes:seconds` or `:seconds`; after weeks and days (not `alone`), only
/// with hours and without days. False if the text is no such clock.
fn take_clock<'t>(text: &'t str, alone: bool, parts: &mut Vec<Amount<'t>>) -> bool {
    let mut fields: Vec<&str> = text.split(':').collect();
    if alone && fields.len() == 3 && fields[0].contains('-') {
        let (days, hours) = fields[0].split_once('-').expect("it contains one");
        fields.splice(0..1, [days, hours]);
    }
    let digits = |field: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit())
    };
    let Some((seconds, leading)) = fields.split_last() else { return false };
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let fits = digits(whole, 2..=2)
        && digits(fraction, 1..=usize::MAX)
        && match leading {
            [""] => alone,
            [minutes] => alone && digits(minutes, 1..=2),
            [hours, minutes] => digits(hours, 1..=usize::MAX) && digits(minutes, 2..=2),
            [days, hours, minutes] => {
                alone && digits(days, 1..=usize::MAX) && digits(hours, 2..=2) && digits(minutes, 2..=2)
            }
            _ => false,
        };
    if fits {
        let units = UNITS[UNITS.len() - fields.len()..].iter();
        let timed = fields.iter().zip(units).filter(|(field, _)| !field.is_empty());
        parts.extend(timed.map(|(field, (_, seconds))| Amount { number: field, unit_seconds: *seconds }));
    }
    fits
}

/// With fractions of seconds, a sum of floats; otherwise exact and truncated to whole seconds.
fn sum(parts: &[Amount<'_>]) -> Option<f64> {
    let is_float = parts.iter().any(|part| part.unit_seconds == 1 && part.number.contains('.'));
    if is_float {
        let amount = |part: &Amount<'_>| Some(part.unit_seconds as f64 * part.number.parse::<f64>().ok()?);
        return parts.iter().try_fold(0.0, |total, part| Some(total + amount(part)?));
    }
    let total = parts.iter().try_fold(0_i128, |total, part| {
        part.unit_seconds.checked_mul(fixed_point(part.number)?)?.checked_add(total)
    })?;
    Some((total / FRACTION_ONE) as f64)
}

/// A decimal number in units of 10^-FRACTION_DIGITS; further digits are dropped.
fn fixed_point(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let kept = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let fraction: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    let scale = 10_i128.pow((FRACTION_DIGITS - kept.len()) as u32);
    whole.checked_mul(FRACTION_ONE)?.checked_add(fraction * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_pytimeparse_parses() {
        for (text, seconds) in [
            ("300", 300.0),
            ("0.5", 0.5),
            ("5 minutes", 300.0),
            ("1h30m", 5400.0),
            ("1 hour, 30 mins", 5400.0),
            ("1:30:00", 5400.0),
            ("4:13", 253.0),
            ("-10 seconds", -10.0),
            ("2 weeks", 1_209_600.0),
            ("1s", 1.0),
            (":30", 30.0),
            ("00:60", 60.0),
            ("1:00:00.5", 3600.5),
            ("1-01:00:00", 90_000.0),
            ("1:01:00:00", 90_000.0),
            ("1d1:00:00", 90_000.0),
            ("1w, 1d 1:00:00", 694_800.0),
            ("2w 3d", 1_468_800.0),
            ("5 m / 3 s", 303.0),
            ("5 m ,", 300.0),
            ("1 MINUTE", 60.0),
            ("4.1m", 246.0),
            ("1.01m", 60.0),
            ("1.01m 1.0s", 61.6),
            ("5. s", 5.0),
            (".5 s", 0.5),
            ("- 1 hour", -3600.0),
            ("\n5s\n", 5.0),
            ("1_000", 1000.0),
            ("\u{663}", 3.0),
            ("1\u{663}m", 780.0),
            ("\u{663}:\u{660}\u{664}", 184.0),
            ("\u{663}.\u{665} s", 3.5),
        ] {
            assert_eq!(Timespan::parse(text), Timespan::from_secs_f64(seconds), "{text}");
        }
        for text in [
            "",
            "abc",
            "5 parsecs",
            "3m 4h",
            "1::2",
            "m",
            "5mi",
            "5 s ,",
            "5 m,, 3s",
            "1.5.1 m",
            ". m",
            "0:5",
            "100:00",
            "1.0:00:00",
            "1m 1:00:00",
            "1d 1:00",
            "1d 1-01:00:00",
            "--5s",
            "-",
            "1 minute 1 minute",
            "3\u{b2}s",
            "1_000 s",
        ] {
            assert_eq!(Timespan::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shows_spans_as_python_does() {
        for (nanoseconds, text) in [
            (300_000_000_000, "0:05:00"),
            (86_400_000_000_000, "1 day, 0:00:00"),
            (2_592_000_000_000_000, "30 days, 0:00:00"),
            (100_000_000, "0:00:00.100000"),
        ] {
            assert_eq!(Timespan(nanoseconds).to_python_text(), text);
        }
    }
}
