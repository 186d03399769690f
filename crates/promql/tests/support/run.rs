//! Runs the commands of a test file on series in memory, and reports failed cases.

use std::collections::BTreeMap;

use gnudi_promql::{
    Error, Evaluation, Labels, Limits, Options, Plan, QueryResult, QueryTimes, SampleSeries, Selected,
    Selection, Series, StepSeries, Value, parse,
};
use regex::Regex;

use super::file::{Command, Eval, Expected, Item, Text};

const TOLERANCE: f64 = 0.000_001;

/// Series in memory.
#[derive(Debug, Default)]
pub struct Store {
    series: Vec<Series>,
    native: Vec<Labels>,
}

/// Results of the cases of a file.
#[derive(Debug, Default)]
pub struct Report {
    pub passed: usize,
    /// Line and reason.
    pub failed: Vec<(usize, String)>,
    /// Cases about native histograms that do not pass.
    pub native: usize,
}

pub fn options() -> Options<'static> {
    Options { delayed_name_removal: true, ..Options::default() }
}

fn selects(selection: &Selection<'_>, labels: &Labels) -> bool {
    selection.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
}

/// The series, evaluated while reading where possible.
fn pushed_down(plan: &Plan, series: &[Vec<Series>], options: &Options<'_>) -> Result<Vec<Selected>, Error> {
    let evaluated = |(selection, series): (usize, &Vec<Series>)| {
        let Some(pushdown) = plan.pushdown(selection, options.lookback_ms, &options.limits) else {
            return Ok(Selected::Samples(series.clone()));
        };
        let evaluated = series.iter().map(|series| {
            let steps = pushdown.evaluate(series, options.interrupt)?;
            Ok(StepSeries { labels: series.labels.clone(), steps })
        });
        Ok(pushdown.finish(evaluated.collect::<Result<_, Error>>()?))
    };
    series.iter().enumerate().map(evaluated).collect()
}

impl Store {
    pub fn clear(&mut self) {
        *self = Store::default();
    }

    pub fn load(&mut self, labels: &Labels, step_ms: i64, items: &[Item]) {
        if items.contains(&Item::Native) {
            self.native.push(labels.clone());
        }
        let place = self.series.iter().position(|series| series.labels == *labels);
        let place = place.unwrap_or_else(|| {
            let series = Series::new(labels.clone(), Vec::new(), Vec::new());
            self.series.push(series);
            self.series.len() - 1
        });
        let series = &mut self.series[place];
        let known = series.times_ms.iter().copied().zip(series.values.iter().copied());
        let mut samples: BTreeMap<i64, f64> = known.collect();
        for (at, item) in items.iter().enumerate() {
            if let Item::Value(value) = item {
                samples.insert(at as i64 * step_ms, *value);
            }
        }
        (series.times_ms, series.values) = samples.into_iter().unzip();
    }

    /// The series of each selection, cut to its times.
    pub fn select(&self, plan: &Plan, lookback_ms: i64) -> Vec<Vec<Series>> {
        let selections = plan.selections(lookback_ms);
        let cut = |series: &Series, start: i64, end: i64| {
            let first = series.times_ms.partition_point(|time| *time < start);
            let last = series.times_ms.partition_point(|time| *time <= end).max(first);
            let (times_ms, values) = (&series.times_ms[first..last], &series.values[first..last]);
            Series::new(series.labels.clone(), times_ms.to_vec(), values.to_vec())
        };
        selections
            .iter()
            .map(|selection| {
                let selected = self.series.iter().filter(|series| selects(selection, &series.labels));
                let selected = selected.map(|series| cut(series, selection.start_ms, selection.end_ms));
                selected.filter(|series| !series.times_ms.is_empty()).collect()
            })
            .collect()
    }

    pub fn query(&self, query: &str, times: QueryTimes, options: Options<'_>) -> Result<QueryResult, Error> {
        let plan = parse(query, times, &Limits::default())?;
        let series = self.select(&plan, options.lookback_ms);
        let pushed_down = pushed_down(&plan, &series, &options)
            .and_then(|series| Evaluation { plan: &plan, series: &series, options }.run());
        let series: Vec<Selected> = series.into_iter().map(Selected::Samples).collect();
        let result = Evaluation { plan: &plan, series: &series, options }.run();
        let shown = |result: &Result<QueryResult, Error>| {
            result.as_ref().map_or(String::new(), |result| format!("{result:?}"))
        };
        assert_eq!(shown(&pushed_down), shown(&result), "{query}: evaluated while reading, and afterwards");
        result
    }

