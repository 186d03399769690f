//! A length of time: whole nanoseconds.

use serde::{Deserialize, Serialize};

/// Nanoseconds. Granularities and timespans are positive; offsets ("-10 minutes") may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timespan(pub i64);

impl Timespan {
    pub const fn from_secs(seconds: i64) -> Self {
        Timespan(seconds * 1_000_000_000)
    }

    /// Seconds, cut to whole nanoseconds as Gnocchi cuts them; `None` where they do not fit.
    pub fn from_secs_f64(seconds: f64) -> Option<Self> {
        let nanoseconds = (seconds * 1e9).trunc();
        (nanoseconds.abs() < 9.2e18).then_some(Timespan(nanoseconds as i64))
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads seconds ("300", "0.5") or a duration as the Python package pytimeparse takes it ("5 minutes", "1h30m",
    /// "1:30:00", "-10 seconds"); `None` where it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(seconds) = text.trim().parse::<f64>() {
            return Self::from_secs_f64(seconds);
        }
        parse_units(text).and_then(Self::from_secs_f64)
    }

    /// The text of Python's `str(datetime.timedelta)`, in which Gnocchi shows spans: `0:05:00`, `30 days, 0:00:00`.
    pub fn to_python_text(self) -> String {
        // timedelta holds microseconds and rounds half to even.
        let micros = (self.0 as f64 / 1e3).round_ties_even() as i64;
        let (days, rest) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
        let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
        let mut text = match days {
            0 => String::new(),
            1 | -1 => format!("{days} day, "),
            _ => format!("{days} days, "),
        };
        text += &format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if fraction != 0 {
            text += &format!(".{fraction:06}");
        }
        text
    }
}

/// Units by name, in seconds; the longest spellings first, so that "min" is not read as "m".
const UNITS: &[(&[&str], f64)] = &[
    (&["weeks", "week", "wks", "wk", "w"], 604_800.0),
    (&["days", "day", "dys", "dy", "d"], 86_400.0),
    (&["hours", "hour", "hrs", "hr", "h"], 3_600.0),
    (&["minutes", "minute", "mins", "min", "m"], 60.0),
    (&["seconds", "second", "secs", "sec", "s"], 1.0),
];

fn parse_units(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let (sign, body) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest.trim_start()),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text).trim_start()),
    };
    if body.contains(':') {
        return parse_clock(body).map(|seconds| sign * seconds);
    }
    let (mut rest, mut total, mut next_unit) = (body, 0.0, 0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let (index, spelling) = UNITS.iter().enumerate().skip(next_unit).find_map(|(index, (names, _))| {
            names.iter().find(|name| starts_with_word(rest, name)).map(|name| (index, name))
        })?;
        total += number * UNITS[index].1;
        next_unit = index + 1;
        rest = rest[spelling.len()..].trim_start_matches([' ', ',']);
    }
    Some(sign * total)
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// `[days:]hours:minutes:seconds[.fraction]` or `minutes:seconds[.fraction]`.
fn parse_clock(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let weights: &[f64] = match parts.len() {
        2 => &[60.0, 1.0],
        3 => &[3_600.0, 60.0, 1.0],
        4 => &[86_400.0, 3_600.0, 60.0, 1.0],
        _ => return None,
    };
    let mut total = 0.0;
    for (part, weight) in parts.iter().zip(weights) {
        if !part.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        total += part.parse::<f64>().ok()? * weight;
    }
    Some(total)
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
        ] {
            assert_eq!(Timespan::parse(text), Timespan::from_secs_f64(seconds), "{text}");
        }
        for text in ["", "abc", "5 parsecs", "3m 4h", "1::2", "m"] {
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
