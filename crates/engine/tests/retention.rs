//! Resources whose metrics get no measures end; resources that ended long ago are deleted.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use gnudi_drivers::{
    aggregates::{AggregateStore, memory::MemoryAggregates},
    incoming::{Append as _, Topology as _, memory::MemoryIncoming},
};
use gnudi_engine::{
    Engine,
    retention::{Activity, ClockTimes},
};
use gnudi_indexer::{
    MemoryIndexer, Metrics, MetricsChange, NewNamedMetric, NewResource, NewRevision, ResourceChange,
    ResourceListing, Resources, conformance::new_resource,
};
use gnudi_model::{Measure, MetricId, Resource, Timespan, Timestamp, resource_type::GENERIC};
use support::{batch_of, indexer, sacks, store::Tapped};
use uuid::Uuid;

const HOUR: i64 = 3600;
const INACTIVE_AFTER: Timespan = Timespan::from_secs(24 * HOUR);

fn at(hours: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + hours * HOUR)
}

/// By the clock, and since the machine's start.
fn moment(hours: i64, up_hours: u64) -> ClockTimes {
    ClockTimes { at: at(hours), up: Duration::from_hours(up_hours) }
}

struct Process {
    engine: Engine,
    indexer: Arc<MemoryIndexer>,
    incoming: Arc<MemoryIncoming>,
    activity: Activity,
}

impl Process {
    async fn new() -> Self {
        Process::on(Arc::new(MemoryAggregates::default())).await
    }

    async fn on(store: Arc<dyn AggregateStore>) -> Self {
        let indexer = indexer(0, "low").await;
        let incoming = Arc::new(MemoryIncoming::new(sacks(4), u64::MAX));
        let engine = Engine::new(indexer.clone(), incoming.clone(), store, || at(100));
        Process { engine, indexer, incoming, activity: Activity::new(INACTIVE_AFTER) }
    }

    /// A resource with this many metrics, created at `now`; the metrics' ids are its own plus 1, 2, ...
    async fn create(&self, id: u128, metrics: u128, now: Timestamp) {
        let metric = |number: u128| {
            let new = NewNamedMetric::new(MetricId(Uuid::from_u128(id + number)), "low");
            (format!("metric-{number}"), MetricsChange::Create(new))
        };
        let metrics = (1..=metrics).map(metric).collect();
        let resource = NewResource { started_at: now, metrics, now, ..new_resource(id) };
        self.indexer.create_resources(vec![resource]).await.pop().unwrap().unwrap();
    }

    /// Accepts a measure for a metric, and processes it if `processed`.
    async fn push(&self, metric: u128, processed: bool) {
        // A measure's timestamp is not its time of arrival.
        self.push_at(metric, Timestamp::from_secs(1_000_000), processed).await;
    }

    async fn push_at(&self, metric: u128, timestamp: Timestamp, processed: bool) {
        let metric = MetricId(Uuid::from_u128(metric));
        let point = [Measure { timestamp, value: 1.0 }];
        self.engine.append(batch_of([(metric, &point[..])])).await.unwrap();
        if processed {
            self.engine.refresh(&[metric], Duration::from_mins(1)).await.unwrap();
        }
    }

    /// Ends inactive resources; returns their number. The clock was never set.
    async fn end_inactive(&mut self, hours: i64) -> usize {
        self.end_inactive_at(moment(hours, hours.unsigned_abs())).await
    }

    async fn end_inactive_at(&mut self, now: ClockTimes) -> usize {
        self.engine.end_inactive_resources(&mut self.activity, now, || true).await.unwrap()
    }

    async fn end(&self, id: u128, ended_at: Timestamp) {
        let change = ResourceChange {
            ended_at: Some(Some(ended_at)),
            revision: NewRevision::IfChanged,
            now: ended_at,
            ..ResourceChange::default()
        };
        self.indexer.update_resource(GENERIC, Uuid::from_u128(id), change).await.unwrap();
    }

    async fn revisions(&self, id: u128) -> Vec<(Option<Timestamp>, Option<Timestamp>)> {
        let listing = ResourceListing { history: true, ..ResourceListing::of(GENERIC, at(0)) };
        let revisions = self.indexer.list_resources(&listing).await.unwrap();
        let own = revisions.iter().filter(|revision| revision.id == Uuid::from_u128(id));
        let mut own: Vec<_> = own.map(|revision| (revision.revision_end, revision.ended_at)).collect();
        own.sort_by_key(|(end, _)| end.unwrap_or(Timestamp(i64::MAX)));
        own
    }

    async fn resource(&self, id: u128) -> Option<Arc<Resource>> {
        self.indexer.resource(GENERIC, Uuid::from_u128(id)).await.unwrap()
    }

    async fn ended_at(&self, id: u128) -> Option<Timestamp> {
        self.resource(id).await.unwrap().ended_at
    }
}

