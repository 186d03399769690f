//! Aggregates values between two flushes.
//!
//! A counter, a gauge or a set gives one measure per flush, at the time of its last value; each duration is a measure.
//! Counters and sets are reset at each flush. A gauge keeps its level for relative changes, and gives a measure only if
//! it was updated. Values beyond the limits are counted and dropped.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

use gnudi_model::{Measure, Timestamp};

use super::message::{self, MalformedLine, StatsdMessage, StatsdValue};

/// Limits of one flush.
#[derive(Clone, Copy, Debug)]
pub struct AggregatorLimits {
    /// Metrics, and as many cached gauge levels.
    pub metrics_max: usize,
    /// Durations and members of sets, over all metrics.
    pub values_max: usize,
}

impl Default for AggregatorLimits {
    fn default() -> Self {
        AggregatorLimits { metrics_max: 100_000, values_max: 1_000_000 }
    }
}

/// Counters of values since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueCounts {
    pub values: u64,
    /// Dropped as invalid.
    pub malformed: u64,
    /// Dropped beyond a limit, or since a sum would not be a finite number.
    pub excess: u64,
}

#[derive(Debug)]
pub struct Aggregator {
    limits: AggregatorLimits,
    metrics: HashMap<String, MetricValues>,
    levels: HashMap<String, f64>,
    /// Durations and members collected so far.
    values: usize,
    taken: ValueCounts,
    hasher: RandomState,
}

/// The values of one metric.
#[derive(Debug)]
enum MetricValues {
    Times(Vec<Measure>),
    Level(Measure),
    Count(Measure),
    /// Hashes of the members.
    Set(Timestamp, HashSet<u64>),
}

impl Aggregator {
    pub fn new(limits: AggregatorLimits) -> Self {
        Aggregator {
            limits,
            metrics: HashMap::new(),
            levels: HashMap::new(),
            values: 0,
            taken: ValueCounts::default(),
            hasher: RandomState::new(),
        }
    }

    /// Adds a datagram, line by line. Returns the first error, for the log.
    pub fn add_datagram(&mut self, datagram: &[u8], now: Timestamp) -> Option<MalformedLine> {
        let mut fault = None;
        for line in datagram.split(|byte| *byte == b'\n') {
            // Blanks before the name are part of it, as in Gnocchi.
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let Ok(line) = std::str::from_utf8(line) else {
                self.taken.malformed += 1;
                fault = fault.or(Some(MalformedLine::Form));
                continue;
            };
            for message in message::read(line) {
                match message {
                    Ok(message) if self.add(&message, now) => self.taken.values += 1,
                    Ok(_) => self.taken.excess += 1,
                    Err(malformed) => {
                        self.taken.malformed += 1;
                        fault = fault.or(Some(malformed));
                    }
                }
            }
        }
        fault
    }

    /// Whether it was within the limits.
    fn add(&mut self, message: &StatsdMessage<'_>, now: Timestamp) -> bool {
        let name = message.metric();
        if self.metrics.len() >= self.limits.metrics_max && !self.metrics.contains_key(&name) {
            return false;
        }
        let is_full = self.values >= self.limits.values_max;
        let measure = |value| Measure { timestamp: now, value };
        match message.value {
            StatsdValue::Time(_) | StatsdValue::Member(_) if is_full => return false,
            StatsdValue::Time(value) => {
                let times = self.metrics.entry(name).or_insert_with(|| MetricValues::Times(Vec::new()));
                let MetricValues::Times(times) = times else { unreachable!("the type is part of the name") };
                // Of two measures at the same time only one would count.
                let after = times.last().map_or(now, |last| now.max(Timestamp(last.timestamp.0 + 1)));
                times.push(Measure { timestamp: after, value });
                self.values += 1;
            }
            StatsdValue::Level(level) | StatsdValue::Change(level) => {
                let is_change = matches!(message.value, StatsdValue::Change(_));
                let before = self.levels.get(&name).copied().filter(|_| is_change);
                let level = before.unwrap_or(0.0) + level;
                if !level.is_finite() {
                    return false;
                }
                self.keep_level(&name, level);
                self.metrics.insert(name, MetricValues::Level(measure(level)));
            }
            StatsdValue::Count(count) => {
                let before = match self.metrics.get(&name) {
                    Some(MetricValues::Count(measure)) => measure.value,
                    _ => 0.0,
                };
                if !(before + count).is_finite() {
                    return false;
                }
                self.metrics.insert(name, MetricValues::Count(measure(before + count)));
            }
            StatsdValue::Member(member) => {
                let member = self.hasher.hash_one(member);
                let set = self.metrics.entry(name).or_insert_with(|| MetricValues::Set(now, HashSet::new()));
                let MetricValues::Set(last, members) = set else {
                    unreachable!("the type is part of the name")
                };
                *last = now;
                self.values += usize::from(members.insert(member));
            }
        }
        true
    }

    fn keep_level(&mut self, name: &str, level: f64) {
        if let Some(known) = self.levels.get_mut(name) {
            *known = level;
            return;
        }
        if self.levels.len() >= self.limits.metrics_max {
            // Evict the levels of gauges that were not updated lately.
            let metrics = &self.metrics;
            self.levels.retain(|name, _| metrics.contains_key(name));
        }
        self.levels.insert(name.to_owned(), level);
    }

