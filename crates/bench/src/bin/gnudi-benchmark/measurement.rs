//! One figure of a run: the work, its duration, and its cost.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{findings::Value, histogram::Histogram, load::Outcome, peers::Peer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Measures,
    Metrics,
    Points,
    Resources,
    Searches,
    /// The figure is an amount of memory; less is better.
    Bytes,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Measures => "measures",
            Unit::Metrics => "metrics",
            Unit::Points => "points",
            Unit::Resources => "resources",
            Unit::Searches => "searches",
            Unit::Bytes => "bytes",
        }
    }
}

/// A row of the report: one kind of work, done by every peer.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name on the command line.
    pub key: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    /// The protocol or format, if there are several.
    pub variant: Option<&'static str>,
}

impl Row {
    pub const fn new(key: &'static str, unit: Unit, title: &'static str) -> Self {
        Row { key, title, unit, variant: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[expect(clippy::struct_field_names, reason = "these are the names in the results, and units come last")]
pub struct Latency {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

impl Latency {
    /// `None` without calls.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        (!histogram.is_empty()).then(|| Latency {
            p50_us: us(histogram.percentile(0.5)),
            p90_us: us(histogram.percentile(0.9)),
            p99_us: us(histogram.percentile(0.99)),
            max_us: us(histogram.max()),
        })
    }
}

/// Completed work, before its cost is added.
#[derive(Debug, Default)]
pub struct Work {
    /// In the row's unit.
    pub done: f64,
    pub elapsed: Duration,
    /// Of the load, if there was one.
    pub outcome: Outcome,
    /// Of the server, if the work was pushed until processed.
    pub cpu_seconds: Option<f64>,
    pub notes: Vec<String>,
}

impl Work {
    /// A load in which every call did `per_call` of the unit.
    pub fn of(outcome: Outcome, per_call: usize) -> Self {
        Work {
            done: outcome.calls as f64 * per_call as f64,
            elapsed: outcome.elapsed,
            outcome,
            ..Work::default()
        }
    }

    /// Work per second until the last response.
    pub fn accepted(&self) -> f64 {
        self.done / self.outcome.elapsed.as_secs_f64()
    }

    pub fn rate(&self) -> f64 {
        self.done / self.elapsed.as_secs_f64()
    }

    /// From the last response to the end.
    pub fn drained_after(&self) -> Duration {
        self.elapsed.saturating_sub(self.outcome.elapsed)
    }

    /// The server's processor time for one piece of the work.
    pub fn cpu_us(&self) -> Option<f64> {
        Some(1e6 * self.cpu_seconds? / self.done)
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measurement {
    pub row: Cow<'static, str>,
    pub peer: Peer,
    /// The protocol or format, if there are several.
    pub variant: Option<Cow<'static, str>>,
    pub unit: Unit,
    /// In the row's unit; for `Bytes` the figure itself.
    pub done: f64,
    pub seconds: f64,
    pub calls: u64,
    /// 429 and 503 responses, each retried.
    pub refused: u64,
    pub failures: u64,
    pub latency: Option<Latency>,
    pub server_cpu_seconds: Option<f64>,
    pub generator_cpu_seconds: f64,
    pub server_memory_bytes: Option<u64>,
    pub notes: Vec<String>,
}

impl Measurement {
    /// Of this work, without its cost.
    pub fn of(row: &Row, peer: Peer, work: Work) -> Self {
        let Work { done, elapsed, outcome, mut notes, .. } = work;
        notes.extend(outcome.failure.map(|failure| format!("a failure: {failure}")));
        Measurement {
            row: row.key.into(),
            peer,
            variant: row.variant.map(Into::into),
            unit: row.unit,
            done,
            seconds: elapsed.as_secs_f64(),
            calls: outcome.calls,
            refused: outcome.refused,
            failures: outcome.failures,
            latency: Latency::of(&outcome.latency),
            server_cpu_seconds: None,
            generator_cpu_seconds: 0.0,
            server_memory_bytes: None,
            notes,
        }
    }

    /// Work per second; for `Bytes` the figure itself.
    pub fn figure(&self) -> f64 {
        if self.unit == Unit::Bytes { self.done } else { self.done / self.seconds }
    }

    pub fn value(&self) -> Value {
        match self.unit {
            Unit::Bytes => Value::bytes(self.figure()),
            unit => Value::rate(self.figure(), unit.name()),
        }
    }

    /// How many times better this figure is than another: faster, or smaller.
    pub fn times_better_than(&self, other: &Measurement) -> f64 {
        if self.unit == Unit::Bytes { other.done / self.done } else { self.figure() / other.figure() }
    }
}

#[cfg(test)]
pub(crate) fn sample(row: &'static str, peer: Peer, unit: Unit, done: f64, seconds: f64) -> Measurement {
    let work = Work { done, elapsed: Duration::from_secs_f64(seconds), ..Work::default() };
    Measurement::of(&Row::new(row, unit, ""), peer, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faster_and_smaller_are_better() {
        let fast = sample("push-1", Peer::Gnudi, Unit::Measures, 1000.0, 2.0);
        let slow = sample("push-1", Peer::Gnocchi, Unit::Measures, 50.0, 1.0);
        assert_eq!(fast.figure(), 500.0);
        assert_eq!(fast.times_better_than(&slow), 10.0);
        let small = sample("memory", Peer::Gnudi, Unit::Bytes, 100.0, 0.0);
        let large = sample("memory", Peer::Gnocchi, Unit::Bytes, 400.0, 0.0);
        assert_eq!(small.times_better_than(&large), 4.0);
    }
}
