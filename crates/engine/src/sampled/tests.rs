//! Tests of the segments and columns of samples.

use std::collections::BTreeSet;

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Timespan, Timestamp};

use super::{
    query::Columns,
    segments::{self, segments},
    *,
};

const SECOND: i64 = 1_000_000_000;

fn policy(raw: Option<i64>, items: &[(i64, Option<i64>)], methods: &[&str]) -> ArchivePolicy {
    let item = |(granularity, timespan): &(i64, Option<i64>)| {
        let span = |seconds: i64| Timespan(seconds * SECOND);
        ArchivePolicyItem::new(Some(span(*granularity)), None, timespan.map(span)).unwrap()
    };
    let methods: BTreeSet<AggregationMethod> = methods.iter().map(|name| name.parse().unwrap()).collect();
    let mut policy =
        ArchivePolicy::new("p".to_owned(), 0, items.iter().map(item).collect(), methods).unwrap();
    policy.raw_timespan = raw.map(|seconds| Timespan(seconds * SECOND));
    policy
}

fn query(start: i64, end: i64) -> SampleQuery {
    SampleQuery {
        start_ms: start * 1000,
        end_ms: end * 1000,
        lookback_ms: None,
        looks_ahead: false,
        stamp: Stamp::Start,
        values: Values::Usual,
        granularity: None,
        resolution: Resolution::Finest,
    }
}

/// Granularity (0 for raw points), first and last whole second, oldest first.
fn found(policy: &ArchivePolicy, newest: i64, query: &SampleQuery) -> Vec<(i64, i64, i64)> {
    found_from(policy, newest, &[], query)
}

/// The same of a metric that has some granularities only since a second.
fn found_from(
    policy: &ArchivePolicy,
    newest: i64,
    known_from: &[(i64, i64)],
    query: &SampleQuery,
) -> Vec<(i64, i64, i64)> {
    let known_from = |granularity: Timespan| {
        let known = known_from.iter().find(|(of, _)| of * SECOND == granularity.0);
        Timestamp(known.map_or(i64::MIN, |(_, from)| from * SECOND))
    };
    let granularities = segments::candidates(policy, query);
    let found = segments(policy, &granularities, Timestamp(newest * SECOND), known_from, query);
    let granularity =
        |segment: &segments::Segment| segment.buckets.map_or(0, |item| item.granularity.0 / SECOND);
    let second = |time: Timestamp| time.0.div_euclid(SECOND);
    found.iter().map(|segment| (granularity(segment), second(segment.from), second(segment.to))).collect()
}

#[test]
fn what_has_expired_comes_from_the_next() {
    let policy = policy(Some(100), &[(60, Some(7200)), (3600, None)], &["mean"]);
    // Raw points cover everything.
    assert_eq!(found(&policy, 10_000, &query(9_950, 10_000)), [(0, 9_950, 10_000)]);
    // Minutes before that: the first whole minute after 9,900 is at 9,900, which has just expired, so they
    // change at 9,960.
    assert_eq!(found(&policy, 10_000, &query(9_700, 10_000)), [(60, 9_700, 9_960), (0, 9_960, 10_000)]);
    // Hours before that: minutes are kept after 7,800, but an hour is read as a whole.
    let all = [(3600, 0, 10_800), (60, 10_800, 14_940), (0, 14_940, 15_000)];
    assert_eq!(found(&policy, 15_000, &query(0, 15_000)), all);
    // An explicit request excludes other sources.
    let minutes = SampleQuery { granularity: Some(Timespan(60 * SECOND)), ..query(0, 15_000) };
    assert_eq!(found(&policy, 15_000, &minutes), [(60, 7_800, 15_000)]);
    let mean = SampleQuery { values: Values::Exactly("mean".parse().unwrap()), ..query(0, 15_000) };
    assert_eq!(found(&policy, 15_000, &mean), [(3600, 0, 10_800), (60, 10_800, 15_000)]);
}

/// After a move to a policy with finer sources.
#[test]
fn what_came_before_a_source_comes_from_the_next() {
    let policy = policy(Some(100_000), &[(60, Some(50_000)), (3600, None)], &["mean"]);
    let of = |known_from: &[(i64, i64)]| found_from(&policy, 15_000, known_from, &query(0, 15_000));
    assert_eq!(of(&[]), [(0, 0, 15_000)]);
    assert_eq!(of(&[(0, 14_000)]), [(60, 0, 14_040), (0, 14_040, 15_000)]);
    assert_eq!(
        of(&[(0, 14_000), (60, 10_000)]),
        [(3600, 0, 10_800), (60, 10_800, 14_040), (0, 14_040, 15_000)]
    );
    // The next pass adds the minutes.
    let never = i64::MAX / SECOND;
    assert_eq!(of(&[(0, 14_000), (60, never)]), [(3600, 0, 14_400), (0, 14_400, 15_000)]);
    assert_eq!(
        of(&[(0, 14_000), (60, never), (3600, 12_000)]),
        [(3600, 12_000, 14_400), (0, 14_400, 15_000)]
    );
}

