//! Operations across metrics, step by step. `tests/oracle/cross.py` compares random ones with Gnocchi.

use std::sync::Arc;

use gnudi_model::{Timespan, Timestamp};
use gnudi_series::{
    calendar::Calendar,
    cross::{CrossError, CrossMeasures, CrossQuery, CrossSeries, Fill, cross},
    operations::{DEPTH_MAX, MetricName, Metrics, NODES_MAX, Operation, OperationError, TooLarge},
    resample::Resample,
};

const MINUTE: Timespan = Timespan::from_secs(60);

fn name(name: &str) -> MetricName {
    MetricName { name: name.to_owned(), aggregation: "mean".to_owned() }
}

fn series(points: &[(i64, f64)]) -> CrossSeries {
    let (times, values): (Vec<i64>, Vec<f64>) = points.iter().copied().unzip();
    CrossSeries {
        timestamps: Arc::new(times.into_iter().map(|time| Timestamp(time * MINUTE.0)).collect()),
        values,
    }
}

fn metrics(names: &[MetricName]) -> Operation {
    Operation::Metric(Metrics::Many(names.to_vec()))
}

fn constant(number: f64) -> Operation {
    Operation::Constant(number)
}

fn aggregate(method: &str, operand: Operation) -> Operation {
    Operation::Aggregate { method: method.parse().unwrap(), operand: Box::new(operand) }
}

fn binary(operator: &str, left: Operation, right: Operation) -> Operation {
    let operator = operator.parse().unwrap();
    Operation::Binary { operator, left: Box::new(left), right: Box::new(right) }
}

fn query(operations: &Operation, fill: Option<Fill>) -> CrossQuery<'_> {
    CrossQuery { operations, start: None, stop: None, needed_overlap: 100.0, fill, may_be_empty: false }
}

/// The answer for series named `m0`, `m1` and so on.
fn answer(
    all: &[CrossSeries],
    make: impl Fn(&[MetricName]) -> Operation,
    fill: Option<Fill>,
) -> Result<CrossMeasures, CrossError> {
    let names: Vec<MetricName> = (0..all.len()).map(|index| name(&format!("m{index}"))).collect();
    cross(&names, MINUTE, all.to_vec(), &query(&make(&names), fill))
}

fn values(answer: &CrossMeasures) -> Vec<Vec<f64>> {
    answer.columns.iter().map(|column| column.values.clone()).collect()
}

#[test]
fn series_are_aggregated_or_answered_one_by_one() {
    let all = [series(&[(0, 1.0), (1, 2.0)]), series(&[(0, 3.0), (1, 6.0)])];
    let mean = answer(&all, |names| aggregate("mean", metrics(names)), None).unwrap();
    assert!(mean.aggregated);
    assert_eq!(values(&mean), [[2.0, 4.0]]);
    let doubled = answer(&all, |names| binary("*", metrics(names), constant(2.0)), None).unwrap();
    assert!(!doubled.aggregated);
    assert_eq!(values(&doubled), [[2.0, 4.0], [6.0, 12.0]]);
    let counted = answer(&all, |names| aggregate("count", metrics(names)), None).unwrap();
    assert_eq!(values(&counted), [[2.0, 2.0]]);
}

#[test]
fn ends_that_are_not_given_are_where_all_series_begin_and_end() {
    let all = [series(&[(0, 1.0), (1, 2.0), (2, 3.0)]), series(&[(1, 5.0), (2, 6.0), (3, 7.0)])];
    let sum = |names: &[MetricName]| aggregate("sum", metrics(names));
    let joined = answer(&all, sum, None).unwrap();
    assert_eq!(*joined.columns[0].timestamps, [Timestamp(MINUTE.0), Timestamp(2 * MINUTE.0)]);
    assert_eq!(values(&joined), [[7.0, 9.0]]);
    let filled = answer(&all, sum, Some(Fill::Value(0.5))).unwrap();
    assert_eq!(values(&filled), [[1.5, 7.0, 9.0, 7.5]]);
    let apart = [series(&[(0, 1.0), (2, 1.0), (4, 1.0)]), series(&[(0, 1.0), (3, 1.0), (4, 1.0)])];
    let Err(CrossError::Unaggregable(why)) = answer(&apart, sum, None) else {
        panic!("they overlap by half")
    };
    assert_eq!(why.reason, "Less than 100.000000% of datapoints overlap in this timespan (50.00%)");
    assert_eq!(why.references, [(name("m0"), None), (name("m1"), None)]);
    let none = [series(&[(0, 1.0)]), series(&[(1, 1.0)])];
    let Err(CrossError::Unaggregable(why)) = answer(&none, sum, None) else { panic!("nothing overlaps") };
    assert_eq!(why.reason, "No overlap");
}

