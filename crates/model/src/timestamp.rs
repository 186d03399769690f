//! A point in time: whole nanoseconds since the Unix epoch, never before it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Timespan;

/// Nanoseconds since 1970-01-01T00:00:00Z; the range of numpy's `datetime64[ns]`, whose last year is 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const EPOCH: Timestamp = Timestamp(0);
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    pub const fn from_secs(seconds: i64) -> Self {
        Timestamp(seconds * 1_000_000_000)
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The start of the bucket of width `span` that contains this time; buckets are aligned to the epoch.
    pub const fn floor(self, span: Timespan) -> Self {
        Timestamp(self.0 - self.0.rem_euclid(span.0))
    }

    /// Later by `span`; saturates at the end of the range.
    pub const fn saturating_add(self, span: Timespan) -> Self {
        Timestamp(self.0.saturating_add(span.0))
    }

    /// Earlier by `span`; saturates at the start of the range.
    pub const fn saturating_sub(self, span: Timespan) -> Self {
        Timestamp(self.0.saturating_sub(span.0))
    }

    /// Writes `YYYY-MM-DDTHH:MM:SS+00:00`, the form of Gnocchi's responses: truncated to seconds, 25 bytes (the range
    /// ends before the year 10000).
    pub fn write_iso(self, out: &mut Vec<u8>) {
        let (year, month, day) = civil_from_days(self.secs().div_euclid(86_400));
        let second_of_day = self.secs().rem_euclid(86_400);
        let mut text = *b"0000-00-00T00:00:00+00:00";
        put_digits(&mut text[0..4], year);
        put_digits(&mut text[5..7], month);
        put_digits(&mut text[8..10], day);
        put_digits(&mut text[11..13], second_of_day / 3600);
        put_digits(&mut text[14..16], second_of_day / 60 % 60);
        put_digits(&mut text[17..19], second_of_day % 60);
        out.extend_from_slice(&text);
    }

    /// Writes Python's `datetime.isoformat`: as [`Timestamp::write_iso`], with six digits of a fraction unless it is
    /// zero. Truncated to microseconds.
    pub fn write_iso_micros(self, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_iso(out);
        let micros = self.0.rem_euclid(1_000_000_000) / 1_000;
        if micros != 0 {
            let mut fraction = *b".000000";
            put_digits(&mut fraction[1..], micros);
            let zone = start + "0000-00-00T00:00:00".len();
            out.splice(zone..zone, fraction);
        }
    }

    /// The text of [`Timestamp::write_iso_micros`].
    pub fn to_iso_micros(self) -> String {
        let mut out = Vec::with_capacity(32);
        self.write_iso_micros(&mut out);
        String::from_utf8(out).expect("digits are ASCII")
    }

    /// The text of [`Timestamp::write_iso`].
    pub fn to_iso(self) -> String {
        let mut out = Vec::with_capacity(25);
        self.write_iso(&mut out);
        String::from_utf8(out).expect("digits are ASCII")
    }
}

/// Of a clock. Times outside the range become its nearest end.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
    }
}

fn put_digits(out: &mut [u8], mut value: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Days since the epoch to (year, month 1-12, day 1-31) in the proleptic Gregorian calendar
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The inverse of [`civil_from_days`]; month and day must be in range.
pub const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Days of a month, 1 to 12, of the proleptic Gregorian calendar.
#[inline]
pub const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn iso_text_is_cut_to_the_second() {
        assert_eq!(Timestamp(1_356_998_400_999_999_999).to_iso(), "2013-01-01T00:00:00+00:00");
        assert_eq!(Timestamp::EPOCH.to_iso(), "1970-01-01T00:00:00+00:00");
    }

    #[test]
    fn iso_text_has_microseconds_where_there_are_some() {
        assert_eq!(Timestamp(1_356_998_400_000_999_999).to_iso_micros(), "2013-01-01T00:00:00.000999+00:00");
        assert_eq!(Timestamp(1_356_998_400_120_000_000).to_iso_micros(), "2013-01-01T00:00:00.120000+00:00");
        assert_eq!(Timestamp(1_356_998_400_000_000_999).to_iso_micros(), "2013-01-01T00:00:00+00:00");
    }

    proptest! {
        #[test]
        fn civil_dates_round_trip(days in 0i64..200_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
