//! Groups buckets by the time of the week at which they start: weekday, hour of the day, or both, at an
//! offset from UTC.

use std::{collections::BTreeMap, sync::Arc};

use gnudi_model::Timestamp;

use super::{CrossMeasures, CrossSeries};
use crate::operations::{CrossStatistic, summary};

const DAY_SECONDS: i64 = 86_400;
const HOUR_SECONDS: i64 = 3_600;

/// The grouping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub by_weekday: bool,
    pub by_hour: bool,
    /// The offset of its time from UTC; positive is ahead.
    pub offset_seconds: i64,
}

/// A time of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockTime {
    /// ISO 8601: from 1, Monday, to 7.
    pub weekday: Option<u8>,
    /// From 0 to 23.
    pub hour: Option<u8>,
}

impl Clock {
    /// The time of the week at which a bucket starts.
    pub fn time(&self, bucket: Timestamp) -> ClockTime {
        let seconds = bucket.0.div_euclid(1_000_000_000) + self.offset_seconds;
        // 1970-01-01 was a Thursday.
        let weekday = (seconds.div_euclid(DAY_SECONDS) + 3).rem_euclid(7) + 1;
        let hour = seconds.rem_euclid(DAY_SECONDS) / HOUR_SECONDS;
        ClockTime {
            weekday: self.by_weekday.then_some(weekday as u8),
            hour: self.by_hour.then_some(hour as u8),
        }
    }

    /// The answers' buckets grouped by time of the week, in that order; times without buckets are omitted.
    /// Each group has all granularities and columns, possibly without points. With a statistic, the group's
    /// buckets of a column are aggregated into one, at the first bucket's start.
    pub fn split(
        &self,
        answers: &[CrossMeasures],
        statistic: Option<CrossStatistic>,
    ) -> BTreeMap<ClockTime, Vec<CrossMeasures>> {
        let mut split: BTreeMap<ClockTime, Vec<CrossMeasures>> = BTreeMap::new();
        let without_points = || -> Vec<CrossMeasures> {
            let empty = |answer: &CrossMeasures| CrossMeasures {
                columns: vec![CrossSeries::default(); answer.columns.len()],
                ..*answer
            };
            answers.iter().map(empty).collect()
        };
        for (granularity, answer) in answers.iter().enumerate() {
            for (column, series) in answer.columns.iter().enumerate() {
                for (time, (timestamps, values)) in self.split_series(series) {
                    let values = match statistic {
                        Some(statistic) => vec![summary(statistic, &values)],
                        None => values,
                    };
                    let timestamps = Arc::new(timestamps[..values.len()].to_vec());
                    split.entry(time).or_insert_with(without_points)[granularity].columns[column] =
                        CrossSeries { timestamps, values };
                }
            }
        }
        split
    }

    fn split_series(&self, series: &CrossSeries) -> BTreeMap<ClockTime, (Vec<Timestamp>, Vec<f64>)> {
        let mut split: BTreeMap<ClockTime, (Vec<Timestamp>, Vec<f64>)> = BTreeMap::new();
        for (&time, &value) in series.timestamps.iter().zip(&series.values) {
            let (timestamps, values) = split.entry(self.time(time)).or_default();
            timestamps.push(time);
            values.push(value);
        }
        split
    }

    /// The most groups possible.
    pub fn times_max(&self) -> usize {
        (if self.by_weekday { 7 } else { 1 }) * (if self.by_hour { 24 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: i64, offset_seconds| {
            let clock = Clock { by_weekday: true, by_hour: true, offset_seconds };
            let ClockTime { weekday, hour } = clock.time(Timestamp::from_secs(seconds));
            (weekday.unwrap(), hour.unwrap())
        };
        assert_eq!(at(0, 0), (4, 0));
        assert_eq!(at(-1, 0), (3, 23));
        // Sunday, 2026-03-01, 23:59:59.
        assert_eq!(at(1_772_409_599, 0), (7, 23));
        assert_eq!(at(1_772_409_600, 0), (1, 0));
        assert_eq!(at(1_772_409_599, 5_400), (1, 1));
        assert_eq!(at(1_772_409_600, -1), (7, 23));
        let hours = Clock { by_hour: true, ..Clock::default() };
        assert_eq!(hours.time(Timestamp(i64::MIN)).weekday, None);
        assert_eq!([hours.times_max(), Clock { by_weekday: true, ..hours }.times_max()], [24, 168]);
    }
}