#[test]
fn no_bucket_counts_beside_a_part_of_itself() {
    // Minutes are kept after 6,360, and a bucket of each begins every 300 s.
    let uneven = policy(None, &[(60, Some(3600)), (100, None)], &["sum"]);
    assert_eq!(found(&uneven, 10_000, &query(0, 10_000)), [(100, 0, 6600), (60, 6600, 10_000)]);
    // The query ends before that.
    assert_eq!(found(&uneven, 10_000, &query(0, 6500)), [(100, 0, 6400), (60, 6400, 6500)]);
    // Every 59 hours is too rare.
    let odd = policy(None, &[(59, Some(86_400)), (3600, None)], &["sum"]);
    assert_eq!(found(&odd, 100_000, &query(0, 100_000)), [(3600, 0, 14_400), (59, 14_400, 100_000)]);
    // Minutes may be kept longer than hours: an hour that has begun before the border is not read.
    let fine = policy(None, &[(60, None), (3600, Some(7200))], &["sum"]);
    let hours = Resolution::AtMost(Timespan(3600 * SECOND));
    let coarse_first = SampleQuery { resolution: hours, ..query(0, 15_000) };
    assert_eq!(found(&fine, 15_000, &coarse_first), [(60, 0, 10_800), (3600, 10_800, 15_000)]);
}

#[test]
fn buckets_beyond_the_borders_are_read_for_as_long_as_they_count() {
    let policy = policy(None, &[(3600, None)], &["mean"]);
    // Times include five minutes on each side of 10,800.
    let counting = SampleQuery { lookback_ms: Some(300_000), ..query(10_500, 11_100) };
    // An hour's sample counts for two hours.
    assert_eq!(found(&policy, 100_000, &counting), [(3600, 3600, 11_100)]);
    let at_ends = SampleQuery { stamp: Stamp::End, ..counting.clone() };
    assert_eq!(found(&policy, 100_000, &at_ends), [(3600, 0, 11_100)]);
    let ahead = SampleQuery { looks_ahead: true, ..counting };
    assert_eq!(found(&policy, 100_000, &ahead), [(3600, 3600, 18_000)]);
}

#[test]
fn buckets_are_as_fine_as_is_needed() {
    let policy = policy(None, &[(300, None), (60, None), (3600, None)], &["mean"]);
    let with = |resolution| found(&policy, 7200, &SampleQuery { resolution, ..query(0, 7200) })[0].0;
    assert_eq!(with(Resolution::Finest), 60);
    let at_most = |seconds: i64| with(Resolution::AtMost(Timespan(seconds * SECOND)));
    assert_eq!([30, 60, 299, 300, 3599, 3600, 100_000].map(at_most), [60, 60, 60, 300, 300, 3600, 3600]);
    let divides = |first_end: i64, step: i64, range: i64| {
        let (first_end_ms, step_ms, range_ms) = (first_end * 1000, step * 1000, range * 1000);
        with(Resolution::Divides { first_end_ms, step_ms, range_ms })
    };
    assert_eq!(divides(7200, 0, 3600), 3600);
    assert_eq!(divides(7200, 600, 3600), 300);
    assert_eq!(divides(7201, 600, 3600), 60);
    assert_eq!(divides(7200, 3600, 90), 60);
}

#[test]
fn columns_are_those_that_are_stored() {
    let columns = |methods: &[&str], values| {
        let columns = Columns::of(&policy(None, &[(60, None)], methods), values)?;
        Some((columns.value.to_string(), columns.count.map(|count| count.to_string()), columns.is_mean))
    };
    let plain = |name: &str| Some((name.to_owned(), None, false));
    let counted = |name: &str, is_mean| Some((name.to_owned(), Some("count".to_owned()), is_mean));
    assert_eq!(columns(&["max", "mean", "last"], Values::Usual), plain("mean"));
    assert_eq!(columns(&["max", "last"], Values::Usual), plain("last"));
    assert_eq!(columns(&["95pct"], Values::Usual), plain("95pct"));
    assert_eq!(columns(&["max", "mean"], Values::Maximum), plain("max"));
    assert_eq!(columns(&["mean"], Values::Maximum), plain("mean"));
    assert_eq!(columns(&["mean", "sum", "count"], Values::SumAndCount), counted("sum", false));
    assert_eq!(columns(&["mean", "count"], Values::SumAndCount), counted("mean", true));
    assert_eq!(columns(&["mean", "count"], Values::Sum), counted("mean", true));
    assert_eq!(columns(&["mean", "count"], Values::Count), counted("count", false));
    assert_eq!(columns(&["mean"], Values::Count), plain("mean"));
    assert_eq!(columns(&["mean"], Values::Exactly("max".parse().unwrap())), None);
}
