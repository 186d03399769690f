//! Compares two series of aggregates, bit by bit.

use std::fmt;

use gnudi_client::Point;
use gnudi_model::{AggregationMethod, Statistic};

use crate::merge;

/// Maximum relative difference of two percentiles.
const PERCENTILE_TOLERANCE: f64 = 1e-9;

/// Differences of a series to ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesRules<'a> {
    /// Percentiles are compared to nine digits.
    pub is_percentile: bool,
    /// Differing rows older than this time, in the servers' format, are ignored.
    pub ignored_before: Option<&'a str>,
}

impl<'a> SeriesRules<'a> {
    /// The rules for a method. `oldest` is the time of the granularity's oldest bucket: Gnocchi keeps expired buckets
    /// longer if not every bucket has a value of the method, and updates them with late points, which gnudi does not.
    pub fn of(method: AggregationMethod, oldest: Option<&'a str>) -> Self {
        SeriesRules {
            is_percentile: matches!(method.statistic, Statistic::Percentile(_)),
            ignored_before: if is_in_every_bucket(method) { None } else { oldest },
        }
    }
}

/// Whether every bucket has a value of the method: a standard deviation needs two points, and a rate a previous one.
pub fn is_in_every_bucket(method: AggregationMethod) -> bool {
    !method.rate && method.statistic != Statistic::Std
}

/// A server's value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    pub granularity_seconds: f64,
    pub value: f64,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} s", self.value, self.granularity_seconds)
    }
}

impl From<&Point> for Shown {
    fn from(point: &Point) -> Self {
        Shown { granularity_seconds: point.granularity_seconds, value: point.value }
    }
}

/// A row that differs; `None`: missing.
#[derive(Clone, Debug, PartialEq)]
pub struct PointDifference {
    pub timestamp: String,
    pub gnocchi: Option<Shown>,
    pub gnudi: Option<Shown>,
}

/// The result of a comparison of two series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesOutcome {
    /// Times at which a side has a value, without ignored ones.
    pub values: u64,
    /// Percentiles of these that are equal to nine digits, but not to the last bit.
    pub nine_digits: u64,
    /// Expired rows that differ.
    pub ignored: u64,
    pub differences: Vec<PointDifference>,
}

/// Compares two series, oldest row first.
pub fn compare(gnocchi: &[Point], gnudi: &[Point], rules: SeriesRules<'_>) -> SeriesOutcome {
    let mut outcome = SeriesOutcome::default();
    let (mut theirs, mut ours) = (gnocchi, gnudi);
    // Several rows within a second may have the same text.
    while let Some((is_theirs, is_ours)) = merge::turn(next_time(theirs), next_time(ours)) {
        let their = if is_theirs { theirs.split_off_first() } else { None };
        let our = if is_ours { ours.split_off_first() } else { None };
        outcome.add(their, our, rules);
    }
    outcome
}

/// As a text, which sorts like the time.
fn next_time(rows: &[Point]) -> Option<&str> {
    rows.first().map(|row| row.timestamp.as_str())
}

impl SeriesOutcome {
    fn add(&mut self, gnocchi: Option<&Point>, gnudi: Option<&Point>, rules: SeriesRules<'_>) {
        match (gnocchi, gnudi) {
            (Some(theirs), Some(ours)) if is_same(theirs, ours) => self.values += 1,
            (Some(theirs), Some(ours)) if rules.is_percentile && is_near(theirs, ours) => {
                self.values += 1;
                self.nine_digits += 1;
            }
            _ => {
                let Some(timestamp) = gnocchi.or(gnudi).map(|point| point.timestamp.clone()) else { return };
                if rules.ignored_before.is_some_and(|oldest| timestamp.as_str() < oldest) {
                    self.ignored += 1;
                    return;
                }
                self.values += 1;
                let (gnocchi, gnudi) = (gnocchi.map(Shown::from), gnudi.map(Shown::from));
                self.differences.push(PointDifference { timestamp, gnocchi, gnudi });
            }
        }
    }
}

fn is_same(one: &Point, other: &Point) -> bool {
    is_same_number(one.granularity_seconds, other.granularity_seconds)
        && is_same_number(one.value, other.value)
}

/// Bit by bit; all NaNs are equal.
fn is_same_number(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
}

