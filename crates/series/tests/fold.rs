//! Folding and reading back, step by step.

use gnudi_model::{Aggregation, ArchivePolicy, Measure, Timespan, Timestamp};
use gnudi_series::{
    head::{Head, Layout},
    read,
};

fn points(points: &[(i64, f64)]) -> Vec<Measure> {
    points.iter().map(|&(time, value)| Measure { timestamp: Timestamp::from_secs(time), value }).collect()
}

fn read_all(head: &Head, layout: &Layout, aggregation: Aggregation) -> Vec<(i64, f64)> {
    let series = read::assemble(&[], Some(head), layout, aggregation, None, None, None).unwrap();
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
    let mut bytes = Vec::new();
    head.encode(&mut bytes);
    let mut back = Head::decode(&bytes).unwrap();
    assert_eq!(back.fold(&layout, 4, &mut points(&[(660, 9.0)])).accepted, 0);
    assert_eq!(read_all(&back, &layout, mean), [(0, 1.5), (600, 5.0)]);
    assert_eq!(back.applied(), 4);
    assert_eq!(back.last(), Some(Timestamp::from_secs(700)));
}