#[tokio::test]
async fn a_deferred_measure_revokes_an_end_at_once() {
    let process = Process::on(Arc::new(Tapped::failing(Vec::new()).deferring(true))).await;
    process.create(1000, 2, at(0)).await;
    process.end(1000, at(5)).await;
    // A pass over the metric's sack: this metric has no measures.
    let of_same_sack = MetricId(Uuid::from_u128(2001));
    for (hour, goes_on) in [(4, false), (5, true)] {
        process.push_at(1001, at(hour), false).await;
        process.engine.refresh(&[of_same_sack], Duration::from_mins(1)).await.unwrap();
        assert_eq!(process.ended_at(1000).await.is_none(), goes_on);
    }
    assert_eq!(process.engine.figures().heads_written.load(Relaxed), 0);
    // A later end stays, though what is folded now was measured at its time.
    process.end(1000, at(5)).await;
    process.engine.sync_aggregates().await.unwrap();
    assert_eq!(process.engine.figures().heads_written.load(Relaxed), 1);
    assert_eq!(process.ended_at(1000).await, Some(at(5)));
}

#[tokio::test]
async fn resources_without_measures_end() {
    let mut process = Process::new().await;
    for id in [1000, 2000, 3000] {
        process.create(id, 2, at(0)).await;
    }
    process.create(4000, 0, at(0)).await;
    for id in [1001, 1002, 2001] {
        process.push(id, true).await;
    }
    for hours in [0, 12, 23] {
        assert_eq!(process.end_inactive(hours).await, 0, "{hours}");
        // Only one of 2000's metrics still gets measures.
        process.push(2002, true).await;
    }
    process.create(5000, 1, at(24)).await;
    assert_eq!(process.end_inactive(25).await, 2);
    assert_eq!(process.ended_at(1000).await, Some(at(25)), "measured long ago");
    assert_eq!(process.ended_at(3000).await, Some(at(25)), "never measured");
    assert_eq!(process.ended_at(2000).await, None, "one of its metrics was measured");
    assert_eq!(process.ended_at(4000).await, None, "it has no metrics");
    assert_eq!(process.ended_at(5000).await, None, "its metric is new");

    // Measures from before the end do not change the end; neither does another check.
    process.push(1001, true).await;
    assert_eq!(process.end_inactive(26).await, 0);
    assert_eq!(process.ended_at(1000).await, Some(at(25)));
}

#[tokio::test]
async fn the_heads_of_many_metrics_are_read_in_parts() {
    let reads = Arc::new(AtomicUsize::new(0));
    let seen = reads.clone();
    let mut process = Process::on(Arc::new(Tapped::new(move |call, writes| {
        seen.fetch_add(usize::from(call == "read_heads"), Relaxed);
        writes.len()
    })))
    .await;
    process.create(10_000, 2_500, at(0)).await;
    process.end_inactive(0).await;
    assert_eq!(process.end_inactive(25).await, 1);
    assert_eq!(reads.load(Relaxed), 3);
}

#[tokio::test]
async fn measures_that_wait_are_signs_of_life() {
    let mut process = Process::new().await;
    process.create(1000, 1, at(0)).await;
    process.end_inactive(0).await;
    process.push(1001, false).await;
    assert!(process.incoming.backlog().await.unwrap().measures > 0);
    assert_eq!(process.end_inactive(30).await, 0);
    assert_eq!(process.ended_at(1000).await, None);
}

#[tokio::test]
async fn marks_outlive_a_split() {
    let mut process = Process::new().await;
    for id in [1000, 2000] {
        process.create(id, 1, at(0)).await;
    }
    process.push(1001, true).await;
    assert_eq!(process.end_inactive(0).await, 0);
    process.push(2001, true).await;
    assert!(process.incoming.split().await.unwrap().draining);
    assert!(!process.incoming.settle().await.unwrap().draining);
    assert_eq!(process.end_inactive(12).await, 0);
    assert_eq!(process.end_inactive(25).await, 1);
    assert_eq!(process.ended_at(1000).await, Some(at(25)), "measured before the first mark");
    assert_eq!(process.ended_at(2000).await, None, "measured after the first mark, before the split");
    // The new sacks got nothing since the mark that was written after the split.
    assert_eq!(process.end_inactive(37).await, 1);
    assert_eq!(process.ended_at(2000).await, Some(at(37)));
}

#[tokio::test]
async fn a_young_process_ends_nothing() {
    let mut process = Process::new().await;
    process.create(1000, 1, at(0)).await;
    for hours in [100, 110, 123] {
        assert_eq!(process.end_inactive(hours).await, 0);
    }
    assert_eq!(process.end_inactive(125).await, 1);
}

