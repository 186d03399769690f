//! A metric that moves to other policies: it then shows the aggregates of all of its points, and nothing
//! else.

mod support;

use std::collections::BTreeMap;

use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, Statistic, Timespan, Timestamp};
use gnudi_series::{
    head::{Origin, outcome},
    raw,
};
use proptest::prelude::*;
use support::{
    PLAIN, Rows, Store, aggregations, bits, methods,
    model::{Query, buckets},
    policy,
};

fn policies() -> impl Strategy<Value = ArchivePolicy> {
    let granularities = prop::sample::subsequence(vec![1i64, 2, 5, 6, 10, 30, 60], 1..4);
    let methods = prop::sample::subsequence(methods(&[PLAIN, "37pct rate:mean rate:last"]), 1..9);
    (0u64..2, granularities, methods, prop::option::of(300i64..3000)).prop_map(
        |(back_window, granularities, methods, raw)| {
            let definition: Vec<_> = granularities.into_iter().map(|step| (step, None)).collect();
            let mut policy = policy(back_window, &definition, &methods);
            policy.raw_timespan = raw.map(Timespan);
            policy
        },
    )
}

#[derive(Clone, Debug)]
enum Event {
    /// Steps from point to point, and values.
    Request(Vec<(i64, i32)>),
    Move(ArchivePolicy),
    /// Repeats the last conversion from the data stored before it.
    Crash,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let points = prop::collection::vec((prop_oneof![8 => 1i64..4, 1 => 20i64..200], -20i32..20), 1..90);
    let event = prop_oneof![
        6 => points.prop_map(Event::Request),
        1 => policies().prop_map(Event::Move),
        1 => Just(Event::Crash),
    ];
    prop::collection::vec(event, 1..30)
}

/// The buckets of all points.
fn whole(points: &BTreeMap<i64, f64>, aggregation: Aggregation) -> BTreeMap<i64, u64> {
    buckets(points, aggregation).into_iter().collect()
}

/// Whether a value is independent of the passes: without raw points, percentiles and rates are not.
fn is_exact(method: AggregationMethod) -> bool {
    !method.rate && !matches!(method.statistic, Statistic::Percentile(_))
}

fn read(store: &Store, aggregation: Aggregation) -> Rows {
    store.read(aggregation, &Query::all()).unwrap()
}

