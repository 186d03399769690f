//! Deferred measures: readers see what they would see without, and nothing is lost or counted twice.

mod support;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gnudi_drivers::incoming::{Append as _, Batch, memory::MemoryIncoming};
use gnudi_engine::{Engine, LastMeasure};
use gnudi_indexer::{ArchivePolicies as _, Metrics as _, NewMetric};
use gnudi_model::{MetricId, Statistic, Timestamp};
use gnudi_series::removal;
use proptest::prelude::*;
use support::{
    Process, batch_of, delete, indexer, metric, point, points_at, sacks, store::Tapped, wait::block_on,
};
use uuid::Uuid;

const METRICS: usize = 4;

async fn remove(process: &Process, metric: usize, span: std::ops::Range<i64>) {
    let mut batch = Batch::default();
    let span = Timestamp::from_secs(span.start)..Timestamp::from_secs(span.end);
    batch.push(process.metrics[metric], 0, |out| removal::encode(&span, out));
    process.engine.append(batch).await.unwrap();
}

/// Passes over both sacks; whether all succeeded. Folds nothing: these metrics have no measures.
async fn pass(process: &Process) -> bool {
    process.engine.refresh(&[100, 101].map(metric), Duration::from_secs(10)).await.is_ok()
}

#[derive(Clone, Debug)]
enum Step {
    Append { metric: usize, minutes: Vec<u8> },
    Remove { metric: usize, minute: u8 },
    Pass,
    Sync,
    Read { metric: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..METRICS, prop::collection::vec(0..120_u8, 1..6))
        .prop_map(|(metric, minutes)| Step::Append { metric, minutes });
    let remove = (0..METRICS, 0..120_u8).prop_map(|(metric, minute)| Step::Remove { metric, minute });
    let read = (0..METRICS).prop_map(|metric| Step::Read { metric });
    let step = prop_oneof![8 => append, 1 => remove, 4 => Just(Step::Pass), 1 => Just(Step::Sync), 2 => read];
    prop::collection::vec(step, 1..50)
}

/// Applies the steps; returns all that was read on the way, unless writes fail, and in the end.
async fn play(
    policy: &str,
    steps: &[Step],
    store: Tapped,
    reads: bool,
) -> Vec<[BTreeMap<Timestamp, f64>; 2]> {
    let process = Process::start(METRICS, policy, store).await;
    let mut seen = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        // About every fourth append is older than the one before.
        let start = (index as i64 - i64::from(index % 4 == 3) * 3) * 2_000;
        match step {
            Step::Append { metric, minutes } => {
                process.append(*metric, &points_at(start, minutes)).await;
            }
            Step::Remove { metric, minute } => {
                let from = start - i64::from(*minute) * 60;
                remove(&process, *metric, from.max(0)..start.max(0) + 60).await;
            }
            Step::Pass => drop(pass(&process).await),
            Step::Sync => drop(process.engine.sync_aggregates().await),
            Step::Read { metric } if reads => {
                pass(&process).await;
                seen.push(process.read(*metric).await);
            }
            Step::Read { metric } => drop(process.read(*metric).await),
        }
    }
    // The list of failures is finite.
    while !pass(&process).await || process.engine.sync_aggregates().await.is_err() {}
    assert_eq!(process.incoming.backlog().await.unwrap().measures, 0);
    assert_eq!(process.engine.deferred_bytes(), 0);
    for metric in 0..METRICS {
        seen.push(process.read(metric).await);
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn readers_see_the_same(
        policy in prop::sample::select(vec!["medium", "patient"]),
        steps in steps(),
    ) {
        let store = || Tapped::failing(Vec::new());
        let expected = block_on(play(policy, &steps, store(), true));
        prop_assert_eq!(block_on(play(policy, &steps, store().deferring(true), true)), expected);
    }

    #[test]
    fn failures_lose_and_repeat_nothing(
        policy in prop::sample::select(vec!["medium", "patient"]),
        steps in steps(),
        failures in prop::collection::vec(any::<bool>(), 0..12),
    ) {
        let expected = block_on(play(policy, &steps, Tapped::failing(Vec::new()), false));
        let failing = Tapped::failing(failures).deferring(true);
        prop_assert_eq!(block_on(play(policy, &steps, failing, false)), expected);
    }
}

async fn deferring() -> Process {
    Process::start(METRICS, "medium", Tapped::failing(Vec::new()).deferring(true)).await
}

