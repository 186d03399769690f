//! Folding and reading back, step by step.

use gnudi_model::{
    Aggregation, AggregationMethod, ArchivePolicy, ArchivePolicyItem, Measure, Timespan, Timestamp,
};
use gnudi_series::{
    block,
    head::{Head, Layout},
    read::{self, ReadRange},
    resample::Resample,
};

fn points(points: &[(i64, f64)]) -> Vec<Measure> {
    points.iter().map(|&(time, value)| Measure { timestamp: Timestamp::from_secs(time), value }).collect()
}

fn read_all(head: &Head, layout: &Layout, aggregation: Aggregation) -> Vec<(i64, f64)> {
    let series = read::assemble(&[], Some(head), layout, aggregation, ReadRange::default()).unwrap();
    series.timestamps.iter().map(|time| time.secs()).zip(series.values).collect()
}

#[test]
fn late_points_are_dropped_and_replays_ignored() {
    let policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(1);
    let layout = Layout::of(&policy);
    let mean = policy.aggregation("mean".parse().unwrap(), Timespan::from_secs(300)).unwrap();
    let mut head = Head::new();
    let outcome = head.fold(&layout, 3, &mut points(&[(700, 4.0), (10, 1.0), (20, 2.0), (600, 2.0)]));
    assert_eq!((outcome.accepted, outcome.late), (4, 0));
    assert_eq!(read_all(&head, &layout, mean), [(0, 1.5), (600, 3.0)]);
    let outcome = head.fold(&layout, 4, &mut points(&[(599, 9.0), (650, 9.0)]));
    assert_eq!((outcome.accepted, outcome.late), (1, 1));
    assert_eq!(read_all(&head, &layout, mean), [(0, 1.5), (600, 5.0)]);
    let mut back = Head::decode(&head.encoded()).unwrap();
    assert_eq!(back.fold(&layout, 4, &mut points(&[(660, 9.0)])).accepted, 0);
    assert_eq!(read_all(&back, &layout, mean), [(0, 1.5), (600, 5.0)]);
    assert_eq!(back.applied(), 4);
    assert_eq!(back.last(), Some(Timestamp::from_secs(700)));
}

/// A new metric of a policy with one granularity, in seconds, and its aggregations.
fn metric<const N: usize>(
    granularity: i64,
    timespan: Option<i64>,
    methods: [&str; N],
) -> (Layout, [Aggregation; N], Head) {
    let granularity = Timespan::from_secs(granularity);
    let timespan = timespan.map(Timespan::from_secs);
    let definition = vec![ArchivePolicyItem { timespan, ..ArchivePolicyItem::unlimited(granularity) }];
    let methods: [AggregationMethod; N] = methods.map(|name| name.parse().unwrap());
    let policy = ArchivePolicy::new("p".to_owned(), 0, definition, methods.into()).unwrap();
    let aggregations = methods.map(|method| policy.aggregation(method, granularity).unwrap());
    (Layout::of(&policy), aggregations, Head::new())
}

/// A pass that starts at a bucket does not compute the rate of its first point if the point before is too far
/// back. Values that the bucket then lacks keep their previous values, as in Gnocchi.
#[test]
fn a_bucket_keeps_the_rate_that_it_would_lose() {
    let (layout, [last, std], mut head) = metric(10, None, ["rate:last", "rate:std"]);
    head.fold(&layout, 1, &mut points(&[(105, 0.0), (131, 2.0), (133, 8.0)]));
    assert_eq!(read_all(&head, &layout, last), [(130, 6.0)]);
    let kept = read_all(&head, &layout, std);
    assert_eq!(kept, [(130, 8f64.sqrt())]);
    head.fold(&layout, 2, &mut points(&[(133, 9.0)]));
    assert_eq!(read_all(&head, &layout, last), [(130, 7.0)]);
    assert_eq!(read_all(&head, &layout, std), kept);
    let back = Head::decode(&head.encoded()).unwrap();
    assert_eq!(read_all(&back, &layout, std), kept);
}

