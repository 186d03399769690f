//! The calendar: parts of times in UTC.

use gnudi_model::timestamp::{civil_from_days, days_from_civil, days_in_month};

const DAY_SECONDS: i64 = 86_400;
/// The first second of Go's calendar. Earlier times wrap to its end.
const FIRST_SECOND: i64 = -9_223_372_028_741_760_000;

/// A time by the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// Days since 1970-01-01.
    days: i64,
}

impl Civil {
    /// From seconds since 1970 as a float; out of range it is the least 64-bit number.
    pub(crate) fn of_float(seconds: f64) -> Civil {
        let is_possible = seconds >= i64::MIN as f64 && seconds < i64::MAX as f64;
        Civil::new(if is_possible { seconds as i64 } else { i64::MIN })
    }

    /// Of seconds since 1970.
    pub(crate) fn new(seconds: i64) -> Civil {
        let wrapped = if seconds < FIRST_SECOND { 1_i128 << 64 } else { 0 };
        let seconds = i128::from(seconds) + wrapped;
        let days = seconds.div_euclid(i128::from(DAY_SECONDS)) as i64;
        let of_day = seconds.rem_euclid(i128::from(DAY_SECONDS)) as i64;
        let (year, month, day) = civil_from_days(days);
        Civil { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60, days }
    }

    /// 0 is Sunday.
    pub(crate) fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    pub(crate) fn days_in_month(&self) -> i64 {
        days_in_month(self.year, self.month)
    }

    /// From 1.
    pub(crate) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }
}

/// A time in milliseconds, printed to the second.
pub(crate) fn rfc3339(milliseconds: i64) -> String {
    let civil = Civil::new(milliseconds / 1000);
    let Civil { year, month, day, hour, minute, second, .. } = civil;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_leap_years() {
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(Civil::new(951_782_400).days_in_month(), 29);
        assert_eq!(Civil::new(951_782_400).day_of_year(), 60);
        assert_eq!(Civil::new(951_868_800).day_of_year(), 61);
        assert_eq!(Civil::new(-1).year, 1969);
        assert_eq!(Civil::new(0).weekday(), 4);
        let last = Civil::of_float(f64::INFINITY);
        assert_eq!((last.year, last.month, last.day, last.hour), (292_277_026_596, 12, 4, 15));
    }
}
