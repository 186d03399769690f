//! Policies with raw points: any order and batching of requests, replays and crashes give the result of a
//! sorted list of the points.

mod support;

use std::collections::BTreeMap;

use gnudi_model::{ArchivePolicy, Measure, Timespan, Timestamp};
use gnudi_series::head::Head;
use proptest::prelude::*;
use support::{
    PLAIN, Rows, Store, aggregations, bits, definitions, methods,
    model::{Query, buckets, sorted},
    playing::{self, Model as _, events, play},
    policy,
};

const OTHERS: &str = "rate:mean rate:last rate:std rate:count increase rate_reset";

fn value() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        20 => (-20i32..20).prop_map(f64::from),
        2 => -1e3..1e3,
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, -0.0, f64::from_bits(Measure::END_MARKER)]),
    ]
}

fn policies() -> impl Strategy<Value = ArchivePolicy> {
    let methods = prop::sample::subsequence(methods(&[PLAIN, OTHERS]), 1..6);
    (0u64..3, definitions(), methods, 100i64..1500).prop_map(|(back_window, definition, methods, raw)| {
        let mut policy = policy(back_window, &definition, &methods);
        policy.raw_timespan = Some(Timespan(raw));
        policy
    })
}

/// The points that were accepted, in a map.
#[derive(Default)]
struct Model(BTreeMap<i64, f64>);

impl Model {
    /// The time before which points are late.
    fn reach(&self, policy: &ArchivePolicy) -> i64 {
        let Some(newest) = self.newest() else { return 0 };
        let block = policy.block_size().0;
        let window_blocks = policy.back_window as i64 + i64::from(policy.has_rate());
        let window = newest - newest % block - block * window_blocks;
        window.min(newest - policy.raw_timespan.unwrap().0)
    }

    fn raw(&self, policy: &ArchivePolicy) -> Vec<(i64, u64)> {
        let oldest = self.newest().unwrap_or_default() - policy.raw_timespan.unwrap().0;
        self.0.range(oldest + 1..).map(|(time, value)| (*time, value.to_bits())).collect()
    }
}

impl playing::Model for Model {
    fn points(&self) -> &BTreeMap<i64, f64> {
        &self.0
    }

    fn fold(&mut self, policy: &ArchivePolicy, request: &[(i64, f64)]) -> usize {
        let request = sorted(request);
        let reach = self.reach(policy);
        self.0.extend(request.range(reach..));
        request.range(..reach).count()
    }

