//! The dates of the Python package iso8601, which Gnocchi's client reads.

use std::borrow::Cow;

/// A text that `iso8601.parse_date` reads as a date, in the form `YYYY-MM-DD[Thh:mm:ss[.f][zone]]`, which servers read.
/// Others as they are. Ranges are not checked.
pub fn normal_date(text: &str) -> Cow<'_, str> {
    DateReader { rest: text }.read().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Follows the package's grammar:
/// `YYYY[(-M[M]|MM)[(-D[D]|DD)[(T| )hh[[:]mm][[:]s[s][(.|,)f]][Z|(+|-)hh[:][mm]]]]]`, but not `YYYYMM`. Left out is
/// `YYYY-MDD`, which looks like a day of the year.
struct DateReader<'t> {
    rest: &'t str,
}

impl<'t> DateReader<'t> {
    fn read(mut self) -> Option<String> {
        let year = self.digits(4, 4)?;
        if self.rest.is_empty() {
            return Some(format!("{year}-01-01"));
        }
        let is_dashed = self.skip(&['-']);
        let month = self.digits(if is_dashed { 1 } else { 2 }, 2)?;
        if self.rest.is_empty() {
            return is_dashed.then(|| format!("{year}-{month:0>2}-01"));
        }
        let day_digits_min = if self.skip(&['-']) { 1 } else { 2 };
        let day = self.digits(day_digits_min, 2)?;
        let date = format!("{year}-{month:0>2}-{day:0>2}");
        if self.rest.is_empty() { Some(date) } else { Some(date + &self.time()?) }
    }

    /// The time of day with its zone, up to the end.
    fn time(&mut self) -> Option<String> {
        if !self.skip(&['T', ' ']) {
            return None;
        }
        let hour = self.digits(2, 2)?;
        let (mut minute, mut second) = (self.behind_colon(2), self.behind_colon(1));
        if second.is_none() && self.rest.starts_with(['.', ',']) {
            // Only seconds have a fraction.
            (minute, second) = (None, minute);
        }
        let fraction = match second {
            Some(_) if self.skip(&['.', ',']) => format!(".{}", self.digits(1, usize::MAX)?),
            _ => String::new(),
        };
        let (minute, second, zone) = (minute.unwrap_or("00"), second.unwrap_or("00"), self.zone()?);
        Some(format!("T{hour}:{minute}:{second:0>2}{fraction}{zone}"))
    }

    fn zone(&mut self) -> Option<String> {
        if matches!(self.rest, "" | "Z") {
            return Some(self.rest.to_owned());
        }
        let sign = if self.skip(&['+']) { '+' } else { '-' };
        if sign == '-' && !self.skip(&['-']) {
            return None;
        }
        let hour = self.digits(2, 2)?;
        let minute = self.behind_colon(2);
        // A colon without minutes may end it.
        let is_end = self.rest.is_empty() || minute.is_none() && self.rest == ":";
        is_end.then(|| format!("{sign}{hour}:{}", minute.unwrap_or("00")))
    }

    /// Up to two digits, with or without a colon before them.
    fn behind_colon(&mut self, digits_min: usize) -> Option<&'t str> {
        let before = self.rest;
        self.skip(&[':']);
        let digits = self.digits(digits_min, 2);
        if digits.is_none() {
            self.rest = before;
        }
        digits
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<&'t str> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        if count < least {
            return None;
        }
        self.rest = rest;
        Some(digits)
    }

    /// Whether one of these characters stood there.
    fn skip(&mut self, characters: &[char]) -> bool {
        let rest = self.rest.strip_prefix(characters);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_by_the_package() {
        for (text, expected) in [
            ("2015", "2015-01-01"),
            ("2015-3", "2015-03-01"),
            ("2015-3-6", "2015-03-06"),
            ("2015-0306", "2015-03-06"),
            ("20150306", "2015-03-06"),
            ("20150306T143357", "2015-03-06T14:33:57"),
            ("2015-03-06 14", "2015-03-06T14:00:00"),
            ("2015-03-06T14:33", "2015-03-06T14:33:00"),
            ("2015-03-06T143", "2015-03-06T14:00:03"),
            ("2015-03-06T14:33.5", "2015-03-06T14:00:33.5"),
            ("2015-03-06T14:33:7,25Z", "2015-03-06T14:33:07.25Z"),
            ("2015-03-06T14:33:57.123456789+0900", "2015-03-06T14:33:57.123456789+09:00"),
            ("20150306 14-09", "2015-03-06T14:00:00-09:00"),
            ("2015-03-06T14:33+09:", "2015-03-06T14:33:00+09:00"),
        ] {
            assert_eq!(normal_date(text), expected, "{text}");
        }
        for text in [
            "",
            "201",
            "201503",
            "2015-",
            "2015-03-",
            "2015-036 ",
            "2015-03-06T",
            "2015-03-06T1",
            "2015-03-06T14:33:57.",
            "2015-03-06T14:33 Z",
            "2015-03-06T14:33*09",
            "2015-03-06T14:33+9",
            "2015-03-06T14:33+09:00:",
            "2015-03-06T14.5",
            " 2015",
            "150306",
            "999999999",
            "1425652437",
            "1425652437.5",
            "now",
            "-1h",
            "2015é",
        ] {
            assert_eq!(normal_date(text), text);
        }
    }
}