/// numpy has two ways to compute a median.
#[test]
fn medians_of_many_series_do_not_overflow() {
    let median = |count: usize| {
        let all = vec![series(&[(0, 1.7e308), (1, -0.0)]); count];
        values(&answer(&all, |names| aggregate("median", metrics(names)), None).unwrap()).remove(0)
    };
    assert_eq!(median(3), [f64::INFINITY, 0.0]);
    assert_eq!(median(599), [f64::INFINITY, 0.0]);
    assert_eq!(median(601), [1.7e308, 0.0]);
    assert_eq!(median(602), [f64::INFINITY, 0.0]);
}

#[test]
fn numbers_that_equal_a_bound_are_not_clipped() {
    let all = [series(&[(0, 0.0), (1, -0.0), (2, 5.0), (3, f64::NAN)])];
    let signs = |clip: Operation| {
        let columns = values(&answer(&all, |_| clip.clone(), Some(Fill::Null)).unwrap());
        columns[0].iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    let metric = || Operation::Metric(Metrics::One(name("m0")));
    let clip = |min| Operation::Clip {
        value: Box::new(metric()),
        min: Box::new(constant(min)),
        max: Some(Box::new(constant(1.0))),
    };
    let (zero, negative) = (0, (-0.0f64).to_bits());
    assert_eq!(signs(clip(0.0))[..3], [zero, negative, 1.0f64.to_bits()]);
    assert_eq!(signs(clip(-0.0))[..2], [zero, negative]);
    let with_two = Operation::Clip { value: Box::new(metric()), min: Box::new(constant(0.0)), max: None };
    assert_eq!(signs(with_two)[..2], [zero, zero]);
}

#[test]
fn results_on_a_calendar_have_no_limit_of_periods() {
    let all = [series(&[(0, 1.0), (50_000, 2.0), (100_000, 3.0), (150_000, 4.0)])];
    let to = Resample::Calendar(Calendar::Month);
    let monthly = |names: &[MetricName]| Operation::Resample {
        method: "sum".parse().unwrap(),
        to,
        operand: Box::new(metrics(names)),
    };
    let answer = answer(&all, monthly, None).unwrap();
    assert_eq!(answer.granularity, to);
    assert_eq!(values(&answer), [[1.0, 2.0, 3.0, 4.0]]);
}

#[test]
fn what_has_no_meaning_is_an_error() {
    let all = [series(&[(0, 1.0), (1, 2.0)])];
    let error = |operation: Operation| answer(&all, |_| operation.clone(), None).unwrap_err();
    let metric = || Operation::Metric(Metrics::One(name("m0")));
    let absent = || Operation::Metric(Metrics::One(name("absent")));
    let truth = || binary("<", metric(), constant(2.0));
    for (operation, expected) in [
        (aggregate("mean", constant(1.0)), OperationError::Scalar("aggregate")),
        (aggregate("max", absent()), OperationError::NoSeries),
        (absent(), OperationError::NoSeries),
        (binary("-", truth(), truth()), OperationError::TruthArithmetic),
        (
            binary(
                "**",
                aggregate("count", metric()),
                binary("-", aggregate("count", absent()), aggregate("count", metric())),
            ),
            OperationError::NegativePower,
        ),
    ] {
        assert_eq!(error(operation), CrossError::Operation(expected));
    }
    let rolling =
        Operation::Rolling { method: "mean".parse().unwrap(), window: u64::MAX, operand: Box::new(metric()) };
    let CrossError::Unaggregable(why) = error(rolling) else { panic!("the window is too long") };
    assert_eq!(why.reason, format!("Rolling window '{}' is greater than serie length '2'", u64::MAX));
}

#[test]
fn trees_have_limits() {
    let nested =
        |depth: usize| (1..depth).fold(constant(1.0), |operand, _| binary("+", operand, constant(1.0)));
    assert_eq!(nested(DEPTH_MAX).check_size(), Ok(()));
    assert_eq!(nested(DEPTH_MAX + 1).check_size(), Err(TooLarge::Depth));
    assert_eq!(metrics(&vec![name("m"); NODES_MAX]).check_size(), Ok(()));
    assert_eq!(metrics(&vec![name("m"); NODES_MAX + 1]).check_size(), Err(TooLarge::Nodes));
    let names = binary("+", metrics(&[name("b"), name("a")]), metrics(&[name("a"), name("c")]));
    assert_eq!(names.metric_names(), [&name("b"), &name("a"), &name("c")]);
}

/// Windows as long as the series need work that grows with the square of the points.
#[test]
fn work_has_limits() {
    let points: Vec<(i64, f64)> = (0..200_000).map(|time| (time, time as f64)).collect();
    let all = [series(&points)];
    let rolling = |names: &[MetricName]| Operation::Rolling {
        method: "median".parse().unwrap(),
        window: 100_000,
        operand: Box::new(metrics(names)),
    };
    assert_eq!(answer(&all, rolling, None).unwrap_err(), CrossError::Operation(OperationError::TooExpensive));
}