    fn check_raw(&self, store: &Store, policy: &ArchivePolicy) -> Result<(), TestCaseError> {
        let raw = store.read_raw(None, None);
        let found: Vec<(i64, u64)> =
            raw.timestamps.iter().zip(&raw.values).map(|(time, value)| (time.0, value.to_bits())).collect();
        prop_assert_eq!(found, self.raw(policy));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn order_cuts_and_crashes_change_nothing(policy in policies(), events in events(value())) {
        play(&policy, events, &mut Model::default())?;
    }

    /// Removed points leave no trace, and a metric whose clock was ahead accepts measures again.
    #[test]
    fn what_is_removed_never_came(
        policy in policies(),
        steps in prop::collection::vec(
            (
                prop::collection::vec((-600i64..60, -20i32..20), 1..30),
                prop::option::of((-700i64..200, 0i64..400)),
                prop_oneof![4 => Just(0i64), 1 => 500i64..20_000],
            ),
            1..12,
        ),
    ) {
        let mut policy = policy;
        policy.raw_timespan = Some(Timespan(100_000));
        let (mut store, mut model) = (Store::new(&policy), Model::default());
        for (points, removed, jump) in steps {
            let base = model.newest().unwrap_or(100_000);
            let mut request: Vec<(i64, f64)> =
                points.into_iter().map(|(offset, value)| (base + offset, f64::from(value))).collect();
            if jump > 0 {
                request.push((base + jump, 1.0));
            }
            let outcome = store.fold(&request);
            prop_assert_eq!(outcome.late, model.fold(&policy, &request));
            // All from before the jump on, or a part of the past.
            let span = if jump > 0 { Some((base + 100, 300_000)) } else { removed.map(|(at, length)| (base + at, base + at + length)) };
            if let Some((from, to)) = span {
                store.remove(from, to);
                model.0.retain(|time, _| !(from..to).contains(time));
                model.check(&store, &policy)?;
            }
        }
        store.pass();
        model.check(&store, &policy)?;
    }

    /// Points older than the raw timespan are deleted, and late ones can still be merged.
    #[test]
    fn raw_points_expire(span in 50i64..500, points in 1000i64..4000, step in 1i64..20) {
        let mut policy = policy(0, &[(10, None), (60, None)], &["sum", "rate:last"]);
        policy.raw_timespan = Some(Timespan(span));
        let mut store = Store::new(&policy);
        for index in 0..points {
            store.fold(&[(1000 + index * step, index as f64)]);
            if index % 50 == 0 {
                store.pass();
            }
        }
        store.pass();
        let newest = 1000 + (points - 1) * step;
        let raw = store.read_raw(None, None);
        prop_assert!(raw.timestamps.iter().all(|time| time.0 > newest - span));
        // The timespan plus 1/32, whole blocks of up to 1,024 points, and the block before them.
        let kept: i64 = store.spans(Timespan(0)).iter().map(|(first, last)| (last.0 - first.0) / step + 1).sum();
        prop_assert!(kept <= span / step + span / 32 + 60 * 3 + 2 * 400, "{} of {}", kept, points);
    }
}

/// Without raw points final buckets are removed whole, and the metric continues after the last one left.
#[test]
fn a_clock_that_had_run_ahead_is_forgotten() {
    let policy = policy(0, &[(10, Some(1000)), (60, None)], &["sum", "rate:last"]);
    let mut store = Store::new(&policy);
    let rows = |store: &Store| -> Vec<Vec<i64>> {
        let of = |aggregation| store.read(aggregation, &Query::all()).unwrap();
        let starts = aggregations(&policy).into_iter().map(of);
        starts.map(|rows| rows.into_iter().map(|(start, _)| start).collect()).collect()
    };
    for second in (600..900).step_by(5) {
        store.fold(&[(second, second as f64)]);
    }
    store.fold(&[(1_000_000, 1.0)]);
    store.pass();
    assert_eq!(store.fold(&[(905, 1.0)]).late, 1);
    store.remove(895, 2_000_000);
    assert_eq!(rows(&store)[0], (600..890).step_by(10).chain([890]).collect::<Vec<_>>());
    // The minute of 840 is final; measures are accepted from its end on.
    assert_eq!((store.head.last(), store.head.newest()), (None, Some(Timestamp(899))));
    assert_eq!(store.fold(&[(899, 1.0), (905, 1.0), (961, 2.0)]).late, 1);
    store.pass();
    assert_eq!(rows(&store)[2], [600, 660, 720, 780, 840, 900, 960]);
    store.remove(0, 5_000_000);
    assert!(rows(&store).iter().all(Vec::is_empty));
    assert_eq!(store.head.newest(), None);
    assert_eq!(store.fold(&[(7, 1.0)]).late, 0);
    store.pass();
    assert_eq!(rows(&store)[2], [0]);
}

/// Buckets that were too old while the clock was ahead are computed once its point is removed: from blocks of raw points,
/// or, in a long window, from its points.
#[test]
fn buckets_that_count_again_are_computed() {
    for back_window in [0, 50] {
        let mut policy = policy(back_window, &[(10, Some(100)), (60, None)], &["sum", "rate:last"]);
        policy.raw_timespan = Some(Timespan(10_000));
        let (mut store, mut model) = (Store::new(&policy), Model::default());
        let times = |from: i32, to: i32| -> Vec<(i64, f64)> {
            (from..to).step_by(5).map(|time| (i64::from(time), f64::from(time % 7))).collect()
        };
        for request in [times(500, 1300), vec![(3000, 1.0)], times(1300, 1400)] {
            assert_eq!(store.fold(&request).late, model.fold(&policy, &request));
            store.pass();
        }
        store.remove(2000, 5000);
        model.0.retain(|time, _| *time < 2000);
        model.check(&store, &policy).unwrap();
        let request = times(1400, 1500);
        assert_eq!(store.fold(&request).late, model.fold(&policy, &request));
        store.pass();
        model.check(&store, &policy).unwrap();
    }
}

/// The same without blocks of raw points.
#[test]
fn buckets_of_the_window_that_count_again_are_computed() {
    let policy = policy(50, &[(10, Some(100)), (60, None)], &["sum"]);
    let mut store = Store::new(&policy);
    let times =
        |from: i64, to: i64| -> Vec<(i64, f64)> { (from..to).step_by(5).map(|time| (time, 1.0)).collect() };
    for request in [times(1000, 1300), vec![(3000, 1.0)], times(1300, 1400)] {
        assert_eq!(store.fold(&request).late, 0);
        store.pass();
    }
    store.remove(2000, 5000);
    let check = |store: &Store, from: i64, to: i64| {
        let rows: Rows = (from..to).step_by(10).map(|start| (start, bits(2.0))).collect();
        assert_eq!(store.read(aggregations(&policy)[0], &Query::all()), Ok(rows));
    };
    check(&store, 1300, 1400);
    assert_eq!(store.fold(&times(1400, 1410)).late, 0);
    store.pass();
    check(&store, 1310, 1410);
}

/// A bucket of one point has no std, but does not begin again when later points are removed.
#[test]
fn a_bucket_without_a_value_is_final_after_a_removal() {
    let policy = policy(0, &[(10, None)], &["std"]);
    let mut store = Store::new(&policy);
    for second in [605, 1_000_005, 2_000_005] {
        store.fold(&[(second, 1.0)]);
    }
    store.remove(700, 3_000_000);
    assert_eq!(store.fold(&[(607, 2.0), (608, 4.0), (705, 1.0), (707, 3.0)]).late, 0);
    store.pass();
    let std = store.read(aggregations(&policy)[0], &Query::all());
    assert_eq!(std, Ok(vec![(700, bits(2.0_f64.sqrt()))]));
}

#[test]
fn a_policy_that_gets_raw_points_takes_late_ones_from_then_on() {
    let mut policy = policy(0, &[(10, None)], &["sum"]);
    let mut store = Store::new(&policy);
    store.fold(&[(100, 1.0), (111, 1.0), (112, 2.0)]);
    store.pass();
    policy.raw_timespan = Some(Timespan(1000));
    store.layout = gnudi_series::head::Layout::of(&policy);
    assert_eq!(store.fold(&[(105, 7.0), (131, 1.0)]).late, 1);
    store.pass();
    // The bucket of 110 had all its points when raw points began.
    assert_eq!(store.fold(&[(113, 4.0), (109, 7.0)]).late, 1);
    store.pass();
    let aggregation = aggregations(&policy)[0];
    let rows: Vec<(i64, f64)> = store
        .read(aggregation, &Query::all())
        .unwrap()
        .into_iter()
        .map(|(start, sum)| (start, f64::from_bits(sum)))
        .collect();
    assert_eq!(rows, [(100, 1.0), (110, 7.0), (130, 1.0)]);
    let raw = store.read_raw(Some(Timestamp(112)), Some(Timestamp(131)));
    assert_eq!(raw.timestamps, [Timestamp(112), Timestamp(113)]);
    assert!(Head::decode(&store.head.encoded()).is_ok());
}

#[test]
fn a_longer_raw_timespan_takes_no_point_whose_neighbours_have_expired() {
    let mut policy = policy(0, &[(10, None)], &["count"]);
    policy.raw_timespan = Some(Timespan(500));
    let mut store = Store::new(&policy);
    for start in (1000..9000).step_by(100) {
        let request: Vec<(i64, f64)> = (start..start + 100).map(|time| (time, 1.0)).collect();
        store.fold(&request);
        store.pass();
    }
    policy.raw_timespan = Some(Timespan(5000));
    store.convert(&policy);
    assert_eq!(store.fold(&[(5005, 1.0), (8705, 1.0)]).late, 1);
    store.pass();
    let whole: Rows = (1000..9000).step_by(10).map(|start| (start, bits(10.0))).collect();
    assert_eq!(store.read(aggregations(&policy)[0], &Query::all()), Ok(whole));
}

#[test]
fn a_late_point_in_the_first_bucket_of_raw_points_leaves_its_rates() {
    let mut policy = policy(0, &[(10, None)], &["rate:mean", "increase", "max"]);
    let mut store = Store::new(&policy);
    let request = |times: std::ops::Range<i32>| -> Vec<(i64, f64)> {
        times.step_by(3).map(|time| (i64::from(time), f64::from(time * time % 50))).collect()
    };
    let (first, second, late) = (request(100..136), request(136..170), [(122, 60.0)]);
    store.fold(&first);
    store.pass();
    policy.raw_timespan = Some(Timespan(1000));
    store.convert(&policy);
    assert_eq!(store.fold(&second).late, 0);
    store.pass();
    // The bucket of 120 is final, and the point of 118 is the one before it.
    assert_eq!(store.fold(&late).late, 0);
    store.pass();
    let all = sorted(&[first, second, late.to_vec()].concat());
    for aggregation in aggregations(&policy) {
        assert_eq!(
            store.read(aggregation, &Query::all()).unwrap(),
            buckets(&all, aggregation),
            "{aggregation:?}"
        );
    }
}

/// After a loss, points from before it may be missing: their buckets are not computed again from what is left.
#[test]
fn late_points_from_before_a_loss_replace_no_bucket() {
    let mut policy = policy(0, &[(10, None)], &["count"]);
    policy.raw_timespan = Some(Timespan(1000));
    let mut store = Store::new(&policy);
    for times in [1000..2400, 2400..3100] {
        let request: Vec<(i64, f64)> = times.step_by(5).map(|time| (time, 1.0)).collect();
        store.fold(&request);
        store.pass();
    }
    // The buckets up to 3080 are in blocks, but the points from 2390 on were in the head.
    store.head = Head::after_loss(Timestamp(3150));
    store.fold(&[(3160, 1.0), (3175, 1.0), (3200, 1.0)]);
    store.pass();
    assert_eq!(store.fold(&[(2502, 1.0), (3165, 1.0)]).late, 1);
    store.pass();
    let mut whole: Rows = (1000..3090).step_by(10).map(|start| (start, bits(2.0))).collect();
    whole.extend([(3160, bits(2.0)), (3170, bits(1.0)), (3200, bits(1.0))]);
    assert_eq!(store.read(aggregations(&policy)[0], &Query::all()), Ok(whole));
}

/// Raw points that begin after a loss have no earlier ones.
#[test]
fn raw_points_that_begin_after_a_loss_take_late_ones_from_then_on() {
    let mut policy = policy(0, &[(10, None)], &["sum"]);
    let mut store = Store::new(&policy);
    store.head = Head::after_loss(Timestamp(500));
    let request: Vec<(i64, f64)> = (1000..1100).map(|time| (time, 1.0)).collect();
    store.fold(&request);
    policy.raw_timespan = Some(Timespan(1000));
    store.convert(&policy);
    store.fold(&[(1100, 1.0)]);
    store.pass();
    assert_eq!(store.fold(&[(1005, 1.0), (1095, 3.0)]).late, 1);
    store.pass();
    let mut whole: Rows = (1000..1090).step_by(10).map(|start| (start, bits(10.0))).collect();
    whole.extend([(1090, bits(12.0)), (1100, bits(1.0))]);
    assert_eq!(store.read(aggregations(&policy)[0], &Query::all()), Ok(whole));
}

#[test]
fn a_removal_of_the_newest_points_shows_no_expired_ones() {
    let mut policy = policy(0, &[(10, None)], &["sum"]);
    policy.raw_timespan = Some(Timespan(500));
    let mut store = Store::new(&policy);
    for times in [1000..1400, 2000..2400, 2450..2451] {
        let request: Vec<(i64, f64)> = times.map(|time| (time, 1.0)).collect();
        store.fold(&request);
    }
    // All that is left is in blocks; the first one has expired, and is deleted after the next.
    store.remove(2390, 3000);
    assert_eq!(store.spans(Timespan(0)).len(), 2);
    assert!(store.read_raw(None, Some(Timestamp(1300))).timestamps.is_empty());
    assert_eq!(store.read_raw(None, None).timestamps.first(), Some(&Timestamp(2000)));
}
