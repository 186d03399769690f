//! Folds requests into a metric. Reads commands from stdin, one per line, and prints the exact results of reads, for
//! `tests/oracle/fold.py`, which compares them with Gnocchi's.
//!
//! ```text
//! policy <back window> <method,...> <granularity ns>:<timespan ns or ->,...   set or change the policy; the head stays
//! new                                                                        forget policy, head and blocks
//! fold <time ns>:<value bits, hex> ...                                       one request
//! pass                                                                       store and read back, as a pass does
//! flush                                                                      flush the output
//! read <method> <granularity ns> <start ns or -> <stop ns or -> <resample: ns, letter or ->
//! ```
//! `read` prints a line `<time ns>:<value bits, hex> ...`, or `error <text>`; the others print nothing.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{BufRead, Write, stdin, stdout};

use gnudi_model::{ArchivePolicy, ArchivePolicyItem, Measure, Timespan, Timestamp};
use gnudi_series::{calendar::Calendar, head::Layout, points, read::ReadRange, resample::Resample};
use support::Store;

/// One metric and its stored data.
struct Metric {
    policy: ArchivePolicy,
    store: Store,
}

fn number(text: &str) -> Option<i64> {
    (text != "-").then(|| text.parse().expect("a number"))
}

fn policy(words: &[&str]) -> ArchivePolicy {
    let item = |item: &str| {
        let (granularity, timespan) = item.split_once(':').expect("granularity:timespan");
        let (granularity, timespan) = (number(granularity).map(Timespan), number(timespan).map(Timespan));
        ArchivePolicyItem { granularity: granularity.expect("a granularity"), points: None, timespan }
    };
    let back_window = words[0].parse().expect("a back window");
    let methods = words[1].split(',').map(|name| name.parse().expect("a method")).collect();
    let definition = words[2].split(',').map(item).collect();
    ArchivePolicy::new(String::new(), back_window, definition, methods).expect("distinct granularities")
}

impl Metric {
    fn new(policy: ArchivePolicy) -> Self {
        let store = Store::new(&policy);
        Metric { policy, store }
    }

    fn fold(&mut self, words: &[&str]) {
        let mut request: Vec<Measure> = words
            .iter()
            .map(|word| {
                let (time, bits) = word.split_once(':').expect("time:bits");
                let value = f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"));
                Measure { timestamp: Timestamp(time.parse().expect("a time")), value }
            })
            .collect();
        // Encoded and decoded, as by the incoming log.
        let mut bytes = Vec::new();
        points::encode(&request, &mut bytes);
        request.clear();
        points::decode(&bytes, &mut request).expect("what was encoded");
        self.store.fold_points(&mut request);
    }

    fn read(&self, words: &[&str]) -> String {
        let aggregation = self
            .policy
            .aggregation(
                words[0].parse().expect("a method"),
                Timespan(number(words[1]).expect("a granularity")),
            )
            .expect("an aggregation of the policy");
        let (start, stop) = (number(words[2]).map(Timestamp), number(words[3]).map(Timestamp));
        let resample = match words[4] {
            "-" => None,
            word => Some(match Calendar::from_letter(word.chars().next().expect("a letter")) {
                Some(calendar) => Resample::Calendar(calendar),
                None => Resample::Span(Timespan(word.parse().expect("a span"))),
            }),
        };
        match self.store.read_series(aggregation, ReadRange { start, stop, resample }) {
            Ok(series) => {
                let row = |(time, value): (&Timestamp, &f64)| format!("{}:{:016x}", time.0, value.to_bits());
                series.timestamps.iter().zip(&series.values).map(row).collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("error {error}"),
        }
    }
}

fn main() {
    let mut out = std::io::BufWriter::new(stdout().lock());
    let mut metric: Option<Metric> = None;
    for line in stdin().lock().lines() {
        let line = line.expect("stdin");
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((command, words)) = words.split_first() else { continue };
        match (*command, &mut metric) {
            ("new", metric) => *metric = None,
            ("policy", Some(metric)) => {
                metric.policy = policy(words);
                metric.store.layout = Layout::of(&metric.policy);
            }
            ("policy", metric) => *metric = Some(Metric::new(policy(words))),
            ("fold", Some(metric)) => metric.fold(words),
            ("pass", Some(metric)) => metric.store.pass(),
            ("flush", _) => out.flush().expect("stdout"),
            ("read", Some(metric)) => writeln!(out, "{}", metric.read(words)).expect("stdout"),
            _ => panic!("not understood: {line}"),
        }
    }
}
