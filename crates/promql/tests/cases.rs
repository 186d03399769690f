//! The cases in `cases/`: each function and operator, with results computed by hand.

mod support;

use gnudi_promql::{Labels, Limits, Matcher, Options, QueryTimes, STALE_NAN_BITS, Value, parse_selectors_of};
use support::{file, run};

#[test]
fn all_cases_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut passed = 0;
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let commands =
            file::parse(&text).unwrap_or_else(|line| panic!("{}:{line} cannot be read", path.display()));
        let report = run::run(&commands);
        passed += report.passed;
        failures.extend(
            report.failed.into_iter().map(|(line, reason)| format!("{}:{line}: {reason}", path.display())),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(passed > 200, "only {passed} cases");
}

#[test]
fn without_delayed_removal_bool_keeps_a_taken_name() {
    let mut store = run::Store::default();
    for (name, label) in [("a", "x"), ("b", "y")] {
        let labels = Labels::new([("__name__", name), (label, "1")]);
        store.load(&labels, 1_000, &[file::Item::Value(1.0)]);
    }
    for (query, expected) in [
        (
            r#"label_replace(a == bool on () group_left (__name__) b, "name", "$1", "__name__", "(.*)")"#,
            r#"{__name__="b", name="b", x="1"}"#,
        ),
        ("(a == bool on () group_left (__name__) b)[1m:1m]", r#"{__name__="b", x="1"}"#),
        ("last_over_time((a == bool on () group_left (__name__) b)[1m:1m])", r#"{x="1"}"#),
        ("last_over_time((a == on () group_left (__name__) b)[1m:1m])", r#"{__name__="b", x="1"}"#),
    ] {
        let value = store.query(query, QueryTimes::instant(0), Options::default()).unwrap().value;
        let labels: Vec<String> = match &value {
            Value::Vector(samples) => samples.iter().map(|sample| sample.labels.to_string()).collect(),
            Value::Matrix(series) => series.iter().map(|series| series.labels.to_string()).collect(),
            _ => panic!("{value:?}"),
        };
        assert_eq!(labels, [expected], "{query}");
    }
}

#[test]
fn without_delayed_removal_series_of_bool_and_others_are_one() {
    let mut store = run::Store::default();
    let (one, stale) = (file::Item::Value(1.0), file::Item::Value(f64::from_bits(STALE_NAN_BITS)));
    for (name, items) in [("a", [one, stale]), ("b", [one, stale]), ("c", [file::Item::Omitted, one])] {
        store.load(&Labels::new([("__name__", name), ("x", "1")]), 60_000, &items);
    }
    let query = "sum_over_time(((a == bool b) or (c + 2))[2m:1m])";
    let value = store.query(query, QueryTimes::instant(60_000), Options::default()).unwrap().value;
    let Value::Vector(samples) = &value else { panic!("{value:?}") };
    let found: Vec<(String, f64)> =
        samples.iter().map(|sample| (sample.labels.to_string(), sample.value)).collect();
    assert_eq!(found, [(r#"{x="1"}"#.to_owned(), 4.0)]);
}

#[test]
fn selectors_are_those_of_the_text() {
    for (query, expected) in [
        ("1 + time()", vec![]),
        ("a", vec![r#"__name__="a""#]),
        // Without the steps of an evaluation this range would be invalid.
        ("rate(a[step() * 4])", vec![r#"__name__="a""#]),
        (
            "topk(scalar(a), -(b{c!='1'})) + max_over_time(d[5m:])",
            vec![r#"__name__="a""#, r#"__name__="b",c!="1""#, r#"__name__="d""#],
        ),
        // The metric that `info` reads is not in the text.
        ("info(a)", vec![r#"__name__="a""#]),
        ("info(a, {b='1'})", vec![r#"__name__="a""#, r#"b="1""#]),
    ] {
        let found = parse_selectors_of(query, &Limits::default()).unwrap();
        let text =
            |matchers: &Vec<Matcher>| matchers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut found: Vec<String> = found.iter().map(text).collect();
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
    assert!(parse_selectors_of("rate(a)", &Limits::default()).is_err());
}
