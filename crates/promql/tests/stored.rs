//! Series whose samples are not single measurements: sums with counts, and longer lookbacks.

use gnudi_promql::{Evaluation, Labels, Limits, Options, QueryTimes, Selected, Series, Value, parse};

fn value(query: &str, time_ms: i64, series: &Series) -> Option<f64> {
    let plan = parse(query, QueryTimes::instant(time_ms), &Limits::default()).unwrap();
    let series = [Selected::Samples(vec![series.clone()])];
    let evaluation = Evaluation { plan: &plan, series: &series, options: Options::default() };
    let Value::Vector(samples) = evaluation.run().unwrap().value else { panic!("{query} is a vector") };
    samples.first().map(|sample| sample.value)
}

#[test]
fn sums_of_measurements_are_counted_by_these() {
    let labels = Labels::new([("__name__", "x")]);
    let plain = Series::new(labels, vec![60_000, 120_000, 180_000], vec![10.0, 30.0, 5.0]);
    let sums = Series { counts: Some(vec![2.0, 3.0, 1.0]), ..plain.clone() };
    for (query, of_sums, of_samples) in [
        ("count_over_time(x[5m])", 6.0, 3.0),
        ("avg_over_time(x[5m])", 7.5, 15.0),
        ("sum_over_time(x[5m])", 45.0, 45.0),
        ("max_over_time(x[5m])", 30.0, 30.0),
        ("avg_over_time(x[90s])", 35.0 / 4.0, 17.5),
    ] {
        assert_eq!(value(query, 180_000, &sums), Some(of_sums), "{query}");
        assert_eq!(value(query, 180_000, &plain), Some(of_samples), "{query}");
    }
    // Staleness markers do not count.
    let ended = Series { values: vec![10.0, f64::from_bits(gnudi_promql::STALE_NAN_BITS), 5.0], ..sums };
    assert_eq!(value("count_over_time(x[5m])", 180_000, &ended), Some(3.0));
}

#[test]
fn what_is_evaluated_while_it_is_read_is_limited() {
    let times = QueryTimes { start_ms: 0, end_ms: 99_000, step_ms: 1000 };
    let plan = parse("x + y", times, &Limits::default()).unwrap();
    let series = Series::new(Labels::empty(), vec![0], vec![1.0]);
    // Enough for one series of 100 steps.
    let limits = Limits { memory_bytes_max: 1_500, ..Limits::default() };
    let first = plan.pushdown(0, 300_000, &limits).unwrap();
    first.evaluate(&series, &|| None).unwrap();
    assert!(first.held_bytes() > 800);
    let rest = limits.memory_bytes_max - first.held_bytes();
    let second = plan.pushdown(1, 300_000, &Limits { memory_bytes_max: rest, ..limits }).unwrap();
    assert!(second.evaluate(&series, &|| None).is_err());
}

#[test]
fn a_series_may_be_looked_back_for_longer() {
    let short = Series::new(Labels::new([("__name__", "x")]), vec![0], vec![1.0]);
    let long = Series { lookback_ms: Some(600_000), ..short.clone() };
    for (time_ms, of_short, of_long) in
        [(299_999, true, true), (300_000, false, true), (599_999, false, true), (600_000, false, false)]
    {
        assert_eq!(value("x", time_ms, &short).is_some(), of_short, "{time_ms}");
        assert_eq!(value("x", time_ms, &long).is_some(), of_long, "{time_ms}");
        assert_eq!(value("x smoothed", time_ms, &long).is_some(), of_long, "{time_ms}");
    }
}

#[test]
fn extended_selectors_reach_as_far_as_samples_of_the_series_count() {
    // A sample an hour.
    let labels = Labels::new([("__name__", "x_total")]);
    let short = Series::new(labels, vec![3_600_000, 7_200_000, 10_800_000], vec![6.0, 12.0, 18.0]);
    let long = Series { lookback_ms: Some(7_200_000), ..short.clone() };
    for (query, of_short, of_long) in [
        ("increase(x_total[1h] anchored)", 0.0, 6.0),
        ("increase(x_total[1h] smoothed)", 0.0, 6.0),
        ("delta(x_total[1h] smoothed)", 0.0, 6.0),
        ("changes(x_total[1h] anchored)", 0.0, 1.0),
    ] {
        assert_eq!(value(query, 9_000_000, &short), Some(of_short), "{query}");
        assert_eq!(value(query, 9_000_000, &long), Some(of_long), "{query}");
    }
    // Between two samples.
    assert_eq!(value("x_total smoothed", 9_000_000, &short), None);
    assert_eq!(value("x_total smoothed", 9_000_000, &long), Some(15.0));
}
