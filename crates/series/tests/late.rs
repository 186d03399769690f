//! Policies that accept late points without raw points: any order and batching of requests, replays and
//! crashes give the result of a sorted list of the points.

mod support;

use std::collections::BTreeMap;

use gnudi_model::{Aggregation, ArchivePolicy, Timespan};
use gnudi_series::head::Layout;
use proptest::prelude::*;
use support::{
    Rows, Store, aggregations, bits, definitions,
    model::{Query, sorted},
    playing::{self, events, passed, play},
    policy,
};

const METHODS: [&str; 5] = ["mean", "sum", "max", "min", "count"];

/// Whole numbers, whose sums are exact in any order; also NaN and infinity, which stay so in any order.
fn value() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        30 => (-20i32..20).prop_map(f64::from),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY]),
    ]
}

fn policies() -> impl Strategy<Value = ArchivePolicy> {
    let methods = prop::sample::subsequence(METHODS[1..].to_vec(), 1..5);
    (0u64..3, definitions(), methods).prop_map(|(back_window, definition, methods)| {
        let methods = if methods.len() == METHODS.len() - 1 { METHODS.to_vec() } else { methods };
        let mut policy = policy(back_window, &definition, &methods);
        policy.recomputes_late = true;
        policy.check_late().unwrap();
        policy
    })
}

/// The points that were accepted.
#[derive(Default)]
struct Model(BTreeMap<i64, f64>);

impl playing::Model for Model {
    fn points(&self) -> &BTreeMap<i64, f64> {
        &self.0
    }

    /// No point is sent twice: a final bucket cannot detect it.
    fn sent(&self, request: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
        request.into_iter().filter(|(time, _)| !self.0.contains_key(time)).collect()
    }

