//! For any query: a range query gives the same at each step as an instant query, and nothing panics.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use gnudi_promql::{
    Error, ErrorKind, Evaluation, Interrupt, Labels, Limits, Options, QueryTimes, STALE_NAN_BITS, Selected,
    Value, format as formatted, parse,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use support::file::Item;
use support::run::{Store, almost_equal};

const MINUTE_MS: i64 = 60_000;

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        8 => (-20..20_i32).prop_map(|value| Item::Value(f64::from(value) / 2.0)),
        2 => Just(Item::Omitted),
        1 => Just(Item::Value(f64::from_bits(STALE_NAN_BITS))),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)].prop_map(Item::Value),
    ]
}

/// A few series of two metrics, some of them buckets.
fn store() -> impl Strategy<Value = Store> {
    let sequences = prop::collection::vec(prop::collection::vec(item(), 1..40), 7);
    sequences.prop_map(|sequences| {
        let labels = [
            [("__name__", "m_total"), ("a", "1"), ("b", "1"), ("le", "")],
            [("__name__", "m_total"), ("a", "1"), ("b", "2"), ("le", "")],
            [("__name__", "m_total"), ("a", "2"), ("b", "1"), ("le", "")],
            [("__name__", "n"), ("a", "1"), ("b", ""), ("le", "")],
            [("__name__", "n"), ("a", "2"), ("b", ""), ("le", "")],
            [("__name__", "h_bucket"), ("a", "1"), ("b", ""), ("le", "1")],
            [("__name__", "h_bucket"), ("a", "1"), ("b", ""), ("le", "+Inf")],
        ];
        let mut store = Store::default();
        for (labels, items) in labels.into_iter().zip(sequences) {
            store.load(&Labels::new(labels), MINUTE_MS / 2, &items);
        }
        store
    })
}

fn selector() -> impl Strategy<Value = String> {
    let base = prop::sample::select(vec![
        "m_total",
        "n",
        "h_bucket",
        r#"m_total{a="1"}"#,
        r#"{a=~"1|2"}"#,
        r#"n{a!="1"}"#,
    ]);
    let modifier = prop::sample::select(vec![
        "",
        "",
        "",
        " offset 1m",
        " offset -90s",
        " @ 300",
        " @ end()",
        " @ start() offset 2m",
    ]);
    (base, modifier).prop_map(|(base, modifier)| format!("{base}{modifier}"))
}

fn range(inner: &str, kind: usize) -> String {
    if kind == 0 {
        format!("m_total[{}m]", inner.len() % 7 + 1)
    } else {
        format!("({inner})[{}m:{}s]", inner.len() % 5 + 1, 10 + inner.len() % 50)
    }
}

fn scalar() -> impl Strategy<Value = String> {
    let scalars = vec![
        "2",
        "0.5",
        "-1",
        "NaN",
        "time()",
        "scalar(n)",
        "pi() - 3",
        "scalar(sum(m_total))",
        "1e3",
        "-Inf",
    ];
    prop::sample::select(scalars).prop_map(str::to_string)
}

const MAPS: &[&str] = &[
    "abs(E)",
    "-E",
    "ceil(E)",
    "round(E, 0.3)",
    "sgn(E)",
    "sqrt(E)",
    "ln(E)",
    "hour(E)",
    "day_of_month(E)",
    "timestamp(E)",
    "sort(E)",
    "absent(E)",
    "clamp(E, S, 3)",
    "clamp_min(E, S)",
    "vector(scalar(E))",
    "sum(E)",
    "avg by (a) (E)",
    "count without (b) (E)",
    "min(E)",
    "max by (a, b) (E)",
    "stddev(E)",
    "stdvar by (b) (E)",
    "group(E)",
    "topk(S, E)",
    "bottomk by (a) (2, E)",
    "quantile(S, E)",
    r#"count_values("v", E)"#,
    "limitk(2, E)",
    "limit_ratio(0.4, E)",
    "histogram_quantile(S, E)",
    "histogram_fraction(0, S, E)",
    r#"label_replace(E, "c", "$1", "a", "(.)")"#,
    r#"label_join(E, "c", "-", "a", "b")"#,
    "E + S",
    "S - E",
    "E > S",
    "E <= bool S",
    "E % S",
    "E ^ S",
    "E atan2 S",
    "E == E",
];
const RANGES: &[&str] = &[
    "rate(R)",
    "increase(R)",
    "delta(R)",
    "irate(R)",
    "idelta(R)",
    "resets(R)",
    "changes(R)",
    "deriv(R)",
    "predict_linear(R, S)",
    "avg_over_time(R)",
    "sum_over_time(R)",
    "min_over_time(R)",
    "max_over_time(R)",
    "count_over_time(R)",
    "last_over_time(R)",
    "first_over_time(R)",
    "stddev_over_time(R)",
    "stdvar_over_time(R)",
    "quantile_over_time(S, R)",
    "mad_over_time(R)",
    "present_over_time(R)",
    "absent_over_time(R)",
    "ts_of_max_over_time(R)",
    "double_exponential_smoothing(R, 0.3, 0.6)",
    "integral(R, 1)",
];
const JOINS: &[&str] = &[
    "E + on(a) F",
    "E and F",
    "E or F",
    "E unless on(a) F",
    "E * on(a) group_left F",
    "E - ignoring(b) group_right F",
    "E > bool on(a) group_left F",
    "E / ignoring(b, le) F",
    "E and on() F",
    "E or on(a) F",
];