    /// Note the native histogram that is made of a classic one.
    fn add_native(&mut self, labels: &Labels) {
        let name = labels.metric_name();
        let suffixes = ["_bucket", "_count", "_sum"];
        if let Some(base) = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)) {
            let others =
                labels.iter().filter(|(name, _)| *name != "le" && *name != gnudi_promql::METRIC_NAME);
            let pairs = others.chain([(gnudi_promql::METRIC_NAME, base)]);
            self.native.push(Labels::new(pairs));
        }
    }

    /// Whether a case is about native histograms, which are not supported.
    fn is_native(&self, eval: &Eval) -> bool {
        let expects = eval.expected.sequences.iter().any(|sequence| sequence.items.contains(&Item::Native));
        let Ok(plan) = parse(&eval.query, eval.times, &Limits::default()) else {
            return expects || eval.query.contains("histogram_");
        };
        let selections = plan.selections(0);
        expects || selections.iter().any(|one| self.native.iter().any(|labels| selects(one, labels)))
    }
}

pub fn run(commands: &[Command]) -> Report {
    let mut store = Store::default();
    let mut report = Report::default();
    for command in commands {
        match command {
            Command::Clear => store.clear(),
            Command::Load { step_ms, sequences, native } => {
                for sequence in sequences {
                    if *native {
                        store.add_native(&sequence.labels);
                    }
                    store.load(&sequence.labels, *step_ms, &sequence.items);
                }
            }
            Command::Eval(eval) => match check(&store, eval) {
                Ok(()) => report.passed += 1,
                Err(_) if store.is_native(eval) => report.native += 1,
                Err(reason) => report.failed.push((eval.line, format!("{}: {reason}", eval.query))),
            },
        }
    }
    report
}

fn check(store: &Store, eval: &Eval) -> Result<(), String> {
    let expected = &eval.expected;
    let result = store.query(&eval.query, eval.times, options());
    if let Some(text) = &expected.fail {
        return match result {
            Ok(result) => Err(format!("must fail, gave {:?}", result.value)),
            Err(error) => {
                matches(text, &error.text).then_some(()).ok_or(format!("failed with {:?}", error.text))
            }
        };
    }
    let result = result.map_err(|error| format!("failed with {:?}", error.text))?;
    texts("warn", &expected.warn, expected.no_warn, &result.warnings)?;
    texts("info", &expected.info, expected.no_info, &result.infos)?;
    compare(&result.value, expected, &eval.times)?;
    // These functions tell the query's times.
    let of_query = ["start()", "end()", "step()", "range()"].iter().any(|call| eval.query.contains(call));
    let free = !expected.ordered && expected.range.is_none() && expected.string.is_none() && !of_query;
    if eval.times.is_instant() && free {
        check_range(store, eval)?;
    }
    Ok(())
}

/// The middle step of a range query must equal the instant query.
fn check_range(store: &Store, eval: &Eval) -> Result<(), String> {
    let time = eval.times.start_ms;
    let times = QueryTimes { start_ms: time - 60_000, end_ms: time + 60_000, step_ms: 60_000 };
    let result = match store.query(&eval.query, times, options()) {
        Ok(result) => result,
        Err(error) if error.text.contains("for range query") => return Ok(()),
        Err(error) => return Err(format!("as a range query: {:?}", error.text)),
    };
    let Value::Matrix(matrix) = result.value else { return Err("a range query gave no matrix".to_string()) };
    let middle = |series: SampleSeries| {
        let samples: Vec<(i64, f64)> = series.samples.into_iter().filter(|sample| sample.0 == time).collect();
        (!samples.is_empty()).then_some(SampleSeries { labels: series.labels, samples })
    };
    let matrix: Vec<SampleSeries> = matrix.into_iter().filter_map(middle).collect();
    let found = if eval.expected.scalar.is_some() {
        matrix.first().map_or(Err("no scalar".to_string()), |series| {
            compare_scalar(series.samples[0].1, &eval.expected)
        })
    } else {
        compare_matrix(&matrix, &eval.expected, &eval.times)
    };
    found.map_err(|reason| format!("as a range query: {reason}"))
}

