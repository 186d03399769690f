//! The calendar: parts of times in UTC.

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

    /// Of seconds since 1970. The algorithm is Howard Hinnant's `civil_from_days`.
    pub(crate) fn new(seconds: i64) -> Civil {
        let wrapped = if seconds < FIRST_SECOND { 1_i128 << 64 } else { 0 };
        let seconds = i128::from(seconds) + wrapped;
        let days = seconds.div_euclid(i128::from(DAY_SECONDS)) as i64;
        let of_day = seconds.rem_euclid(i128::from(DAY_SECONDS)) as i64;
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60, days }
    }

    /// 0 is Sunday.
    pub(crate) fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    fn is_leap(&self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    pub(crate) fn days_in_month(&self) -> i64 {
        match self.month {
            2 => 28 + i64::from(self.is_leap()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// From 1.
    pub(crate) fn day_of_year(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap_day = i64::from(self.month > 2 && self.is_leap());
        BEFORE[self.month as usize - 1] + leap_day + self.day
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