/// Checks a metric after a move: every value is right, and the aggregations that the outcome promises exist.
fn check(
    store: &Store,
    policy: &ArchivePolicy,
    points: &BTreeMap<i64, f64>,
    moves: &[(i64, ArchivePolicy)],
) -> Result<(), TestCaseError> {
    for aggregation in aggregations(policy).into_iter().filter(|aggregation| is_exact(aggregation.method)) {
        let whole = whole(points, aggregation);
        let found: BTreeMap<i64, u64> = read(store, aggregation).into_iter().collect();
        for (start, value) in &found {
            prop_assert_eq!(whole.get(start), Some(value), "{:?} at {}", aggregation, start);
        }
        let Some((last_move, _)) = moves.last() else {
            prop_assert_eq!(found.len(), whole.len());
            continue;
        };
        // After one move, kept and composed aggregations reach back to the first point; the rest starts at
        // the next bucket.
        let step = aggregation.granularity.0;
        let from = match moves {
            [(at, old)] => {
                let origins = outcome(old, policy);
                let key = |(granularity, method, _): &&(Timespan, AggregationMethod, Origin)| {
                    (*granularity, *method) == (aggregation.granularity, aggregation.method)
                };
                match origins.iter().find(key).unwrap().2 {
                    Origin::Kept => 0,
                    Origin::Computed if old.raw_timespan.is_none() => 0,
                    Origin::Computed => at - old.raw_timespan.unwrap().0 + 60 + step,
                    Origin::Begins => at + step,
                }
            }
            _ => last_move + step,
        };
        for (start, value) in whole.range(from..) {
            prop_assert_eq!(
                found.get(start),
                Some(value),
                "{:?} lacks {} since {}",
                aggregation,
                start,
                from
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn moves_show_what_the_points_give(first in policies(), events in events()) {
        let (mut store, mut policy) = (Store::new(&first), first);
        let mut points: BTreeMap<i64, f64> = BTreeMap::new();
        let mut moves: Vec<(i64, ArchivePolicy)> = Vec::new();
        let mut before = None;
        for event in events {
            match event {
                Event::Request(steps) => {
                    let mut time = points.keys().next_back().copied().unwrap_or(5000);
                    let mut request = Vec::new();
                    for (step, value) in steps {
                        time += step;
                        request.push((time, f64::from(value)));
                    }
                    prop_assert_eq!(store.fold(&request).late, 0);
                    points.extend(request);
                    store.pass();
                    before = None;
                }
                Event::Move(new) => {
                    before = Some(store.clone());
                    store.convert(&new);
                    if let Some(last) = points.keys().next_back() {
                        moves.push((*last, policy));
                    }
                    policy = new;
                }
                Event::Crash => {
                    if let Some(before) = before.take() {
                        let converted = store.head.encoded();
                        store = before;
                        store.convert(&policy);
                        prop_assert_eq!(store.head.encoded(), converted);
                    }
                }
            }
            check(&store, &policy, &points, &moves)?;
        }
    }

    /// After a move, late points of a policy with raw points are merged, and measures can be removed.
    #[test]
    fn a_moved_metric_takes_late_points(
        first in policies(),
        second in policies(),
        request in prop::collection::vec((0i64..900, -20i32..20), 1..200),
        late in prop::collection::vec((0i64..400, -20i32..20), 1..50),
        removed in (0i64..900, 1i64..300),
    ) {
        let (mut first, mut second) = (first, second);
        first.raw_timespan = Some(Timespan(100_000));
        second.raw_timespan = first.raw_timespan;
        let mut store = Store::new(&first);
        let mut points: BTreeMap<i64, f64> = BTreeMap::new();
        let timed = |points: Vec<(i64, i32)>| -> BTreeMap<i64, f64> {
            points.into_iter().map(|(time, value)| (5000 + time, f64::from(value))).collect()
        };
        let pairs = |points: &BTreeMap<i64, f64>| points.iter().map(|(time, value)| (*time, *value)).collect::<Vec<_>>();
        let request = timed(request);
        store.fold(&pairs(&request));
        points.extend(request);
        store.convert(&second);
        let late = timed(late);
        prop_assert_eq!(store.fold(&pairs(&late)).late, 0);
        points.extend(late);
        store.pass();
        // With raw points all is exact, including rates; the last digits of percentiles depend on where they
        // are computed.
        let is_percentile =
            |aggregation: &Aggregation| matches!(aggregation.method.statistic, Statistic::Percentile(_));
        let compared: Vec<Aggregation> =
            aggregations(&second).into_iter().filter(|aggregation| !is_percentile(aggregation)).collect();
        for &aggregation in &compared {
            let whole: Rows = whole(&points, aggregation).into_iter().collect();
            prop_assert_eq!(read(&store, aggregation), whole, "{:?}", aggregation);
        }
        let (from, length) = removed;
        store.remove(5000 + from, 5000 + from + length);
        points.retain(|time, _| !(5000 + from..5000 + from + length).contains(time));
        for &aggregation in &compared {
            let whole: Rows = whole(&points, aggregation).into_iter().collect();
            prop_assert_eq!(read(&store, aggregation), whole, "{:?} after the removal", aggregation);
        }
    }
}

/// Points that were older than the timespan when they came are in no bucket: nothing is composed of the rest.
#[test]
fn a_bucket_is_not_composed_of_a_part_of_its_points() {
    let mut store = Store::new(&policy(0, &[(1, Some(100))], &["count"]));
    let points: Vec<(i64, f64)> = (6000..=6300).map(|time| (time, 1.0)).collect();
    store.fold(&points);
    let second = policy(0, &[(1, Some(100)), (60, None)], &["count"]);
    store.convert(&second);
    // The minute of 6180 lacks the points up to 6200.
    assert_eq!(read(&store, aggregations(&second)[1]), [(6240, bits(60.0)), (6300, bits(1.0))]);
}

/// Late points of buckets that are older than the timespan count in coarser granularities only: nothing is composed of
/// these buckets.
#[test]
fn a_bucket_is_not_composed_without_its_late_points() {
    for raw in [None, Some(Timespan(1000))] {
        let with = |definition: &[(i64, Option<i64>)]| {
            let mut policy = policy(0, definition, &["sum"]);
            (policy.raw_timespan, policy.recomputes_late) = (raw, true);
            policy
        };
        let mut store = Store::new(&with(&[(10, Some(50)), (600, None)]));
        for time in (105..=1005).step_by(10) {
            store.fold(&[(time, 1.0)]);
        }
        assert_eq!(store.fold(&[(107, 5.0)]).late, 0);
        store.pass();
        // Raw points expire meanwhile.
        for time in (1015..=2505).step_by(10) {
            store.fold(&[(time, 1.0)]);
        }
        let second = with(&[(10, Some(50)), (30, None), (600, None)]);
        store.convert(&second);
        let mut expected: Rows = (120..2490).step_by(30).map(|start| (start, bits(3.0))).collect();
        expected.push((2490, bits(2.0)));
        assert_eq!(read(&store, aggregations(&second)[1]), expected, "{raw:?}");
        assert_eq!(read(&store, aggregations(&second)[2])[0], (0, bits(55.0)));
    }
}

/// A bucket may be final because of its timespan while the window still takes its points.
#[test]
fn a_composed_bucket_takes_all_points_of_the_window() {
    let mut store = Store::new(&policy(10, &[(1, Some(5))], &["count"]));
    for time in (5001..=5030).filter(|time| *time != 5022) {
        store.fold(&[(time, 1.0)]);
    }
    let second = policy(0, &[(1, Some(5)), (60, None)], &["count"]);
    store.convert(&second);
    assert_eq!(read(&store, aggregations(&second)[1]), [(4980, bits(29.0))]);
    assert_eq!(store.fold(&[(5022, 1.0)]).late, 0);
    store.pass();
    assert_eq!(read(&store, aggregations(&second)[1]), [(4980, bits(30.0))]);
}

/// The newest points of a metric are removed after a move: the new granularity begins where it did, so nothing is composed
/// of a bucket's second half.
#[test]
fn a_granularity_begins_where_it_did_before_a_removal() {
    let request = |times: std::ops::Range<i64>| -> Vec<(i64, f64)> {
        times.step_by(10).map(|time| (time, 1.0)).collect()
    };
    let mut store = Store::new(&policy(0, &[(60, None)], &["count"]));
    store.fold(&request(6000..6350));
    store.pass();
    store.convert(&policy(0, &[(10, None)], &["count"]));
    store.fold(&request(6350..6600));
    store.pass();
    assert_eq!(store.head.known_from(Timespan(10)), Timestamp(6300));
    store.remove(6590, 6600);
    assert_eq!(store.head.known_from(Timespan(10)), Timestamp(6300));
    let second = policy(0, &[(10, None), (120, None)], &["count"]);
    store.convert(&second);
    assert_eq!(read(&store, aggregations(&second)[1]), [(6360, bits(12.0)), (6480, bits(11.0))]);
}

/// Nothing is known of a bucket in which a metric moved to methods that the former ones do not compose: it does not begin
/// again when later points are removed.
#[test]
fn a_bucket_of_unknown_points_is_final_after_a_removal() {
    let second = policy(0, &[(10, None), (60, None)], &["sum"]);
    let mut store = Store::new(&policy(0, &[(10, None)], &["last"]));
    store.fold(&[(125, 1.0), (131, 2.0), (145, 4.0)]);
    store.convert(&second);
    store.fold(&[(190, 8.0), (250, 16.0)]);
    store.remove(180, 300);
    assert_eq!(store.fold(&[(155, 32.0), (200, 1.0)]).late, 0);
    store.pass();
    let fine = [(140, 4.0), (150, 32.0), (200, 1.0)].map(|(start, sum)| (start, bits(sum)));
    assert_eq!(read(&store, aggregations(&second)[0]), fine);
    assert_eq!(read(&store, aggregations(&second)[1]), [(180, bits(1.0))]);
}

/// The point before the window is not known while no method needs it.
#[test]
fn a_method_that_comes_back_does_not_count_from_where_it_left() {
    let with = policy(0, &[(10, None)], &["max", "rate:max"]);
    let without = policy(0, &[(10, None)], &["max"]);
    let mut store = Store::new(&with);
    store.fold(&[(1000, 1.0), (1011, 2.0), (1025, 3.0)]);
    store.convert(&without);
    store.fold(&[(2000, 500.0)]);
    store.fold(&[(2005, 507.0)]);
    store.convert(&with);
    store.fold(&[(2012, 510.0)]);
    assert_eq!(read(&store, aggregations(&with)[1]), [(2000, bits(7.0)), (2010, bits(3.0))]);
}

/// A bucket that begins with the first known point has no rates after a move, but late points count in it.
#[test]
fn a_bucket_of_former_methods_takes_late_points() {
    for method in ["rate:mean", "increase", "rate_reset"] {
        check_late_points_after(method);
    }
}

/// Moves a metric whose first points are unknown to a policy with this method of differences.
fn check_late_points_after(rate: &str) {
    let mut first = policy(0, &[(10, None)], &["max"]);
    let mut store = Store::new(&first);
    let request = |times: std::ops::Range<i32>| -> Vec<(i64, f64)> {
        times.map(|time| (i64::from(2 * time), f64::from(time * time % 7))).collect()
    };
    let mut points: BTreeMap<i64, f64> = request(500..650).into_iter().collect();
    store.fold(&request(500..600));
    store.pass();
    // The window begins at 1190: earlier points are gone.
    first.raw_timespan = Some(Timespan(100_000));
    store.convert(&first);
    store.fold(&request(600..650));
    store.pass();
    assert_eq!(store.head.known_from(raw::GRANULARITY), Timestamp(1190));
    assert_eq!(store.head.known_from(Timespan(10)), Timestamp(0));
    let mut second = policy(0, &[(10, None)], &["max", rate]);
    second.raw_timespan = first.raw_timespan;
    store.convert(&second);
    let of = |name: &str| {
        let method = name.parse::<AggregationMethod>().unwrap();
        aggregations(&second).into_iter().find(|aggregation| aggregation.method == method).unwrap()
    };
    let check = |store: &Store, points: &BTreeMap<i64, f64>| {
        let max: Rows = whole(points, of("max")).into_iter().collect();
        assert_eq!(read(store, of("max")), max);
        let rates = whole(points, of(rate));
        let rates: Rows = rates.range(1200..).map(|(at, rate)| (*at, *rate)).collect();
        assert_eq!(read(store, of(rate)), rates, "{rate}");
    };
    check(&store, &points);
    let late = [(1191, 8.0), (1195, 9.0)];
    assert_eq!(store.fold(&late).late, 0);
    points.extend(late);
    store.pass();
    check(&store, &points);
    store.remove(1195, 1196);
    points.remove(&1195);
    check(&store, &points);
}