    /// Returns the measures by metric name and the counters, and starts anew.
    pub fn flush(&mut self) -> (Vec<(String, Vec<Measure>)>, ValueCounts) {
        self.values = 0;
        let gathered = std::mem::take(&mut self.metrics).into_iter().map(|(name, gathered)| {
            let measures = match gathered {
                MetricValues::Times(measures) => measures,
                MetricValues::Level(measure) | MetricValues::Count(measure) => vec![measure],
                MetricValues::Set(timestamp, members) => {
                    vec![Measure { timestamp, value: members.len() as f64 }]
                }
            };
            (name, measures)
        });
        (gathered.collect(), std::mem::take(&mut self.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushed(aggregator: &mut Aggregator) -> Vec<(String, Vec<(i64, f64)>)> {
        let (mut metrics, _) = aggregator.flush();
        metrics.sort_by(|a, b| a.0.cmp(&b.0));
        let values = |measures: Vec<Measure>| {
            measures.iter().map(|measure| (measure.timestamp.0, measure.value)).collect()
        };
        metrics.into_iter().map(|(name, measures)| (name, values(measures))).collect()
    }

    fn metric(name: &str, values: &[(i64, f64)]) -> (String, Vec<(i64, f64)>) {
        (name.to_owned(), values.to_vec())
    }

    #[test]
    fn a_flush_holds_what_came_since_the_last() {
        let mut statsd = Aggregator::new(AggregatorLimits::default());
        assert_eq!(
            statsd.add_datagram(
                b"a:1|c\na:2|c|@0.5\nt:5|ms\nt:7|ms\ns:x|s\ns:y|s\ns:x|s\ng:5|g\n",
                Timestamp(10)
            ),
            None
        );
        assert_eq!(statsd.add_datagram(b"a:1|c:9|ms\r\ng:-7|g", Timestamp(20)), None);
        assert_eq!(
            flushed(&mut statsd),
            [
                metric("a|c", &[(20, 6.0)]),
                metric("a|ms", &[(20, 9.0)]),
                metric("g|g", &[(20, -2.0)]),
                metric("s|s", &[(10, 2.0)]),
                metric("t|ms", &[(10, 5.0), (11, 7.0)]),
            ]
        );
        assert_eq!(flushed(&mut statsd), []);
        statsd.add_datagram(b"a:1|c\ng:+3|g\ns:x|s", Timestamp(30));
        assert_eq!(
            flushed(&mut statsd),
            [metric("a|c", &[(30, 1.0)]), metric("g|g", &[(30, 1.0)]), metric("s|s", &[(30, 1.0)])]
        );
    }

    #[test]
    fn malformed_lines_are_counted_and_cost_no_other() {
        let mut statsd = Aggregator::new(AggregatorLimits::default());
        assert_eq!(
            statsd.add_datagram(b"a:1|c\nnonsense\n\xff:1|c\na:1|c:x|c\n\n", Timestamp(1)),
            Some(MalformedLine::Form)
        );
        let (metrics, taken) = statsd.flush();
        assert_eq!(metrics, [("a|c".to_owned(), vec![Measure { timestamp: Timestamp(1), value: 2.0 }])]);
        assert_eq!(taken, ValueCounts { values: 2, malformed: 3, excess: 0 });
    }

    #[test]
    fn sums_stay_finite() {
        let mut statsd = Aggregator::new(AggregatorLimits::default());
        statsd.add_datagram(b"a:1e308|c:1e308|c\ng:-1e308|g:-1e308|g", Timestamp(1));
        let (mut metrics, taken) = statsd.flush();
        metrics.sort_by(|a, b| a.0.cmp(&b.0));
        let values: Vec<f64> =
            metrics.iter().flat_map(|(_, measures)| measures).map(|one| one.value).collect();
        assert_eq!((values, taken.values, taken.excess), (vec![1e308, -1e308], 2, 2));
        statsd.add_datagram(b"g:+1e308|g", Timestamp(2));
        assert_eq!(flushed(&mut statsd), [metric("g|g", &[(2, 0.0)])]);
    }

    #[test]
    fn what_is_beyond_the_limits_is_counted() {
        let mut statsd = Aggregator::new(AggregatorLimits { metrics_max: 2, values_max: 3 });
        for line in ["a:1|c", "b:1|ms", "d:1|c", "b:2|ms", "a:1|c", "b:3|ms", "b:4|ms"] {
            statsd.add_datagram(line.as_bytes(), Timestamp(1));
        }
        let (metrics, taken) = statsd.flush();
        assert_eq!(metrics.len(), 2);
        assert_eq!(metrics.iter().map(|(_, measures)| measures.len()).sum::<usize>(), 4);
        assert_eq!(taken, ValueCounts { values: 5, malformed: 0, excess: 2 });
        // Levels not updated lately are evicted first.
        for line in ["x:1|g", "y:1|g"] {
            statsd.add_datagram(line.as_bytes(), Timestamp(1));
        }
        statsd.flush();
        for line in ["x:+1|g", "z:1|g"] {
            statsd.add_datagram(line.as_bytes(), Timestamp(2));
        }
        statsd.flush();
        assert_eq!(statsd.levels.len(), 2);
        statsd.add_datagram(b"x:+1|g", Timestamp(3));
        assert_eq!(flushed(&mut statsd), [metric("x|g", &[(3, 3.0)])]);
    }
}
