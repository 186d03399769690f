//! Aggregates series with each other. Reads lines on stdin and prints the exact results, so that another
//! program can compare them with Gnocchi's (`tests/oracle/cross.py`).
//!
//! ```text
//! query <start ns or -> <stop ns or -> <needed overlap bits, hex> <fill: name, value bits, or ->
//! series <name> <aggregation> <time ns>:<value bits, hex> ...     one reference, cut by start and stop
//! evaluate <granularity ns> <operation>                           prints the result, and forgets the series
//! ```
//! An operation is written as words, operands last: `constant <bits, hex>`, `metric <count> <name>
//! <aggregation> ...`, `one <name> <aggregation>`, `aggregate <method> ...`, `rolling <method> <window> ...`,
//! `resample <method> <span ns or letter> ...`, `clip2`, `clip3`, or an operator's name.
//!
//! The result is a line `aggregated` or `each`, then for each column ` | ` and points as above; or
//! `unaggregable <reason>`, or `error <text>`.

use std::{
    fmt::Write as _,
    io::{BufRead, Write, stdin, stdout},
};

use gnudi_model::{Timespan, Timestamp};
use gnudi_series::{
    calendar::Calendar,
    cross::{CrossError, CrossQuery, CrossSeries, Fill, cross},
    operations::{MetricName, Metrics, Operation},
    resample::Resample,
};

fn float(bits: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"))
}

fn time(text: &str) -> Option<Timestamp> {
    (text != "-").then(|| Timestamp(text.parse().expect("a time")))
}

fn fill(text: &str) -> Option<Fill> {
    match text {
        "-" => None,
        text => Some(text.parse().unwrap_or_else(|_| Fill::Value(float(text)))),
    }
}

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn next(&mut self) -> &str {
        self.0.next().expect("another word")
    }

    fn name(&mut self) -> MetricName {
        MetricName { name: self.next().to_owned(), aggregation: self.next().to_owned() }
    }

    fn boxed(&mut self) -> Box<Operation> {
        Box::new(self.operation())
    }

    fn operation(&mut self) -> Operation {
        let word = self.next().to_owned();
        match word.as_str() {
            "constant" => Operation::Constant(float(self.next())),
            "one" => Operation::Metric(Metrics::One(self.name())),
            "metric" => {
                let count: usize = self.next().parse().expect("a count");
                Operation::Metric(Metrics::Many((0..count).map(|_| self.name()).collect()))
            }
            "aggregate" => {
                let method = self.next().parse().expect("a method");
                Operation::Aggregate { method, operand: self.boxed() }
            }
            "rolling" => {
                let method = self.next().parse().expect("a method");
                let window = self.next().parse().expect("a window");
                Operation::Rolling { method, window, operand: self.boxed() }
            }
            "resample" => {
                let method = self.next().parse().expect("a method");
                let to = self.next();
                let span = |span| Resample::Span(Timespan(span));
                let calendar = || Calendar::from_letter(to.chars().next().expect("a letter")).expect("known");
                let to = to.parse().map_or_else(|_| Resample::Calendar(calendar()), span);
                Operation::Resample { method, to, operand: self.boxed() }
            }
            "clip2" => Operation::Clip { value: self.boxed(), min: self.boxed(), max: None },
            "clip3" => Operation::Clip { value: self.boxed(), min: self.boxed(), max: Some(self.boxed()) },
            operator => match operator.parse() {
                Ok(operator) => Operation::Unary { operator, operand: self.boxed() },
                Err(_) => Operation::Binary {
                    operator: operator.parse().expect("an operator"),
                    left: self.boxed(),
                    right: self.boxed(),
                },
            },
        }
    }
}

fn series(words: &mut Words<'_>) -> CrossSeries {
    let (mut timestamps, mut values) = (Vec::new(), Vec::new());
    for word in &mut words.0 {
        let (time, bits) = word.split_once(':').expect("time:bits");
        timestamps.push(Timestamp(time.parse().expect("a time")));
        values.push(float(bits));
    }
    CrossSeries { timestamps: timestamps.into(), values }
}

fn answer(
    names: &[MetricName],
    all: Vec<CrossSeries>,
    query: &CrossQuery<'_>,
    granularity: Timespan,
) -> String {
    let answer = match cross(names, granularity, all, query) {
        Ok(answer) => answer,
        Err(CrossError::Unaggregable(why)) => return format!("unaggregable {}", why.reason),
        Err(error) => return format!("error {error}"),
    };
    let mut line = String::from(if answer.aggregated { "aggregated" } else { "each" });
    for column in &answer.columns {
        line.push_str(" |");
        for (time, value) in column.timestamps.iter().zip(&column.values) {
            write!(line, " {}:{:x}", time.0, value.to_bits()).expect("memory");
        }
    }
    line
}

fn main() {
    let (mut names, mut all) = (Vec::new(), Vec::new());
    let mut query = None;
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let line = line.expect("text");
        let mut words = Words(line.split_ascii_whitespace());
        match words.next() {
            "query" => {
                let (start, stop) = (time(words.next()), time(words.next()));
                query = Some((start, stop, float(words.next()), fill(words.next())));
            }
            "series" => {
                names.push(words.name());
                all.push(series(&mut words));
            }
            "evaluate" => {
                let granularity = Timespan(words.next().parse().expect("a granularity"));
                let operations = words.operation();
                let (start, stop, needed_overlap, fill) = query.expect("a query");
                let operations = &operations;
                let query = CrossQuery { operations, start, stop, needed_overlap, fill, may_be_empty: false };
                let line = answer(&names, std::mem::take(&mut all), &query, granularity);
                names.clear();
                writeln!(out, "{line}").expect("a reader");
                out.flush().expect("a reader");
            }
            other => panic!("unknown command {other}"),
        }
    }
}
