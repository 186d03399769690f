//! Panics caused by defects: their effect, and how they are reported.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use gnudi_drivers::{
    aggregates::AggregateStore as _,
    incoming::{Append as _, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::{Fault, Measure, Timespan, Timestamp};
use gnudi_series::head::{FoldOutcome, Head, Layout};
use support::{batch_of, indexer, metric, point, sacks, store::Tapped, wait::until};

const BAD: f64 = 13.0;

fn fold(head: &mut Head, layout: &Layout, position: u64, points: &mut Vec<Measure>) -> FoldOutcome {
    assert!(points.iter().all(|point| point.value != BAD), "as planned");
    head.fold(layout, position, points)
}

struct Process {
    engine: Arc<Engine>,
    incoming: Arc<MemoryIncoming>,
    store: Arc<Tapped>,
    /// How many of the next reads of heads panic.
    panics: Arc<AtomicU32>,
}

/// Three metrics in one sack.
async fn process() -> Process {
    let panics = Arc::new(AtomicU32::new(0));
    let left = panics.clone();
    let store = Arc::new(Tapped::new(move |call, writes| {
        let panics = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(call != "read_heads" || panics().is_err(), "as planned");
        writes.len()
    }));
    let (indexer, incoming) = (indexer(3, "low").await, Arc::new(MemoryIncoming::new(sacks(1), u64::MAX)));
    let engine = Engine::new(indexer, incoming.clone(), store.clone(), || Timestamp::EPOCH).folding(fold);
    Process { engine: Arc::new(engine), incoming, store, panics }
}

impl Process {
    async fn append(&self, number: u128, second: i64, value: f64) {
        self.engine.append(batch_of([(metric(number), &[point(second, value)][..])])).await.unwrap();
    }

    /// The newest point in the metric's head.
    async fn newest(&self, number: u128) -> Option<i64> {
        let head = self.store.read_heads(&[metric(number)]).await.remove(0).unwrap()?;
        Head::decode(&head).unwrap().last().map(Timestamp::secs)
    }

    async fn worked_off(&self) {
        until("the sack is empty", async || self.incoming.backlog().await.unwrap().measures == 0).await;
    }
}

fn options() -> MetricdOptions {
    MetricdOptions { workers: 1, ..support::options("test", Duration::from_hours(1)) }
}

#[tokio::test]
async fn a_request_whose_fold_panics_costs_no_other() {
    let process = process().await;
    for (number, second, value) in
        [(0, 10, 1.0), (1, 10, 1.0), (1, 20, BAD), (2, 10, 1.0), (0, 30, 1.0), (1, 30, 1.0)]
    {
        process.append(number, second, value).await;
    }
    let metricd = Metricd::start(process.engine.clone(), &options());
    process.worked_off().await;
    for number in 0..3 {
        assert_eq!(process.newest(number).await, Some(if number == 2 { 10 } else { 30 }), "metric {number}");
    }
    let figures = process.engine.figures();
    assert_eq!(figures.measures_set_aside.load(Ordering::Relaxed), 1);
    assert_eq!(figures.measures_folded.load(Ordering::Relaxed), 5);
    // Also if no point of the metric is left.
    process.append(2, 40, BAD).await;
    process.append(0, 40, 1.0).await;
    process.worked_off().await;
    assert_eq!((process.newest(0).await, process.newest(2).await), (Some(40), Some(10)));
    assert_eq!(figures.measures_set_aside.load(Ordering::Relaxed), 2);
    assert_eq!(process.engine.cluster().await.unwrap().measures_set_aside, 2, "for the operator");
    assert_eq!(process.engine.faults(), []);
    metricd.stop().await;
}

#[tokio::test]
async fn a_worker_outlives_a_pass_that_panics() {
    let process = process().await;
    process.panics.store(1, Ordering::Relaxed);
    process.append(0, 10, 1.0).await;
    let metricd = Metricd::start(process.engine.clone(), &options());
    process.worked_off().await;
    assert_eq!(process.newest(0).await, Some(10));
    assert_eq!(process.engine.faults(), []);
    metricd.stop().await;
}

#[tokio::test]
async fn a_task_that_ends_is_reported() {
    fn clock() -> Timestamp {
        panic!("as planned")
    }
    let process = process().await;
    // The janitor reads the clock.
    let janitor = MetricdOptions {
        cleanup_delay: Duration::from_millis(1),
        resource_cleanup_after: Some(Timespan::from_secs(1)),
        clock,
        ..options()
    };
    let metricd = Metricd::start(process.engine.clone(), &janitor);
    until("a fault is reported", async || !process.engine.faults().is_empty()).await;
    assert_eq!(process.engine.faults(), [Fault::Ended("a task of the workers")]);
    metricd.stop().await;
    assert_eq!(process.engine.faults(), [], "it was told to stop");
}
