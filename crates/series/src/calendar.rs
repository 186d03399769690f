//! Gregorian periods that points can be grouped by: years, halves, quarters, months, and weeks that start on Sunday.

use gnudi_model::{
    Timestamp,
    timestamp::{civil_from_days, days_from_civil},
};

const DAY_NS: i64 = 86_400_000_000_000;

/// A calendar period; in requests a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    Year,
    Half,
    Quarter,
    Month,
    Week,
}

impl Calendar {
    /// `Y`, `H`, `Q`, `M` or `W`.
    pub fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'Y' => Calendar::Year,
            'H' => Calendar::Half,
            'Q' => Calendar::Quarter,
            'M' => Calendar::Month,
            'W' => Calendar::Week,
            _ => return None,
        })
    }

    pub fn letter(self) -> char {
        match self {
            Calendar::Year => 'Y',
            Calendar::Half => 'H',
            Calendar::Quarter => 'Q',
            Calendar::Month => 'M',
            Calendar::Week => 'W',
        }
    }

    /// The start of the period that holds `time`. The week of the epoch starts before it, on 1969-12-28.
    pub fn floor(self, time: Timestamp) -> Timestamp {
        let day = time.0.div_euclid(DAY_NS);
        let months = match self {
            // Day 3 was a Sunday.
            Calendar::Week => return Timestamp((day - (day - 3).rem_euclid(7)).saturating_mul(DAY_NS)),
            Calendar::Month => 1,
            Calendar::Quarter => 3,
            Calendar::Half => 6,
            Calendar::Year => 12,
        };
        let (year, month, _) = civil_from_days(day);
        Timestamp(days_from_civil(year, month - (month - 1) % months, 1).saturating_mul(DAY_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_start_where_the_calendar_says() {
        // 2014-08-20T13:37:00Z, a Wednesday.
        let time = Timestamp::from_secs(1_408_541_820);
        for (letter, start) in [
            ('Y', "2014-01-01"),
            ('H', "2014-07-01"),
            ('Q', "2014-07-01"),
            ('M', "2014-08-01"),
            ('W', "2014-08-17"),
        ] {
            let calendar = Calendar::from_letter(letter).unwrap();
            let floor = calendar.floor(time);
            assert_eq!(floor.to_iso(), format!("{start}T00:00:00+00:00"), "{letter}");
            assert_eq!(calendar.floor(floor), floor);
            assert_eq!(calendar.letter(), letter);
        }
        assert_eq!(Calendar::Week.floor(Timestamp::EPOCH), Timestamp(-4 * DAY_NS));
        assert_eq!(Calendar::from_letter('D'), None);
    }
}
