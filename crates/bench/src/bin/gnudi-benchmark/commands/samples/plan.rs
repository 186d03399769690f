//! The data and its batches: the same samples, in the same order, for every store.

use std::ops::Range;

use anyhow::{Result, ensure};
use gnudi_model::Timestamp;

use crate::body::{START_MS, Span, Values};

/// One meter of every instance, by the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub instances: usize,
    /// Per instance.
    pub minutes: usize,
    /// Each loads its share of the instances.
    pub connections: usize,
    /// Maximum samples per call: some minutes of every instance of a connection.
    pub batch: usize,
}

/// A mean: the start of its time in Gnocchi's form, and the value.
pub type Point = (String, f64);

pub const STEP_MS: i64 = 60_000;

/// Sums in another order differ in the last digits.
const TOLERANCE: f64 = 1e-9;

impl Plan {
    pub fn samples(&self) -> usize {
        self.instances * self.minutes
    }

    /// The instances of each connection.
    pub fn shares(&self) -> Vec<Range<usize>> {
        let share = self.share();
        (0..self.instances).step_by(share).map(|start| start..self.instances.min(start + share)).collect()
    }

    fn share(&self) -> usize {
        self.instances.div_ceil(self.connections)
    }

    /// The times of each batch.
    pub fn batches(&self) -> impl Iterator<Item = Span> {
        let (minutes, batch) = (self.minutes, (self.batch / self.share()).max(1));
        (0..minutes).step_by(batch).map(move |start| Span::minutes(start, batch.min(minutes - start)))
    }

    /// The values of an instance, from its first minute on.
    pub fn values(instance: usize) -> Values {
        Values::new(instance as u64 + 1)
    }

    /// The expected means of an instance, computed in the simplest way.
    pub fn expected(&self, instance: usize, granularity_s: i64) -> Vec<Point> {
        let mut values = Self::values(instance);
        let mut points: Vec<(i64, f64, f64)> = Vec::new();
        for minute in 0..self.minutes as i64 {
            let bucket = (START_MS + minute * STEP_MS).div_euclid(granularity_s * 1000) * granularity_s;
            let value = values.next_hundredths() as f64 / 100.0;
            match points.last_mut() {
                Some((last, sum, count)) if *last == bucket => (*sum, *count) = (*sum + value, *count + 1.0),
                _ => points.push((bucket, value, 1.0)),
            }
        }
        points.into_iter().map(|(bucket, sum, count)| (time_text(bucket), sum / count)).collect()
    }
}

/// Seconds since the epoch in the form of Gnocchi's responses.
pub fn time_text(seconds: i64) -> String {
    Timestamp(seconds * 1_000_000_000).to_iso()
}

/// An error with the first difference.
pub fn check(found: &[Point], expected: &[Point]) -> Result<()> {
    ensure!(found.len() == expected.len(), "{} points, not {}", found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let near = (found.1 - expected.1).abs() <= TOLERANCE * expected.1.abs().max(1.0);
        ensure!(found.0 == expected.0 && near, "{found:?}, not {expected:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { instances: 5, minutes: 150, connections: 2, batch: 180 };

    #[test]
    fn batches_and_shares_cover_everything_once() {
        assert_eq!(PLAN.shares(), [0..3, 3..5]);
        assert_eq!(Plan { connections: 9, ..PLAN }.shares().len(), 5);
        let batches: Vec<Span> = PLAN.batches().collect();
        assert_eq!(batches.iter().map(|span| span.count).collect::<Vec<_>>(), [60, 60, 30]);
        assert_eq!(batches[2].start_ms, START_MS + 120 * STEP_MS);
        assert_eq!(PLAN.samples(), 750);
    }

    #[test]
    fn means_by_the_minute_are_the_samples() {
        let minutes = PLAN.expected(3, 60);
        let mut values = Plan::values(3);
        assert_eq!(minutes.len(), 150);
        assert_eq!(minutes[0].0, "2015-01-01T00:00:00+00:00");
        assert_eq!(minutes[149].0, "2015-01-01T02:29:00+00:00");
        let samples: Vec<f64> = minutes.iter().map(|point| point.1).collect();
        assert!(samples.iter().all(|sample| *sample == values.next_hundredths() as f64 / 100.0));
        let hours = PLAN.expected(3, 3600);
        assert_eq!(hours.iter().map(|point| &point.0[11..13]).collect::<Vec<_>>(), ["00", "01", "02"]);
        let half: f64 = samples[120..].iter().sum::<f64>() / 30.0;
        assert!((hours[2].1 - half).abs() < 1e-12);
    }

    #[test]
    fn a_wrong_answer_is_told() {
        let expected = PLAN.expected(0, 3600);
        let mut found = expected.clone();
        found[1].1 *= 1.0 + 1e-12;
        check(&found, &expected).unwrap();
        found[1].1 += 0.01;
        assert!(check(&found, &expected).is_err());
        assert!(check(&expected[1..], &expected).is_err());
        let mut late = expected.clone();
        late[0].0 = time_text(0);
        assert!(check(&late, &expected).unwrap_err().to_string().contains("1970"));
        assert_ne!(PLAN.expected(1, 60), PLAN.expected(2, 60));
    }
}