fn matches(expected: &Text, text: &str) -> bool {
    // A text may leave out where in the query it is.
    let position = Regex::new(r" \(\d+:\d+\)$").expect("a valid pattern");
    match expected {
        Text::Any => true,
        Text::Exactly(expected) => expected == text || *expected == position.replace(text, ""),
        Text::Matching(pattern) => Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text)),
    }
}

fn texts(severity: &str, expected: &[Text], none: bool, texts: &[String]) -> Result<(), String> {
    if none && !texts.is_empty() {
        return Err(format!("unexpected {severity}: {texts:?}"));
    }
    for text in expected {
        if !texts.iter().any(|given| matches(text, given)) {
            return Err(format!("no {severity} {text:?} among {texts:?}"));
        }
    }
    if !expected.is_empty() && !texts.iter().all(|given| expected.iter().any(|text| matches(text, given))) {
        return Err(format!("more than the expected {severity}: {texts:?}"));
    }
    Ok(())
}

pub fn almost_equal(a: f64, b: f64) -> bool {
    if a == b || a.is_nan() && b.is_nan() {
        return true;
    }
    let (size, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || size < f64::MIN_POSITIVE {
        return difference < TOLERANCE * f64::MIN_POSITIVE;
    }
    difference / size.min(f64::MAX) < TOLERANCE
}

fn compare_scalar(value: f64, expected: &Expected) -> Result<(), String> {
    match expected.scalar {
        Some(scalar) if almost_equal(value, scalar) => Ok(()),
        Some(scalar) => Err(format!("expected {scalar}, got {value}")),
        None => Err(format!("expected no scalar, got {value}")),
    }
}

fn compare(value: &Value, expected: &Expected, times: &QueryTimes) -> Result<(), String> {
    match value {
        Value::Scalar { value, .. } => compare_scalar(*value, expected),
        Value::String { value, .. } => {
            let same = expected.string.as_ref() == Some(value);
            same.then_some(()).ok_or(format!("got the string {value:?}"))
        }
        Value::Vector(vector) => {
            let series = |sample: &gnudi_promql::Sample| SampleSeries {
                labels: sample.labels.clone(),
                samples: vec![(sample.time_ms, sample.value)],
            };
            let matrix: Vec<SampleSeries> = vector.iter().map(series).collect();
            if expected.ordered {
                let order = matrix.iter().map(|series| &series.labels);
                if !order.eq(expected.sequences.iter().map(|sequence| &sequence.labels)) {
                    let order: Vec<&Labels> = matrix.iter().map(|series| &series.labels).collect();
                    return Err(format!("in another order: {order:?}"));
                }
            }
            compare_matrix(&matrix, expected, times)
        }
        Value::Matrix(matrix) => {
            if !matrix.is_sorted_by(|a, b| a.labels < b.labels) {
                return Err("the matrix is not sorted".to_string());
            }
            compare_matrix(matrix, expected, expected.range.as_ref().unwrap_or(times))
        }
    }
}

fn compare_matrix(matrix: &[SampleSeries], expected: &Expected, times: &QueryTimes) -> Result<(), String> {
    if expected.scalar.is_some() || expected.string.is_some() {
        return Err(format!("expected no vector, got {matrix:?}"));
    }
    for series in matrix {
        let Some(sequence) = expected.sequences.iter().rfind(|sequence| sequence.labels == series.labels)
        else {
            return Err(format!("unexpected {} with {:?}", series.labels, series.samples));
        };
        let wanted: Vec<(i64, f64)> = (0..)
            .zip(&sequence.items)
            .filter_map(|(at, item)| match item {
                Item::Value(value) => Some((times.start_ms + at * times.step_ms, *value)),
                _ => None,
            })
            .collect();
        let same = wanted.len() == series.samples.len()
            && wanted.iter().zip(&series.samples).all(|(a, b)| a.0 == b.0 && almost_equal(a.1, b.1));
        if !same {
            return Err(format!("{}: expected {wanted:?}, got {:?}", series.labels, series.samples));
        }
    }
    for sequence in &expected.sequences {
        if !matrix.iter().any(|series| series.labels == sequence.labels) {
            return Err(format!("no {}", sequence.labels));
        }
    }
    Ok(())
}
