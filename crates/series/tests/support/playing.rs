//! Random requests, passes and crashes of a metric that accepts late points, compared with a model that keeps
//! the accepted points.

use std::collections::BTreeMap;

use gnudi_model::{Aggregation, ArchivePolicy, Measure};
use proptest::prelude::*;

use super::{
    Store, aggregations,
    model::{Query, buckets},
};

/// An event of a metric.
#[derive(Clone, Debug)]
pub enum Event {
    /// Points: the distance before or after the newest of all, and the value.
    Request(Vec<(i64, f64)>),
    Pass,
    /// Folds everything since the last pass again, as after a crash.
    Crash,
}

/// Requests of a few points, some of them late, and of many.
pub fn events(value: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Vec<Event>> {
    let offset = prop_oneof![4 => -20i64..40, 2 => -1500i64..0, 1 => 0i64..900];
    let few = prop::collection::vec((offset, value.clone()), 1..12);
    let many = (-1200i64..400, prop::collection::vec(value, 200..700)).prop_map(|(from, values)| {
        values.into_iter().enumerate().map(|(at, value)| (from + at as i64, value)).collect()
    });
    let event = prop_oneof![
        8 => few.prop_map(Event::Request),
        1 => many.prop_map(Event::Request),
        4 => Just(Event::Pass),
        1 => Just(Event::Crash),
    ];
    prop::collection::vec(event, 1..40)
}

/// Buckets up to this start are older than the timespan.
pub fn passed(aggregation: Aggregation, newest: i64) -> i64 {
    let step = aggregation.granularity.0;
    aggregation.timespan.map_or(i64::MIN, |timespan| newest - newest % step - timespan.0)
}

/// The accepted points, and the expected results.
pub trait Model {
    fn points(&self) -> &BTreeMap<i64, f64>;

    /// The points of a request that are sent.
    fn sent(&self, request: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
        request
    }

    /// How many points were late.
    fn fold(&mut self, policy: &ArchivePolicy, request: &[(i64, f64)]) -> usize;

    /// Compares what is kept besides buckets.
    fn check_raw(&self, _store: &Store, _policy: &ArchivePolicy) -> Result<(), TestCaseError> {
        Ok(())
    }

    fn check(&self, store: &Store, policy: &ArchivePolicy) -> Result<(), TestCaseError> {
        let is_measured =
            |(time, value): (&i64, &f64)| (value.to_bits() != Measure::END_MARKER).then_some((*time, *value));
        let measured = self.points().iter().filter_map(is_measured).collect();
        for aggregation in aggregations(policy) {
            let mut rows = buckets(&measured, aggregation);
            let passed = self.newest().map_or(i64::MIN, |newest| passed(aggregation, newest));
            rows.retain(|(start, _)| *start > passed);
            prop_assert_eq!(store.read(aggregation, &Query::all()), Ok(rows), "{:?}", aggregation);
        }
        self.check_raw(store, policy)
    }

    fn newest(&self) -> Option<i64> {
        self.points().keys().next_back().copied()
    }
}

/// Applies the events to a store and the model; compares them after each pass.
pub fn play(policy: &ArchivePolicy, events: Vec<Event>, model: &mut impl Model) -> Result<(), TestCaseError> {
    let mut store = Store::new(policy);
    let mut stored = store.clone();
    let mut log: Vec<Vec<(i64, f64)>> = Vec::new();
    for event in events {
        match event {
            Event::Request(points) => {
                let base = model.newest().unwrap_or(5000);
                let request = points.into_iter().map(|(offset, value)| ((base + offset).max(0), value));
                let request = model.sent(request.collect());
                if request.is_empty() {
                    continue;
                }
                let outcome = store.fold(&request);
                prop_assert_eq!(outcome.late, model.fold(policy, &request));
                log.push(request);
            }
            Event::Pass => {
                store.pass();
                stored = store.clone();
                model.check(&store, policy)?;
            }
            Event::Crash => {
                store = stored.clone();
                for request in &log[store.head.applied() as usize..] {
                    store.fold(request);
                    store.pass();
                }
                stored = store.clone();
            }
        }
    }
    store.pass();
    model.check(&store, policy)
}