#[test]
fn open_rows_that_expired_are_not_sealed() {
    let (layout, _, mut head) = metric(1, Some(10), ["sum"]);
    head.fold(&layout, 1, &mut points(&[(100, 1.0), (101, 1.0), (102, 1.0)]));
    assert!(!head.expiry_moved());
    for position in 0..64 {
        head.fold(&layout, 2 + position, &mut points(&[(20_000 + position as i64, 1.0)]));
    }
    assert!(head.expiry_moved());
    let second = Timespan::from_secs(1);
    assert_eq!(head.oldest_kept(second), Some(Timestamp::from_secs(18_000)));
    let sealed = head.take_sealed();
    assert_eq!(sealed.len(), 1);
    assert_eq!((sealed[0].first.secs(), sealed[0].last.secs()), (20_000, 20_056));
}

#[test]
fn sealing_cuts_what_one_request_brings() {
    let (layout, [sum, _], mut head) = metric(1, None, ["sum", "std"]);
    let many: Vec<_> = (0..3000).map(|second| (100 + second, second as f64)).collect();
    head.fold(&layout, 1, &mut points(&many));
    let sealed = head.take_sealed();
    let rows: Vec<usize> = sealed.iter().map(|block| block::extent(&block.bytes).unwrap().rows).collect();
    assert_eq!(rows, [1024, 1024, 951]);
    let blocks: Vec<_> = sealed.iter().map(|block| (block.first, block.last, &block.bytes[..])).collect();
    let series = read::assemble(&blocks, Some(&head), &layout, sum, ReadRange::default()).unwrap();
    assert_eq!(series.values, many.iter().map(|(_, value)| *value).collect::<Vec<_>>());
}

/// A reader may read a head and then blocks of a later pass, with rows that the head still contains.
#[test]
fn rows_that_are_seen_twice_count_once() {
    let (layout, [sum], mut head) = metric(1, None, ["sum"]);
    let first: Vec<_> = (0..40).map(|second| (100 + second, 1.0)).collect();
    head.fold(&layout, 1, &mut points(&first));
    let old = head.clone();
    let more: Vec<_> = (40..100).map(|second| (100 + second, 1.0)).collect();
    head.fold(&layout, 2, &mut points(&more));
    let sealed = head.take_sealed();
    let blocks: Vec<_> = sealed.iter().map(|block| (block.first, block.last, &block.bytes[..])).collect();
    let twice = [&blocks[..], &blocks[..]].concat();
    let series = read::assemble(&twice, Some(&old), &layout, sum, ReadRange::default()).unwrap();
    let seconds: Vec<i64> = series.timestamps.iter().map(|time| time.secs()).collect();
    assert_eq!(seconds, (100..199).collect::<Vec<_>>());
}

/// As in Gnocchi, where such a query reads no split. With a resample, the bucket of `start` would otherwise
/// begin before `stop`.
#[test]
fn a_query_that_stops_before_it_starts_is_empty() {
    let (layout, [sum], mut head) = metric(1, None, ["sum"]);
    head.fold(&layout, 1, &mut points(&[(7199, 1.0), (7200, 1.0)]));
    let (start, stop) = (Some(Timestamp::from_secs(7200)), Some(Timestamp::from_secs(7199)));
    let resample = Some(Resample::Span(Timespan::from_secs(7)));
    let range = ReadRange { start, stop, resample };
    let series = read::assemble(&[], Some(&head), &layout, sum, range).unwrap();
    assert_eq!(series.timestamps, []);
    let (from, to) = read::block_range(sum, range);
    assert!(from <= to);
}

/// The bucket of the last nanosecond ends beyond the range of time.
#[test]
fn the_end_of_time_has_a_bucket() {
    let (layout, [count], mut folded) = metric(300, None, ["count"]);
    let at = |timestamp| Measure { timestamp, value: 1.0 };
    let mut points = vec![at(Timestamp(i64::MAX - 1)), at(Timestamp::MAX)];
    let (imported, _) = Head::import(&layout, None, points.clone(), &[]);
    folded.fold(&layout, 1, &mut points);
    for head in [folded, imported] {
        let bucket = Timestamp::MAX.floor(Timespan::from_secs(300));
        assert_eq!(read_all(&head, &layout, count), [(bucket.secs(), 2.0)]);
    }
}