fn expression() -> impl Strategy<Value = String> {
    selector().prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            3 => (prop::sample::select(MAPS), inner.clone(), scalar())
                .prop_map(|(shape, inner, scalar)| shape.replace('E', &format!("({inner})")).replace('S', &scalar)),
            3 => (prop::sample::select(RANGES), inner.clone(), scalar(), 0..2_usize)
                .prop_map(|(shape, inner, scalar, kind)| shape.replace('R', &range(&inner, kind)).replace('S', &scalar)),
            2 => (prop::sample::select(JOINS), inner.clone(), inner)
                .prop_map(|(shape, left, right)| shape.replace('E', &format!("({left})")).replace('F', &format!("({right})"))),
        ]
    })
}

fn options(delayed: bool, threads: usize) -> Options<'static> {
    Options { delayed_name_removal: delayed, threads, ..Options::default() }
}

/// (labels, value) pairs at a time, sorted.
fn at(value: &Value, time: i64) -> Vec<(Labels, f64)> {
    let mut pairs = match value {
        Value::Vector(vector) => vector.iter().map(|sample| (sample.labels.clone(), sample.value)).collect(),
        Value::Matrix(matrix) => {
            let value_at = |samples: &[(i64, f64)]| {
                samples.iter().find(|sample| sample.0 == time).map(|sample| sample.1)
            };
            matrix
                .iter()
                .filter_map(|series| Some((series.labels.clone(), value_at(&series.samples)?)))
                .collect()
        }
        Value::Scalar { value, .. } => vec![(Labels::empty(), *value)],
        Value::String { .. } => Vec::new(),
    };
    pairs.sort_by(|a: &(Labels, f64), b| a.0.cmp(&b.0));
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_range_query_is_its_instant_queries(
        store in store(),
        query in expression(),
        delayed in any::<bool>(),
        start in 0..10_i64,
        step in 1..200_i64,
    ) {
        // An instant vector that is sorted decides which series come first; those of a range have no order.
        let sorts = ["sort(", "topk(", "bottomk(", "limit_ratio("].iter().any(|name| query.contains(name));
        prop_assume!(!(sorts && query.contains("limitk(")));
        // `start()` and `end()` are those of the whole query.
        let query = query.replace("@ end()", "@ 700").replace("@ start()", "@ 100");
        let times = QueryTimes { start_ms: start * MINUTE_MS, end_ms: 15 * MINUTE_MS, step_ms: step * 1000 };
        let Ok(ranged) = store.query(&query, times, options(delayed, 1)) else { return Ok(()) };
        let parallel = store.query(&query, times, options(delayed, 4));
        prop_assert_eq!(format!("{:?}", parallel.map(|result| result.value)), format!("{:?}", Ok::<_, Error>(&ranged.value)));
        for time in (times.start_ms..=times.end_ms).step_by(step as usize * 1000) {
            let instant = store.query(&query, QueryTimes::instant(time), options(delayed, 1));
            let instant = instant.map_err(|error| TestCaseError::fail(format!("{query} at {time}: {error}")))?;
            let (expected, given) = (at(&instant.value, time), at(&ranged.value, time));
            let same = expected.len() == given.len()
                && expected.iter().zip(&given).all(|(a, b)| a.0 == b.0 && almost_equal(a.1, b.1));
            prop_assert!(same, "{} at {}: {:?}, in a range {:?}", query, time, expected, given);
        }
    }

    #[test]
    fn no_expression_panics(query in expression(), store in store()) {
        let times = QueryTimes { start_ms: -7_000, end_ms: 900_000, step_ms: 7_777 };
        let _ = store.query(&query, times, options(true, 2));
    }

    #[test]
    fn no_text_panics(query in r#"([a-z_]{1,4}|[0-9.]{1,3}|[-+*/^%(){}\[\]<>=!~,:@"'# ]|sum|by|rate|offset|inf|nan|or|and|bool|on|1e999|5m|é){0,24}"#) {
        let limits = Limits::default();
        if let Ok(plan) = parse(&query, QueryTimes::instant(0), &limits) {
            let series: Vec<Selected> = plan.selections(1).iter().map(|_| Selected::Samples(Vec::new())).collect();
            let _ = Evaluation { plan: &plan, series: &series, options: Options::default() }.run();
            let text = formatted(&query, &limits).map_err(|error| TestCaseError::fail(error.to_string()))?;
            // As in Prometheus, infinity is printed as `+Inf`. Before `^`, that sign is parsed as one of the power,
            // and a second sign is printed.
            let again = formatted(&text, &limits).map(|again| again.replace("++Inf", "+Inf"));
            prop_assert_eq!(again, Ok(text.replace("++Inf", "+Inf")), "{}", query);
        }
    }
}

