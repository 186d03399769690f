//! Empty answers when there is no input, compared with strict answers, on random trees and series.

use std::sync::Arc;

use gnudi_model::{Timespan, Timestamp};
use gnudi_series::{
    cross::{CrossMeasures, CrossQuery, CrossSeries, Fill, cross},
    operations::{MetricName, Metrics, Operation},
    resample::Resample,
};
use proptest::prelude::*;

const MINUTE: Timespan = Timespan(60_000_000_000);
/// Series have one of the first names; none has the last.
const NAMES: [&str; 3] = ["a", "b", "nobody's"];

fn name(index: usize) -> MetricName {
    MetricName { name: NAMES[index].to_owned(), aggregation: "mean".to_owned() }
}

fn tree() -> impl Strategy<Value = Operation> {
    let index = prop_oneof![4 => Just(0usize), 4 => Just(1usize), 1 => Just(2usize)];
    let leaf = prop_oneof![
        3 => index.prop_map(|index| Operation::Metric(Metrics::One(name(index)))),
        1 => Just(Operation::Metric(Metrics::Many(vec![name(0), name(1)]))),
        1 => (-3i32..4).prop_map(|number| Operation::Constant(f64::from(number))),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let operand = inner.clone().prop_map(Box::new);
        prop_oneof![
            operand
                .clone()
                .prop_map(|operand| Operation::Unary { operator: "neg".parse().unwrap(), operand }),
            (operand.clone(), operand.clone()).prop_map(|(left, right)| Operation::Binary {
                operator: "+".parse().unwrap(),
                left,
                right
            }),
            (operand.clone(), operand.clone(), prop::option::of(operand.clone()))
                .prop_map(|(value, min, max)| Operation::Clip { value, min, max }),
            operand
                .clone()
                .prop_map(|operand| Operation::Aggregate { method: "sum".parse().unwrap(), operand }),
            (1u64..4, operand.clone()).prop_map(|(window, operand)| Operation::Rolling {
                method: "max".parse().unwrap(),
                window,
                operand
            }),
            operand.prop_map(|operand| Operation::Resample {
                method: "max".parse().unwrap(),
                to: Resample::Span(MINUTE),
                operand
            }),
        ]
    })
}

fn series() -> impl Strategy<Value = CrossSeries> {
    prop::collection::btree_set(0i64..6, 0..4).prop_map(|minutes| CrossSeries {
        values: minutes.iter().map(|minute| *minute as f64).collect(),
        timestamps: Arc::new(minutes.into_iter().map(|minute| Timestamp(minute * MINUTE.0)).collect()),
    })
}

fn fill() -> impl Strategy<Value = Option<Fill>> {
    prop::sample::select(vec![None, None, Some(Fill::DropNa), Some(Fill::Value(1.0)), Some(Fill::Null)])
}

fn is_empty(measures: &CrossMeasures) -> bool {
    measures.columns.iter().all(|column| column.timestamps.is_empty())
}

/// Whether each metric node of a tree has series, computed naively.
fn all_have_series(operation: &Operation) -> bool {
    operation.metric_names().iter().all(|name| name.name != NAMES[2])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_global_rejects: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn only_what_has_nothing_changes(
        operations in tree(),
        all in prop::collection::vec(series(), 2..4),
        fill in fill(),
        needed_overlap in prop::sample::select(vec![0.0, 50.0, 100.0]),
    ) {
        prop_assume!(!operations.metric_names().is_empty());
        let names: Vec<MetricName> = (0..all.len()).map(|index| name(index % 2)).collect();
        let query = |may_be_empty| CrossQuery { operations: &operations, start: None, stop: None, needed_overlap, fill, may_be_empty };
        let strict = cross(&names, MINUTE, all.clone(), &query(false));
        let lenient = cross(&names, MINUTE, all.clone(), &query(true));
        let common = (0..6).filter(|minute| all.iter().all(|one| one.timestamps.contains(&Timestamp(minute * MINUTE.0)))).count();
        let points: usize = all.iter().map(|one| one.values.len()).sum();
        let has_times = if fill.is_some() || needed_overlap == 0.0 { points > 0 } else { common > 0 };
        if has_times && all_have_series(&operations) {
            let same = match (&strict, &lenient) {
                // Compare texts: NaN is not equal to itself.
                (Ok(strict), Ok(lenient)) => format!("{strict:?}") == format!("{lenient:?}"),
                (strict, lenient) => strict == lenient,
            };
            prop_assert!(same, "{:?} {:?}", strict, lenient);
        } else {
            let lenient = lenient.expect("an empty answer");
            prop_assert!(is_empty(&lenient));
            prop_assert_eq!(lenient.columns.len(), if lenient.aggregated { 1 } else { names.len() });
        }
        if let Ok(strict) = strict {
            prop_assert_eq!(strict.aggregated, operations.is_aggregated());
        }
    }
}
