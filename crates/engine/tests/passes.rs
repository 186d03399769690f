//! Passes over sacks: each accepted measure counts once, whatever the batching, failures and replays.

mod support;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnudi_drivers::incoming::{Append as _, Batch, memory::MemoryIncoming};
use gnudi_engine::{Engine, EngineError};
use gnudi_model::{MetricId, Statistic, Timestamp};
use parking_lot::Mutex;
use proptest::prelude::*;
use support::{
    Process, batch_of, delete, indexer, indexer_of_sums, metric, point, points_at, sacks, store::Tapped,
    wait::block_on,
};

const METRICS: usize = 3;

/// `failures[n]` says whether the nth write fails. A failed write has written half of its items.
async fn start(policy: &str, failures: Vec<bool>) -> Process {
    Process::start(METRICS, policy, Tapped::failing(failures)).await
}

async fn refresh(process: &Process) -> Result<(), EngineError> {
    process.engine.refresh(&process.metrics, Duration::from_secs(10)).await
}

#[derive(Clone, Debug)]
enum Step {
    Append { metric: usize, minutes: Vec<u8> },
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..METRICS, proptest::collection::vec(0u8..120, 1..6))
        .prop_map(|(metric, minutes)| Step::Append { metric, minutes });
    proptest::collection::vec(prop_oneof![4 => append, 1 => Just(Step::Refresh)], 1..40)
}

/// Applies the steps and returns all that can be read of each metric. Each append has distinct seconds, so
/// nothing is replaced. Times ascend, so nothing is late, except under the policy that accepts late points.
async fn play(
    policy: &str,
    steps: &[Step],
    failures: Vec<bool>,
    refresh_between: bool,
) -> Vec<[BTreeMap<Timestamp, f64>; 2]> {
    let process = start(policy, failures).await;
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Append { metric, minutes } => {
                // A prime, so that all are distinct.
                let place = if policy == "patient" { index * 17 % 41 } else { index };
                process.append(*metric, &points_at(place as i64 * 7200, minutes)).await;
            }
            Step::Refresh if refresh_between => drop(refresh(&process).await),
            Step::Refresh => {}
        }
    }
    // The list of failures is finite.
    while refresh(&process).await.is_err() {}
    assert_eq!(process.incoming.backlog().await.unwrap().measures, 0);
    let mut readable = Vec::new();
    for metric in 0..METRICS {
        readable.push(process.read(metric).await);
    }
    readable
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn cuts_and_failures_change_nothing(
        policy in prop::sample::select(vec!["medium", "patient"]),
        steps in steps(),
        failures in proptest::collection::vec(any::<bool>(), 0..12),
    ) {
        let expected = block_on(play(policy, &steps, Vec::new(), false));
        let counted: f64 = expected.iter().flat_map(|[count, _]| count.values()).sum();
        let appended: usize = steps.iter().map(|step| match step {
            Step::Append { minutes, .. } => minutes.len(),
            Step::Refresh => 0,
        }).sum();
        prop_assert_eq!(counted, appended as f64);
        prop_assert_eq!(block_on(play(policy, &steps, failures, true)), expected);
    }
}

#[tokio::test]
async fn measures_of_a_deleted_metric_are_dropped_and_its_data_goes() {
    let process = start("medium", Vec::new()).await;
    process.append(0, &[point(0, 1.0)]).await;
    process.append(1, &[point(0, 1.0)]).await;
    refresh(&process).await.unwrap();
    process.append(0, &[point(60, 1.0)]).await;
    delete(&process.engine, &process.metrics[..1]).await;
    refresh(&process).await.unwrap();
    assert_eq!(process.engine.figures().measures_orphaned.load(Ordering::Relaxed), 1);
    assert_eq!(process.engine.expunge(10, || true).await.unwrap(), 1);
    assert_eq!(process.engine.expunge(10, || true).await.unwrap(), 0);
    assert!(process.read(0).await[0].is_empty());
    assert_eq!(process.read(1).await[0].len(), 1);
}

/// Page by page, and within a page.
#[tokio::test]
async fn a_deleted_metric_that_cannot_be_removed_keeps_no_other() {
    for batch in [1, 10] {
        let indexer = indexer(METRICS as u128, "medium").await;
        let metrics: Vec<MetricId> = (0..METRICS as u128).map(metric).collect();
        let mut kept = metrics.clone();
        kept.sort_unstable();
        kept.truncate(1);
        let store = Arc::new(Tapped::keeping(kept.clone()));
        let incoming = Arc::new(MemoryIncoming::new(sacks(2), u64::MAX));
        let engine = Engine::new(indexer, incoming, store, || Timestamp::EPOCH);
        delete(&engine, &metrics).await;
        let error = engine.expunge(batch, || true).await.unwrap_err();
        assert_eq!(error.to_string(), "by the test");
        assert_eq!(engine.indexer().deleted_metrics(None, 10).await.unwrap(), kept);
        assert_eq!(engine.figures().metrics_expunged.load(Ordering::Relaxed), METRICS as u64 - 1);
    }
}

#[tokio::test]
async fn status_counts_what_waits() {
    let process = start("medium", Vec::new()).await;
    process.append(0, &[point(0, 1.0), point(60, 1.0)]).await;
    process.append(1, &[point(0, 1.0)]).await;
    let status = process.engine.status(true).await.unwrap();
    assert_eq!((status.metrics_waiting, status.measures_waiting), (2, 3));
    assert_eq!(status.by_metric.unwrap()[&process.metrics[0]], 2);
    refresh(&process).await.unwrap();
    let status = process.engine.status(false).await.unwrap();
    assert_eq!((status.metrics_waiting, status.measures_waiting), (0, 0));
}

/// It waits for a program that knows it.
#[tokio::test]
async fn a_record_of_a_newer_program_is_not_dropped() {
    let process = start("medium", Vec::new()).await;
    let mut batch = Batch::default();
    // The version is in the upper half of the first byte.
    batch.push(process.metrics[0], 1, |out| out.push(0xf0));
    process.engine.append(batch).await.unwrap();
    let refused = refresh(&process).await.unwrap_err().to_string();
    assert!(refused.contains("measures have format version 15"), "{refused}");
    assert_eq!(process.incoming.backlog().await.unwrap().measures, 1);
}

#[tokio::test]
async fn a_pass_holds_few_heads_at_once() {
    const METRICS: usize = 5_000;
    let (indexer, policy) = indexer_of_sums(METRICS as u128, 10).await;
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let store = Tapped::new(move |call, writes| {
        if call == "write" {
            seen.lock().push(writes.len());
        }
        writes.len()
    });
    let incoming = Arc::new(MemoryIncoming::new(sacks(1), u64::MAX));
    let engine = Engine::new(indexer, incoming, Arc::new(store), || Timestamp::EPOCH);
    let metrics: Vec<MetricId> = (0..METRICS as u128).map(metric).collect();
    let points = [point(1, 2.0)];
    engine.append(batch_of(metrics.iter().map(|metric| (*metric, &points[..])))).await.unwrap();
    engine.refresh(&metrics[..1], Duration::from_mins(1)).await.unwrap();
    let sizes = std::mem::take(&mut *sizes.lock());
    assert_eq!(sizes.iter().sum::<usize>(), METRICS);
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size <= METRICS / 2), "{sizes:?}");
    for metric in metrics {
        let sums = support::read(&engine, &policy, metric, Statistic::Sum, 1, None).await.unwrap();
        assert_eq!(sums.values().copied().collect::<Vec<_>>(), [2.0]);
    }
}