/// Random expressions that only fail would prove nothing.
#[test]
fn most_expressions_have_a_value() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut valid, mut filled) = (0, 0);
    for _ in 0..200 {
        let tree = |runner: &mut _| (store(), expression()).new_tree(runner).expect("a case");
        let (store, query) = tree(&mut runner).current();
        let times = QueryTimes { start_ms: 0, end_ms: 900_000, step_ms: 60_000 };
        if let Ok(result) = store.query(&query, times, options(true, 1)) {
            valid += 1;
            filled += usize::from(matches!(result.value, Value::Matrix(matrix) if !matrix.is_empty()));
        }
    }
    assert!(valid > 120 && filled > 80, "{valid} valid, {filled} with samples, of 200");
}

fn parse_text(query: &str) -> Result<(), Error> {
    parse(query, QueryTimes::instant(0), &Limits::default()).map(|_| ())
}

#[test]
fn depth_and_length_are_limited() {
    for (open, close) in [("(", ")"), ("sum(", ")"), ("-(", ")"), ("abs(", ")")] {
        let nested = |depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
        parse_text(&nested(30)).expect("thirty levels");
        for depth in [1_000, 10_000] {
            let error = parse_text(&nested(depth)).expect_err("too deep");
            assert_eq!(error.kind, ErrorKind::BadData);
            assert!(error.text.contains("nested deeper"), "{error}");
        }
    }
    let error = parse_text(&"abs(".repeat(100)).expect_err("unclosed");
    assert_eq!(error.kind, ErrorKind::BadData);
    let error = parse_text(&format!("x{}", "[1m:1s]".repeat(5_000))).expect_err("ranges of ranges");
    assert!(error.text.ends_with("got matrix instead"), "{error}");
    assert!(parse_text(&"x".repeat(70_000)).is_err());
    assert!(parse_text(&format!("{}1", "-".repeat(2_000))).is_err());
    assert!(parse_text(&format!("{}x", "-".repeat(900))).is_err());
}

#[test]
fn subqueries_are_found_wherever_they_are() {
    for (query, expected) in [
        ("1 + max(rate(x[5m] @ 0))", false),
        ("x[5m:1m]", true),
        ("1 + topk(scalar(max_over_time(vector(1)[1h:1s])), x)", true),
    ] {
        let plan = parse(query, QueryTimes::instant(0), &Limits::default()).expect("a query");
        assert_eq!(plan.has_subqueries(), expected, "{query}");
    }
}

#[test]
fn long_chains_are_evaluated() {
    let query = vec!["1"; 900].join(" + ");
    let plan = parse(&query, QueryTimes::instant(0), &Limits::default()).expect("a chain");
    let evaluation = Evaluation { plan: &plan, series: &[], options: Options::default() };
    let result = evaluation.run().expect("a sum");
    assert_eq!(at(&result.value, 0)[0].1, 900.0);
}

/// Series `x`, one for each host, with a sample of 1 each second.
fn hosts(count: usize, samples: usize) -> Store {
    let mut store = Store::default();
    for host in 0..count {
        let labels = Labels::new([("__name__", "x".to_string()), ("host", host.to_string())]);
        store.load(&labels, 1000, &vec![Item::Value(1.0); samples]);
    }
    store
}

