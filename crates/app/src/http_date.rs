//! Dates in headers: written in HTTP's format, read as Python's `email.utils.parsedate_tz` reads them, which
//! accepts nearly every date format of mail and HTTP.

use std::cell::RefCell;

use gnudi_model::{
    Timestamp,
    timestamp::{civil_from_days, days_from_civil},
};
use hyper::header::HeaderValue;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Named time zones and their offset from UTC, as hours and minutes (`hhmm`).
const ZONES: [(&str, i64); 14] = [
    ("UT", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("AST", -400),
    ("ADT", -300),
    ("EST", -500),
    ("EDT", -400),
    ("CST", -600),
    ("CDT", -500),
    ("MST", -700),
    ("MDT", -600),
    ("PST", -800),
    ("PDT", -700),
];

/// `Sat, 21 Nov 2026 12:02:18 GMT`; fractions of a second are truncated.
pub fn write(time: Timestamp) -> String {
    let days = time.secs().div_euclid(86_400);
    let second = time.secs().rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let month = &MONTHS[month as usize - 1][..3];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// The value of the `Date` header, cached for a second.
pub fn header(now: Timestamp) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(i64, HeaderValue)> = const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    LAST.with_borrow_mut(|(second, value)| {
        if *second != now.secs() {
            *second = now.secs();
            *value = HeaderValue::try_from(write(now)).expect("letters, digits and punctuation");
        }
        value.clone()
    })
}

/// Parses a date to seconds since the epoch; without a zone it is UTC. `None` if it is invalid.
pub fn parse(text: &str) -> Option<i64> {
    let parts = parts(text)?;
    let [mut day, mut month, mut year, mut time, mut zone] =
        parts.each_ref().map(|part| part.trim_end_matches(','));
    if month_number(month).is_none() {
        (day, month) = (month, day);
    }
    let month = month_number(month)?;
    if year.find(':').is_some_and(|colon| colon > 0) {
        (year, time) = (time, year);
    }
    if !year.starts_with(|character: char| character.is_ascii_digit()) {
        (year, zone) = (zone, year);
    }
    let year = match number(year)? {
        year @ 0..=68 => year + 2000,
        year @ 69..=99 => year + 1900,
        year => year,
    };
    // A day beyond the month's end counts on into the next month.
    let days = days_from_civil(year, month, 1) + number(day)? - 1;
    Some(days * 86_400 + second_of_day(time)? - offset(zone))
}

/// Day, month, year, time and zone, in the order of the text.
fn parts(text: &str) -> Option<[String; 5]> {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let first = *words.first()?;
    let is_day_name = first
        .get(..3)
        .is_some_and(|name| first.len() == 3 && DAYS.iter().any(|day| day.eq_ignore_ascii_case(name)));
    if first.ends_with(',') || is_day_name {
        words.remove(0);
    } else if let Some((_, rest)) = first.rsplit_once(',') {
        words[0] = rest;
    }
    // RFC 850 has 21-Nov-26.
    if words.len() == 3 {
        let dashed: Vec<&str> = words[0].split('-').collect();
        if dashed.len() == 3 {
            words.splice(..1, dashed);
        }
    }
    if words.len() == 4 {
        let time = words[3];
        let sign = time.find('+').or_else(|| time.find('-')).filter(|sign| *sign > 0);
        let (time, zone) = time.split_at(sign.unwrap_or(time.len()));
        words[3] = time;
        words.push(zone);
    }
    let parts: [String; 5] =
        words.get(..5)?.iter().map(ToString::to_string).collect::<Vec<_>>().try_into().ok()?;
    parts[..3].iter().all(|part| !part.is_empty()).then_some(parts)
}

fn month_number(name: &str) -> Option<i64> {
    let is_it =
        |month: &&'static str| name.eq_ignore_ascii_case(month) || name.eq_ignore_ascii_case(&month[..3]);
    MONTHS.iter().position(is_it).map(|index| index as i64 + 1)
}

/// Parses at most nine digits, so that no sum overflows.
fn number(text: &str) -> Option<i64> {
    (text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn second_of_day(time: &str) -> Option<i64> {
    let separator = if time.contains(':') { ':' } else { '.' };
    let numbers = time.split(separator).map(number).collect::<Option<Vec<i64>>>()?;
    match numbers[..] {
        [hour, minute] => Some(hour * 3600 + minute * 60),
        [hour, minute, second] => Some(hour * 3600 + minute * 60 + second),
        _ => None,
    }
}

/// Seconds by which a zone is ahead of UTC; 0 if unknown.
fn offset(zone: &str) -> i64 {
    let named = ZONES.iter().find(|(name, _)| zone.eq_ignore_ascii_case(name)).map(|(_, offset)| *offset);
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let offset = named.or_else(|| Some(sign * number(digits)?)).unwrap_or(0);
    (offset / 100) * 3600 + (offset % 100) * 60
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 1_795_262_538;

    #[test]
    fn dates_are_written_as_http_has_them() {
        assert_eq!(write(Timestamp(TIME * 1_000_000_000 + 999_999_999)), "Sat, 21 Nov 2026 12:02:18 GMT");
        assert_eq!(write(Timestamp::EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
        for days in 0..1000 {
            let time = Timestamp::from_secs(days * 86_400 * 13 + 7);
            assert_eq!(parse(&write(time)), Some(time.secs()));
        }
    }

    /// Python's results.
    #[test]
    fn dates_are_read_in_many_forms() {
        for text in [
            "Sat, 21 Nov 2026 12:02:18 GMT",
            "Saturday, 21-Nov-26 12:02:18 GMT",
            "Sat Nov 21 12:02:18 2026",
            "21 Nov 2026 12:02:18",
            "Sat,21 Nov 2026 13:02:18 +0100",
            "21 November 2026 06:32:18 -0530",
            "Nov 21, 2026 12:02:18 UTC",
            "sat, 21 nov 26 07:02:18 EST",
            "21 Nov 2026 12.02.18 Z",
            "21 Nov 2026 12:02:18+0000",
            "Sat, 21 Nov 2026 12:02:18 nowhere",
            "Sat, 21 Nov 2026 12:02:18 GMT (noon)",
            "51 Oct 2026 36:02:18",
        ] {
            assert_eq!(parse(text), Some(TIME), "{text}");
        }
        assert_eq!(parse("Sat, 21 Nov 2026 12:02 GMT"), Some(TIME - 18));
        assert_eq!(parse("1 Jan 69 00:00"), Some(-31_536_000));
        for text in [
            "",
            " ",
            "foo",
            "1795262538",
            "2026-11-21T12:02:18Z",
            "21 Foo 2026 12:02:18",
            "21 Nov 2026",
            "Sat,",
            "21 Nov 2026 12 GMT",
            "x Nov 2026 12:02:18",
            "21 Nov x 12:02:18",
            "21 Nov 99999999999 12:02:18",
            ", , , , ,",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