fn is_near(one: &Point, other: &Point) -> bool {
    let (value, other_value) = (one.value, other.value);
    is_same_number(one.granularity_seconds, other.granularity_seconds)
        && value.is_finite()
        && other_value.is_finite()
        && (value - other_value).abs() <= PERCENTILE_TOLERANCE * value.abs().max(other_value.abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(second: u8, value: f64) -> Point {
        Point {
            timestamp: format!("2015-01-01T00:{:02}:{:02}+00:00", second / 60, second % 60),
            granularity_seconds: 1.0,
            value,
        }
    }

    fn points() -> impl Strategy<Value = Vec<Point>> {
        let values = prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), Just(-0.0)];
        prop::collection::vec((any::<u8>(), values), 0..40).prop_map(|mut rows| {
            rows.sort_by_key(|(second, _)| *second);
            rows.into_iter().map(|(second, value)| point(second, value)).collect()
        })
    }

    proptest! {
        #[test]
        fn a_series_is_equal_to_itself(points in points()) {
            let same = compare(&points, &points, SeriesRules::default());
            prop_assert!(same.differences.is_empty());
            prop_assert_eq!((same.values, same.nine_digits, same.ignored), (points.len() as u64, 0, 0));
        }

        #[test]
        fn what_is_left_out_is_found(points in points(), index in any::<prop::sample::Index>()) {
            prop_assume!(!points.is_empty());
            let mut less = points.clone();
            less.remove(index.index(points.len()));
            prop_assert!(!compare(&points, &less, SeriesRules::default()).differences.is_empty());
            prop_assert!(!compare(&less, &points, SeriesRules::default()).differences.is_empty());
        }
    }

    #[test]
    fn values_are_equal_bit_by_bit() {
        let one = [point(0, 1.5), point(1, 0.0), point(2, f64::NAN), point(3, 1e300)];
        let other = [point(0, 1.5), point(1, -0.0), point(2, -f64::NAN), point(4, 1e300)];
        let outcome = compare(&one, &other, SeriesRules::default());
        assert_eq!(outcome.values, 5);
        let shown = |value| Some(Shown { granularity_seconds: 1.0, value });
        let expected = [(1, shown(0.0), shown(-0.0)), (3, shown(1e300), None), (4, None, shown(1e300))];
        let found: Vec<_> = outcome
            .differences
            .into_iter()
            .map(|found| (found.timestamp, found.gnocchi, found.gnudi))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(second, gnocchi, gnudi)| (point(second, 0.0).timestamp, gnocchi, gnudi))
            .collect();
        assert_eq!(found, expected);
        let coarser = [Point { granularity_seconds: 60.0, ..point(0, 1.5) }];
        assert_eq!(compare(&one[..1], &coarser, SeriesRules::default()).differences.len(), 1);
    }

    #[test]
    fn percentiles_are_equal_to_nine_digits() {
        let rules = SeriesRules::of("95pct".parse().unwrap(), Some("2016"));
        assert_eq!(rules, SeriesRules { is_percentile: true, ignored_before: None });
        let one = [point(0, -3.0), point(1, 3.0), point(2, 3.0), point(3, f64::INFINITY)];
        let other = [point(0, -3.000_000_001), point(1, 3.000_000_01), point(2, 3.0), point(3, 1.0)];
        let outcome = compare(&one, &other, rules);
        assert_eq!((outcome.values, outcome.nine_digits, outcome.differences.len()), (4, 1, 2));
        assert_eq!(compare(&one, &other, SeriesRules::default()).differences.len(), 3);
    }

    #[test]
    fn expired_rows_are_ignored() {
        let oldest = point(5, 0.0).timestamp;
        let one = [point(1, 1.0), point(2, 1.0), point(5, 1.0), point(6, 1.0)];
        let other = [point(2, 2.0), point(5, 1.0), point(7, 1.0)];
        for method in ["std", "rate:mean", "rate:95pct"] {
            let rules = SeriesRules::of(method.parse().unwrap(), Some(&oldest));
            let outcome = compare(&one, &other, rules);
            assert_eq!((outcome.values, outcome.ignored, outcome.differences.len()), (3, 2, 2), "{method}");
            assert_eq!(compare(&other, &one, rules).ignored, 2, "{method}");
        }
        let rules = SeriesRules::of("mean".parse().unwrap(), Some(&oldest));
        assert_eq!(compare(&one, &other, rules).ignored, 0);
    }
}