fn with_limits(query: &str, limits: Limits) -> Result<Value, Error> {
    let store = hosts(10, 100);
    let times = QueryTimes { start_ms: 0, end_ms: 99_000, step_ms: 1000 };
    store.query(query, times, Options { limits, ..Options::default() }).map(|result| result.value)
}

#[test]
fn limits_answer_as_prometheus() {
    let samples = |samples_max| Limits { samples_max, ..Limits::default() };
    let too_many = "query processing would load too many samples into memory in expression evaluation";
    for query in ["x", "sum(x)", "rate(x[1m])", "x + x", "sum_over_time(x[10s:1s])", "sum_over_time(x[100s])"]
    {
        let error = with_limits(query, samples(50)).expect_err(query);
        assert_eq!((error.kind, error.text.as_str()), (ErrorKind::Execution, too_many), "{query}");
        with_limits(query, samples(10_000)).expect(query);
    }
    // 1000 samples each; the memory of operands is released.
    with_limits("x + 1 + 1 + 1 + 1", samples(2_500)).expect("a chain");
    with_limits("clamp(sum(x), scalar(sum(x)), scalar(sum(x)))", samples(2_500)).expect("three arguments");
    let error = with_limits("x", Limits { series_max: 9, ..Limits::default() }).expect_err("ten series");
    assert_eq!(error.text, "query would load too many series into memory in query execution");
    // A year in steps of a millisecond.
    let error = with_limits("sum_over_time(vector(1)[1y:1ms])", Limits::default()).expect_err("much memory");
    assert_eq!(error.kind, ErrorKind::Execution);
    // Also without a series.
    for query in ["none + none", "none and none", "none unless none"] {
        let query = format!("count_over_time(({query})[290y:1ms])");
        let error = with_limits(&query, Limits::default()).expect_err("much memory");
        assert_eq!(error.kind, ErrorKind::Execution, "{query}");
    }
}

/// `label_join` that makes each value of `host` 200 times as long.
fn join(vector: &str) -> String {
    format!("label_join({vector}, \"host\", \"\"{})", ", \"host\"".repeat(200))
}

#[test]
fn label_values_are_limited() {
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let replace = |vector: &str| {
        format!("label_replace({vector}, \"host\", \"{}\", \"host\", \"(.*)\")", "$1".repeat(5_000))
    };
    for (few, many) in [(replace("x"), replace(&replace("x"))), (join("x"), join(&join(&join("x"))))] {
        with_limits(&few, limits).expect("a few kilobytes");
        let error = with_limits(&many, limits).expect_err("many megabytes");
        assert_eq!(error.kind, ErrorKind::Execution, "{error}");
    }
}