#[tokio::test]
async fn a_read_folds_its_metric_only() {
    let process = deferring().await;
    for minute in 0..5 {
        for metric in 0..METRICS {
            process.append(metric, &[point(60 * minute, 1.0)]).await;
        }
        assert!(pass(&process).await);
    }
    let written = || process.engine.figures().heads_written.load(Relaxed);
    assert_eq!((written(), process.incoming.backlog().await.unwrap().measures), (0, 0));
    let [counts, _] = process.read(1).await;
    assert_eq!((counts.len(), written()), (5, 1));
    let measured = process.engine.measured(&process.metrics[2..]).await.unwrap();
    assert!(measured.iter().all(|measured| measured.last == LastMeasure::At(Timestamp::from_secs(240))));
    assert_eq!(written(), 3);
    process.engine.sync_aggregates().await.unwrap();
    assert_eq!((written(), process.engine.deferred_bytes()), (4, 0));
}

#[tokio::test]
async fn measures_of_a_deleted_metric_do_not_come_back() {
    let process = deferring().await;
    let (gone, kept) = (process.metrics[0], process.metrics[2]);
    for metric in [0, 2] {
        process.append(metric, &[point(0, 1.0)]).await;
    }
    assert!(pass(&process).await);
    delete(&process.engine, &[gone]).await;
    // Both a measure that is deferred and one that waits.
    process.append(0, &[point(60, 1.0)]).await;
    assert!(pass(&process).await);
    assert_eq!(process.engine.figures().measures_orphaned.load(Relaxed), 1);
    assert_eq!(process.engine.expunge(10, || true).await.unwrap(), 1);
    process.engine.sync_aggregates().await.unwrap();
    let measured = process.engine.measured(&[gone, kept]).await.unwrap();
    assert_eq!(measured[0].last, LastMeasure::Never);
    assert_eq!(measured[1].last, LastMeasure::At(Timestamp::EPOCH));
}

/// Passes and readers share a unit: a read waits for a part of what is folded to make room, not for all.
#[tokio::test]
async fn readers_get_their_turn_while_a_full_unit_is_folded() {
    // More than are folded at once. All are in one of the sacks, each of which has a share of a KiB.
    const MANY: u128 = 5_000;
    const SACKS: u16 = u16::MAX;
    let id = |number: u128| MetricId(Uuid::from_u128(number * u128::from(SACKS)));
    let indexer = indexer(0, "medium").await;
    let policy = indexer.archive_policy("medium").await.unwrap().unwrap();
    let new = (1..=MANY).map(|number| NewMetric::new(id(number), "admin", "medium", Timestamp::EPOCH));
    for created in indexer.create_metrics(new.collect()).await {
        created.unwrap();
    }
    let store = Tapped::slow(Duration::from_millis(100)).deferring(true);
    let incoming = Arc::new(MemoryIncoming::new(sacks(SACKS), u64::MAX));
    let engine = Engine::new(indexer, incoming, Arc::new(store), || Timestamp::EPOCH);
    let began = Instant::now();
    let (first, later) = ([point(0, 1.0)], [point(60, 1.0)]);
    engine.append(batch_of((1..=MANY).map(|number| (id(number), &first[..])))).await.unwrap();
    // A metric without measures.
    let idle = [id(MANY + 1)];
    let pass = || engine.refresh(&idle, Duration::from_mins(1));
    pass().await.unwrap();
    let written = || engine.figures().heads_written.load(Relaxed);
    assert_eq!(written(), 0);
    engine.append(batch_of([(id(1), &later[..])])).await.unwrap();
    let read = async {
        // The first part is being folded.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let read = support::read(&engine, &policy, id(MANY), Statistic::Count, 60, None).await;
        (read.unwrap().len(), written())
    };
    let (passed, (found, written_then)) = tokio::join!(pass(), read);
    passed.unwrap();
    assert_eq!((found, written()), (1, MANY as u64));
    assert!(written_then < MANY as u64, "the read waited until all was folded");
    let pass_time = Duration::from_micros(engine.figures().pass_time_us.load(Relaxed));
    assert!(pass_time <= began.elapsed(), "a pass is counted twice: {pass_time:?}");
}

/// A query across metrics reads a few of them at once: it must not wait for each few.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_stop_each_read_for_long() {
    let store = Tapped::slow(Duration::from_hours(1)).deferring(true);
    let process = Process::start(METRICS, "medium", store).await;
    for metric in 0..METRICS {
        process.append(metric, &[point(0, 1.0)]).await;
    }
    assert!(pass(&process).await);
    let began = tokio::time::Instant::now();
    for read in 0..40 {
        process.read(read % METRICS).await;
    }
    // Of the 80 reads one in 20 waits two seconds, and the others for a tenth of a second.
    let waited = began.elapsed();
    assert!((2..40).contains(&waited.as_secs()), "{waited:?}");
}
