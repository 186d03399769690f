//! ISO 8601 times in all forms that `oslo_utils.timeutils.parse_isotime` accepts.

use std::{fmt, sync::LazyLock};

use fancy_regex::{Captures, Regex};
use gnudi_model::timestamp::{civil_from_days, days_from_civil};

/// Longer texts are rejected.
const TEXT_BYTES_MAX: usize = 128;

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Hyphens and colons are optional, and the text may end after any part.
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let zone = r"(?<zone>Z|(?<sign>[-+])(?<zh>[0-9]{2}):?(?<zm>[0-9]{2})?)?";
    let second = r"(?::?(?<s>[0-9]{1,2})(?:[.,](?<fraction>[0-9]+))?)?";
    let time = format!("(?:[ T](?<h>[0-9]{{2}})(?::?(?<m>[0-9]{{2}}))?{second}{zone})?");
    let day = format!("(?:(?:-(?<day>[0-9]{{1,2}})|(?<dd>[0-9]{{2}})){time})?");
    let month = r"(?:-(?<month>[0-9]{1,2})|(?<mm>[0-9]{2})(?!\n?\z))";
    Regex::new(&format!(r"\A(?<year>[0-9]{{4}})(?:{month}{day})?\n?\z")).expect("a correct expression")
});

/// A point in time, with the UTC offset that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsoTime {
    /// Microseconds since the epoch in local time.
    local_us: i64,
    offset_minutes: i64,
}

impl IsoTime {
    /// A time without an offset is UTC. `None` if the text is not a time or not a valid date.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(time) = parse_usual(text) {
            return Some(time);
        }
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let captures = FORM.captures(text).ok()??;
        let number = |name: &str, otherwise| number_of(&captures, name).unwrap_or(otherwise);
        let local_us = local(
            [number("year", 0), number("month", number("mm", 1)), number("day", number("dd", 1))],
            [number("h", 0), number("m", 0), number("s", 0)],
            captures.name("fraction").map_or("", |fraction| fraction.as_str()),
        )?;
        let minutes = number("zh", 0) * 60 + number("zm", 0);
        let is_west = captures.name("sign").is_some_and(|sign| sign.as_str() == "-");
        let is_zone = minutes < 24 * 60;
        is_zone.then_some(IsoTime { local_us, offset_minutes: if is_west { -minutes } else { minutes } })
    }

    /// Microseconds since the epoch.
    pub fn microseconds(self) -> i64 {
        self.local_us - self.offset_minutes * 60 * MICROSECONDS_PER_SECOND
    }

    /// Nanoseconds since the epoch; `None` if they do not fit 64 bits (before 1677 and after 2262).
    pub fn nanoseconds(self) -> Option<i64> {
        self.microseconds().checked_mul(1000)
    }
}

/// `YYYY-MM-DDTHH:MM:SS`, six digits of fraction unless it is 0, and the offset.
impl fmt::Display for IsoTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.local_us.div_euclid(MICROSECONDS_PER_SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let fraction = self.local_us.rem_euclid(MICROSECONDS_PER_SECOND);
        if fraction != 0 {
            write!(formatter, ".{fraction:06}")?;
        }
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let offset = self.offset_minutes.abs();
        write!(formatter, "{sign}{:02}:{:02}", offset / 60, offset % 60)
    }
}

/// Fast path: `YYYY-MM-DD HH:MM:SS`, optional fraction, no zone or UTC, as in nearly all messages.
fn parse_usual(text: &str) -> Option<IsoTime> {
    let bytes = text.as_bytes();
    if bytes.len() < 19 || !text.is_ascii() {
        return None;
    }
    let signs = [(4, "-"), (7, "-"), (10, " T"), (13, ":"), (16, ":")];
    if !signs.iter().all(|(at, signs)| signs.as_bytes().contains(&bytes[*at])) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &bytes[from..to];
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let rest = text[19..].strip_suffix("+00:00").or_else(|| text[19..].strip_suffix('Z'));
    let rest = rest.unwrap_or(&text[19..]);
    let fraction = match rest.strip_prefix('.') {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) => digits,
        None if rest.is_empty() => "",
        _ => return None,
    };
    let date = [number(0, 4)?, number(5, 7)?, number(8, 10)?];
    let time = [number(11, 13)?, number(14, 16)?, number(17, 19)?];
    local(date, time, fraction).map(|local_us| IsoTime { local_us, offset_minutes: 0 })
}

fn number_of(captures: &Captures<'_, str>, name: &str) -> Option<i64> {
    captures.name(name)?.as_str().parse().ok()
}

/// Microseconds since the epoch; `None` for an invalid date or time.
fn local([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3], fraction: &str) -> Option<i64> {
    let days = days_from_civil(year, month, day);
    let is_date = year >= 1 && (1..=12).contains(&month) && civil_from_days(days) == (year, month, day);
    if !is_date || hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    let microseconds = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(6)
        .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    Some(seconds * MICROSECONDS_PER_SECOND + microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_read() {
        for (text, written) in [
            ("2013-01-02 03:04:05.678901", "2013-01-02T03:04:05.678901+00:00"),
            ("2013-01-02T03:04:05Z", "2013-01-02T03:04:05+00:00"),
            ("2013-01-02T03:04:05.5+05:30", "2013-01-02T03:04:05.500000+05:30"),
            ("2013-01-02T03:04:05,1234567-00:30", "2013-01-02T03:04:05.123456-00:30"),
            ("20130102T030405", "2013-01-02T03:04:05+00:00"),
            ("2013", "2013-01-01T00:00:00+00:00"),
            ("2013-5", "2013-05-01T00:00:00+00:00"),
            ("2013-112", "2013-01-12T00:00:00+00:00"),
            ("2013-01-02T123", "2013-01-02T12:00:03+00:00"),
            ("2013-01-02T12+05:", "2013-01-02T12:00:00+05:00"),
            ("2013-01-02T12+05:99", "2013-01-02T12:00:00+06:39"),
            ("2012-02-29T00:00:00\n", "2012-02-29T00:00:00+00:00"),
            ("0001-01-01T00:00:00", "0001-01-01T00:00:00+00:00"),
            ("9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999+00:00"),
        ] {
            assert_eq!(IsoTime::parse(text).map(|time| time.to_string()).as_deref(), Some(written), "{text}");
        }
        for text in [
            "",
            "x",
            "201301",
            "2013-13-01",
            "2013-02-29",
            "2013-01-02T24:00:00",
            "2013-01-02T00:00:60",
            "2013-01-02T00:00:00+24:00",
            "0000-01-01",
            "2013-01-02X03:04:05",
            "2013-01-02T03:04:05.",
        ] {
            assert_eq!(IsoTime::parse(text), None, "{text}");
        }
        let west = IsoTime::parse("1970-01-01T00:00:00-01:00").map(IsoTime::microseconds);
        assert_eq!(west, Some(3_600_000_000));
    }
}