#[test]
fn counted_values_are_limited() {
    let mut store = Store::default();
    for number in 1..=100 {
        let labels = Labels::new([("__name__", "n".to_string()), ("number", number.to_string())]);
        store.load(&labels, 1000, &[Item::Value(f64::from(number))]);
    }
    let count = |memory_bytes_max| {
        let limits = Limits { memory_bytes_max, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        store.query("count_values(\"v\", n * 1e300)", QueryTimes::instant(0), options)
    };
    // Each text has 300 digits, and each column 104 bytes.
    count(60_000).expect("100 values");
    assert_eq!(count(26_000).expect_err("texts of 30,000 bytes").kind, ErrorKind::Execution);
}

#[test]
fn expressions_of_label_replace_are_limited() {
    let replace = |vector: &str, pattern: &str| {
        format!("label_replace({vector}, \"y\", \"$1\", \"host\", `{pattern}`)")
    };
    let groups = "()".repeat(2_000);
    for pattern in [groups.as_str(), &format!("a)|(?s:{groups}")] {
        let error = with_limits(&replace("x", pattern), Limits::default()).expect_err("400 MB");
        assert!(error.text.ends_with("the regular expressions are too large"), "{error}");
    }
    // 100,000 states: for one byte, not for 40,000.
    let large = r"[\pL\pN]{40}";
    with_limits(&replace("x", large), Limits::default()).expect("a short value");
    let error = with_limits(&replace(&join(&join("x")), large), Limits::default()).expect_err("a long value");
    assert_eq!(error.kind, ErrorKind::Execution, "{error}");
}

#[test]
fn long_work_polls_for_interrupts() {
    let store = hosts(1000, 1);
    let polls = |query: &str, times: QueryTimes| {
        let polls = AtomicUsize::new(0);
        let ask = || -> Option<Interrupt> {
            polls.fetch_add(1, Ordering::Relaxed);
            None
        };
        let options = Options { interrupt: &ask, ..Options::default() };
        store.query(query, times, options).expect(query);
        polls.load(Ordering::Relaxed)
    };
    let once = QueryTimes::instant(0);
    let before = polls("x", once);
    for query in [
        "label_replace(x, \"y\", \"$1\", \"host\", \"(.*)\")",
        "label_join(x, \"y\", \"\", \"host\")",
        "count_values(\"v\", x)",
    ] {
        assert!(polls(query, once) >= before + 1000, "{query}");
    }
    // 500,000 values in one group.
    let times = QueryTimes { start_ms: 0, end_ms: 49_900, step_ms: 100 };
    assert!(polls("quantile(0.5, x)", times) >= polls("stddev(x)", times) + 5);
    // One histogram.
    let buckets = "label_replace(x, \"le\", \"$1\", \"host\", \"(.*)\")";
    let buckets = format!("label_replace({buckets}, \"host\", \"\", \"\", \"\")");
    let quantile = format!("histogram_quantile(0.5, {buckets})");
    assert!(polls(&quantile, times) >= polls(&format!("stddev({buckets})"), times) + 5);
}

#[test]
fn interrupts_end_an_evaluation() {
    let plan = parse("1 + 1", QueryTimes::instant(0), &Limits::default()).expect("a sum");
    for (interrupt, kind) in
        [(Interrupt::Timeout, ErrorKind::Timeout), (Interrupt::Canceled, ErrorKind::Canceled)]
    {
        let ask = move || Some(interrupt);
        let options = Options { interrupt: &ask, ..Options::default() };
        let evaluation = Evaluation { plan: &plan, series: &[], options };
        assert_eq!(evaluation.run().expect_err("interrupted").kind, kind);
    }
}

#[test]
fn equal_selectors_are_read_once() {
    for (query, selections) in [
        ("x + x", 1),
        ("rate(x{a=\"1\"}[5m]) / on(b) rate(x{a=\"1\"}[5m])", 1),
        ("x + x offset 5m", 2),
        ("rate(x[5m]) + increase(x[5m])", 2),
        ("x{a=\"1\"} + x{a!=\"1\"}", 2),
        ("x + max_over_time(x[5m:])", 2),
    ] {
        let plan = parse(query, QueryTimes::instant(0), &Limits::default()).expect(query);
        assert_eq!(plan.selections(300_000).len(), selections, "{query}");
    }
}

#[test]
fn samples_are_counted() {
    let mut store = Store::default();
    store.load(&Labels::new([("__name__", "x_total")]), 10_000, &[Item::Value(1.0); 20]);
    let times = QueryTimes { start_ms: 60_000, end_ms: 120_000, step_ms: 30_000 };
    for (query, queried, read) in [
        ("x_total", 3, 3),
        ("x_total @ 60", 3, 1),
        // Six samples a window, of which three are new at each step.
        ("rate(x_total[1m])", 18, 12),
        ("sum(x_total) + sum(x_total)", 6, 6),
        ("max_over_time(x_total[1m:10s])", 12, 12),
    ] {
        let usage = store.query(query, times, Options::default()).expect(query).usage;
        assert_eq!((usage.queried_samples, usage.read_samples), (queried, read), "{query}");
        assert!(usage.peak_samples > 0 && usage.series > 0, "{query}");
    }
}

/// Compared with Prometheus' output for the same texts.
#[test]
fn parse_errors_say_where() {
    for (query, text) in [
        ("", "unknown position: parse error: no expression found in input"),
        ("sum(", "1:5: parse error: unclosed left parenthesis"),
        ("foo bar", "1:5: parse error: unexpected identifier \"bar\""),
        (
            "1 +\n  rate(x)",
            "2:8: parse error: expected type range vector in call to function \"rate\", got instant vector",
        ),
        ("x[5m", "1:5: parse error: unclosed left bracket"),
        ("x[0]", "1:3: parse error: duration must be greater than 0"),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("x + bool y", "1:3: parse error: bool modifier can only be used on comparison operators"),
        ("nonsense(x)", "1:1: parse error: unknown function with name \"nonsense\""),
        (
            "x offset",
            "1:9: parse error: unexpected end of input in offset, expected number, duration, step(), or range()",
        ),
        ("é + \"a", "1:6: parse error: unterminated quoted string"),
    ] {
        assert_eq!(parse_text(query).expect_err(query).text, text, "{query}");
    }
}