#[tokio::test]
async fn a_clock_that_was_ahead_stops_nothing() {
    let mut process = Process::new().await;
    process.create(1000, 1, at(0)).await;
    for (clock, up) in [(1_000_000, 0), (1, 1), (13, 13)] {
        assert_eq!(process.end_inactive_at(moment(clock, up)).await, 0);
    }
    assert_eq!(process.end_inactive_at(moment(25, 25)).await, 1);
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_nothing() {
    let mut process = Process::new().await;
    process.create(1000, 1, at(0)).await;
    assert_eq!(process.end_inactive_at(moment(0, 0)).await, 0);
    process.create(2000, 1, at(2)).await;
    assert_eq!(process.end_inactive_at(moment(1_003, 3)).await, 0);
    assert_eq!(process.end_inactive_at(moment(1_025, 25)).await, 1);
    assert_eq!(process.ended_at(2000).await, None, "its metric is 23 hours old");
}

#[tokio::test]
async fn a_process_that_stops_ends_and_removes_nothing_more() {
    let mut process = Process::new().await;
    for id in [1000, 2000] {
        process.create(id, 1, at(0)).await;
    }
    process.end(1000, at(1)).await;
    process.end_inactive(0).await;
    let stopped = process.engine.end_inactive_resources(&mut process.activity, moment(25, 25), || false);
    assert_eq!(stopped.await.unwrap(), 0);
    assert_eq!(process.engine.remove_ended_resources(at(25), || false).await.unwrap(), 0);
    // The backlog is not applied any more either, so the resource stays.
    let asked = AtomicUsize::new(0);
    let once = || asked.fetch_add(1, Relaxed) == 0;
    assert_eq!(process.engine.remove_ended_resources(at(25), once).await.unwrap(), 0);
    assert!(process.resource(1000).await.is_some() && process.ended_at(2000).await.is_none());
    assert_eq!(process.engine.remove_ended_resources(at(25), || true).await.unwrap(), 1);
}

#[tokio::test]
async fn resources_that_ended_long_ago_go() {
    let process = Process::new().await;
    for id in [1000, 2000, 3000] {
        process.create(id, 1, at(0)).await;
    }
    process.end(1000, at(1)).await;
    process.end(2000, at(5)).await;
    assert_eq!(process.engine.remove_ended_resources(at(5), || true).await.unwrap(), 1);
    assert!(process.resource(1000).await.is_none());
    assert!(process.resource(2000).await.is_some(), "it ended just then");
    assert!(process.resource(3000).await.is_some());
    let metrics = process.indexer.deleted_metrics(None, 10).await.unwrap();
    assert_eq!(metrics, [MetricId(Uuid::from_u128(1001))]);
    assert_eq!(process.engine.expunge(10, || true).await.unwrap(), 1);
}

#[tokio::test]
async fn measures_from_the_end_on_take_it_back() {
    let process = Process::new().await;
    for id in [1000, 2000, 3000, 4000] {
        process.create(id, 2, at(0)).await;
        process.end(id, at(5)).await;
    }
    process.push_at(1001, Timestamp(at(5).0 - 1_000), true).await;
    process.push_at(2001, at(5), true).await;
    process.push_at(3002, at(6), true).await;
    assert_eq!(process.ended_at(1000).await, Some(at(5)), "its measure is from before");
    assert_eq!(process.ended_at(2000).await, None);
    assert_eq!(process.ended_at(3000).await, None);
    assert_eq!(process.ended_at(4000).await, Some(at(5)), "it got none");
    // The engine's clock is at 100 hours.
    let ended = [(Some(at(5)), None), (Some(at(100)), Some(at(5))), (None, None)];
    assert_eq!(process.revisions(2000).await, ended);
    process.push_at(2002, at(7), true).await;
    assert_eq!(process.revisions(2000).await.len(), 3);
    // In a request with an early and a late point the late one counts, also if another metric has it.
    process.push_at(1001, at(4), false).await;
    process.push_at(1002, at(9), false).await;
    process.push_at(1001, at(3), true).await;
    process.push_at(1002, at(3), true).await;
    assert_eq!(process.ended_at(1000).await, None);
}

#[tokio::test]
async fn an_end_that_is_only_now_known_is_taken_back() {
    let process = Process::new().await;
    process.create(1000, 1, at(0)).await;
    process.push_at(1001, at(1), true).await;
    process.end(1000, at(5)).await;
    process.push_at(1001, at(6), true).await;
    assert_eq!(process.ended_at(1000).await, None);
    process.end(1000, at(7)).await;
    assert_eq!(process.ended_at(1000).await, Some(at(7)));
    process.push_at(1001, at(8), true).await;
    assert_eq!(process.ended_at(1000).await, None);
}

#[tokio::test]
async fn a_resource_with_measures_that_wait_is_not_removed() {
    let process = Process::new().await;
    for id in [1000, 2000, 3000] {
        process.create(id, 1, at(0)).await;
        process.end(id, at(1)).await;
    }
    process.push_at(1001, at(50), false).await;
    process.push_at(2001, at(0), false).await;
    assert_eq!(process.engine.remove_ended_resources(at(60), || true).await.unwrap(), 2);
    assert_eq!(process.ended_at(1000).await, None);
    assert!(process.resource(2000).await.is_none(), "its measure was from before the end");
    assert!(process.resource(3000).await.is_none());
}
