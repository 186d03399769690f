//! Random requests, passes and crashes of a metric that accepts late points, compared with a model that keeps
//! the accepted points.

use std::collections::BTreeMap;

use gnudi_model::ArchivePolicy;
use proptest::prelude::*;

use super::Store;

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

/// The accepted points, and the expected results.
pub trait Model {
    fn points(&self) -> &BTreeMap<i64, f64>;

    /// The points of a request that are sent.
    fn sent(&self, request: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
        request
    }

    /// How many points were late.
    fn fold(&mut self, policy: &ArchivePolicy, request: &[(i64, f64)]) -> usize;

    fn check(&self, store: &Store, policy: &ArchivePolicy) -> Result<(), TestCaseError>;

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