    fn fold(&mut self, policy: &ArchivePolicy, request: &[(i64, f64)]) -> usize {
        let newest = self.newest();
        let block = policy.block_size().0;
        let counts = |time: i64| {
            newest.is_none_or(|newest| {
                let window = newest - newest % block - block * policy.back_window as i64;
                let is_kept = |aggregation: Aggregation| {
                    time - time % aggregation.granularity.0 > passed(aggregation, newest)
                };
                time >= window || aggregations(policy).into_iter().any(is_kept)
            })
        };
        let mut late = 0;
        for (time, value) in sorted(request) {
            if counts(time) {
                self.0.insert(time, value);
            } else {
                late += 1;
            }
        }
        late
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn order_cuts_and_crashes_change_nothing(policy in policies(), events in events(value())) {
        play(&policy, events, &mut Model::default())?;
    }

    /// Sums of any numbers accumulate in order of arrival, however passes batch the requests.
    #[test]
    fn sums_do_not_depend_on_passes(
        policy in policies(),
        requests in prop::collection::vec(prop::collection::vec((-900i64..60, -1e3..1e3), 1..8), 1..20),
        passes in prop::collection::vec(any::<bool>(), 20),
    ) {
        let (mut one, mut many) = (Store::new(&policy), Store::new(&policy));
        let mut newest = 5000;
        for (request, pass) in requests.into_iter().zip(passes) {
            let request: Vec<(i64, f64)> =
                request.into_iter().map(|(offset, value)| (newest + offset, value)).collect();
            newest = request.iter().map(|(time, _)| *time).fold(newest, i64::max);
            one.fold(&request);
            many.fold(&request);
            if pass {
                many.pass();
            }
        }
        one.pass();
        many.pass();
        for aggregation in aggregations(&policy) {
            let rows = |store: &Store| store.read(aggregation, &Query::all()).unwrap();
            prop_assert_eq!(rows(&one), rows(&many));
        }
    }
}

fn rows(store: &Store, policy: &ArchivePolicy, aggregation: usize) -> Rows {
    store.read(aggregations(policy)[aggregation], &Query::all()).unwrap()
}

#[test]
fn a_policy_that_is_changed_takes_late_points_from_then_on() {
    let mut policy = policy(0, &[(10, None)], &["sum", "count"]);
    let mut store = Store::new(&policy);
    store.fold(&[(100, 1.0), (111, 1.0), (131, 2.0)]);
    store.pass();
    assert_eq!(store.fold(&[(105, 7.0)]).late, 1);
    policy.recomputes_late = true;
    store.layout = Layout::of(&policy);
    assert_eq!(store.fold(&[(106, 3.0), (95, 4.0)]).late, 0);
    // The duplicate cannot be detected.
    assert_eq!(store.fold(&[(106, 3.0)]).late, 0);
    store.pass();
    assert_eq!(store.head.late_dropped(), 1);
    let sums = [(90, 4.0), (100, 7.0), (110, 1.0), (130, 2.0)].map(|(start, sum)| (start, bits(sum)));
    assert_eq!(rows(&store, &policy, 0), sums);
    let counts = [(90, 1.0), (100, 3.0), (110, 1.0), (130, 1.0)].map(|(start, count)| (start, bits(count)));
    assert_eq!(rows(&store, &policy, 1), counts);
}

/// Methods that need all points drop late ones, whatever the policy's option.
#[test]
fn methods_that_need_all_points_take_no_late_ones() {
    let mut policy = policy(0, &[(10, None)], &["sum", "last"]);
    policy.recomputes_late = true;
    let mut store = Store::new(&policy);
    store.fold(&[(100, 1.0), (131, 2.0)]);
    assert_eq!(store.fold(&[(105, 7.0)]).late, 1);
    policy.raw_timespan = Some(Timespan(1000));
    store.layout = Layout::of(&policy);
    assert_eq!(store.fold(&[(132, 7.0), (125, 7.0)]).late, 1);
}

/// A move leaves a bucket whose first points are known by their statistics only.
#[test]
fn a_bucket_from_before_a_move_takes_late_points() {
    let mut second = policy(0, &[(10, None), (60, None)], &["sum", "count"]);
    second.recomputes_late = true;
    let mut store = Store::new(&policy(0, &[(10, None)], &["sum", "count"]));
    store.fold(&[(125, 1.0), (131, 2.0), (145, 4.0)]);
    store.convert(&second);
    assert_eq!(store.fold(&[(127, 8.0), (150, 16.0)]).late, 0);
    store.pass();
    let read = |store: &Store, aggregation| -> Vec<(i64, f64)> {
        let rows = rows(store, &second, aggregation).into_iter();
        rows.map(|(start, value)| (start, f64::from_bits(value))).collect()
    };
    assert_eq!(read(&store, 0), [(120, 9.0), (130, 2.0), (140, 4.0), (150, 16.0)]);
    assert_eq!([read(&store, 2), read(&store, 3)], [[(120, 31.0)], [(120, 5.0)]]);
    assert_eq!(store.fold(&[(128, 64.0), (190, 32.0)]).late, 0);
    store.pass();
    assert_eq!(read(&store, 2), [(120, 95.0), (180, 32.0)]);
    assert_eq!(read(&store, 3), [(120, 6.0), (180, 1.0)]);
}

/// The bucket of a move is not final, and no earlier one of its granularity is stored yet.
#[test]
fn buckets_before_that_of_a_move_take_late_points() {
    let mut second = policy(0, &[(10, None), (60, None)], &["sum", "count"]);
    second.recomputes_late = true;
    let mut store = Store::new(&policy(0, &[(10, None)], &["sum", "count"]));
    store.fold(&[(125, 1.0), (131, 2.0), (145, 4.0)]);
    store.convert(&second);
    assert_eq!(store.fold(&[(65, 8.0)]).late, 0);
    store.pass();
    assert_eq!(rows(&store, &second, 2), [(60, bits(8.0)), (120, bits(7.0))]);
    store.fold(&[(190, 16.0)]);
    assert_eq!(store.fold(&[(66, 32.0), (5, 64.0)]).late, 0);
    store.pass();
    let sums = [(0, 64.0), (60, 40.0), (120, 7.0), (180, 16.0)].map(|(start, sum)| (start, bits(sum)));
    assert_eq!(rows(&store, &second, 2), sums);
}

/// Nothing is known of a bucket's points from before a move if their methods do not compose it.
#[test]
fn buckets_of_unknown_points_take_no_late_ones() {
    let mut second = policy(0, &[(10, None), (60, None)], &["sum", "count"]);
    second.recomputes_late = true;
    let mut store = Store::new(&policy(0, &[(10, None)], &["last"]));
    store.fold(&[(65, 1.0), (125, 1.0), (131, 2.0), (145, 4.0)]);
    store.convert(&second);
    store.fold(&[(66, 8.0), (127, 32.0)]);
    store.pass();
    assert_eq!(rows(&store, &second, 2), Rows::new());
    store.fold(&[(190, 16.0)]);
    store.fold(&[(151, 1.0)]);
    store.pass();
    let fine = [(140, 4.0), (150, 1.0), (190, 16.0)].map(|(start, sum)| (start, bits(sum)));
    assert_eq!(rows(&store, &second, 0), fine);
    assert_eq!(rows(&store, &second, 2), [(180, bits(16.0))]);
}

/// Timespans then count from the last bucket that is left.
#[test]
fn a_removal_of_the_newest_points_leaves_the_limit_of_late_ones() {
    let mut policy = policy(0, &[(1, Some(100)), (60, Some(6000))], &["sum"]);
    policy.recomputes_late = true;
    let mut store = Store::new(&policy);
    for point in [(3400, 1.0), (7950, 2.0), (9000, 1.0)] {
        store.fold(&[point]);
    }
    store.remove(8000, 10_000);
    assert_eq!(store.head.last(), None);
    let query = Query { stop: Some(3500), ..Query::all() };
    assert_eq!(store.read(aggregations(&policy)[0], &query), Ok(Rows::new()));
    // The minute of 7920 is the last one.
    assert_eq!(store.fold(&[(1900, 16.0), (7000, 4.0), (7870, 8.0)]).late, 1);
    store.pass();
    assert_eq!(rows(&store, &policy, 0), [(7870, bits(8.0)), (7950, bits(2.0))]);
    let minutes = [(3360, 1.0), (6960, 4.0), (7860, 8.0), (7920, 2.0)];
    assert_eq!(rows(&store, &policy, 1), minutes.map(|(start, sum)| (start, bits(sum))));
}
