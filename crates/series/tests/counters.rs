//! Compares `increase` and `rate_reset` with a slow model, on random counters with restarts and gaps.

use std::{collections::BTreeMap, sync::Arc};

use gnudi_model::{Timespan, Timestamp};
use gnudi_series::{
    cross::{CrossMeasures, CrossQuery, CrossSeries, Fill, cross},
    operations::{MetricName, Metrics, Operation},
};
use proptest::prelude::*;

const SECOND: Timespan = Timespan(1_000_000_000);

/// Values by second.
type Counter = BTreeMap<i64, f64>;

fn counter() -> impl Strategy<Value = Counter> {
    let step = prop_oneof![
        6 => (0u32..1_000).prop_map(|grown| Step::Grows(f64::from(grown))),
        2 => (0u32..50).prop_map(|value| Step::BeginsAgain(f64::from(value))),
        2 => Just(Step::Silent),
    ];
    prop::collection::vec(step, 0..30).prop_map(|steps| {
        let (mut value, mut counter) = (0.0, Counter::new());
        for (second, step) in (0..).zip(steps) {
            match step {
                Step::Grows(by) => value += by,
                Step::BeginsAgain(at) => value = at,
                Step::Silent => continue,
            }
            counter.insert(second, value);
        }
        counter
    })
}

#[derive(Clone, Debug)]
enum Step {
    Grows(f64),
    BeginsAgain(f64),
    Silent,
}

/// For each second but the first: the counter's increase since its last value.
fn model(counter: &Counter, seconds: &[i64], per_second: bool) -> Vec<(i64, f64)> {
    let mut expected = Vec::new();
    for (row, second) in seconds.iter().enumerate().skip(1) {
        let before =
            seconds[..row].iter().rev().find_map(|before| counter.get(before).map(|value| (before, value)));
        let (Some(now), Some((before, was))) = (counter.get(second), before) else { continue };
        let grown = if now >= was { now - was } else { *now };
        expected.push((*second, if per_second { grown / (second - before) as f64 } else { grown }));
    }
    expected
}

fn name(index: usize) -> MetricName {
    MetricName { name: format!("m{index}"), aggregation: "last".to_owned() }
}

fn computed(counters: &[Counter], operator: &str, fill: Fill) -> CrossMeasures {
    let names: Vec<MetricName> = (0..counters.len()).map(name).collect();
    let operations = Operation::Unary {
        operator: operator.parse().unwrap(),
        operand: Box::new(Operation::Metric(Metrics::Many(names.clone()))),
    };
    let series = |counter: &Counter| CrossSeries {
        timestamps: Arc::new(counter.keys().map(|second| Timestamp::from_secs(*second)).collect()),
        values: counter.values().copied().collect(),
    };
    let query = CrossQuery {
        operations: &operations,
        start: None,
        stop: None,
        needed_overlap: 0.0,
        fill: Some(fill),
        may_be_empty: false,
    };
    cross(&names, SECOND, counters.iter().map(series).collect(), &query).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn counters_grow_as_the_model_says(counters in prop::collection::vec(counter(), 1..4), per_second: bool) {
        let operator = if per_second { "rate_reset" } else { "increase" };
        let mut seconds: Vec<i64> = counters.iter().flat_map(Counter::keys).copied().collect();
        seconds.sort_unstable();
        seconds.dedup();
        for fill in [Fill::DropNa, Fill::Null] {
            let answer = computed(&counters, operator, fill);
            prop_assert!(!answer.aggregated);
            for (counter, column) in counters.iter().zip(&answer.columns) {
                if fill == Fill::Null {
                    prop_assert_eq!(column.values.len(), seconds.len().saturating_sub(1));
                }
                let points = column.timestamps.iter().zip(&column.values);
                let present: Vec<(i64, f64)> =
                    points.filter(|(_, value)| !value.is_nan()).map(|(time, value)| (time.secs(), *value)).collect();
                prop_assert_eq!(present, model(counter, &seconds, per_second));
            }
        }
    }

    /// The increases of a counter with restarts add up to its total.
    #[test]
    fn increases_add_up(grown in prop::collection::vec((0u32..1_000, prop::bool::weighted(0.2)), 1..50)) {
        let (mut value, mut total, mut counter) = (0.0, 0.0, Counter::new());
        counter.insert(0, 0.0);
        for (second, (by, begins_again)) in (1..).zip(grown) {
            // Only a value below the one before shows a restart.
            if begins_again && f64::from(by) < value {
                value = 0.0;
            }
            value += f64::from(by);
            total += f64::from(by);
            counter.insert(second, value);
        }
        let answer = computed(&[counter], "increase", Fill::DropNa);
        prop_assert_eq!(answer.columns[0].values.iter().sum::<f64>(), total);
    }
}
