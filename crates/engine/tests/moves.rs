//! Metrics that move between policies while passes fail and are replayed: each granularity reads the
//! aggregates of all points.

mod support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use gnudi_drivers::incoming::memory::MemoryIncoming;
use gnudi_engine::{Engine, EngineError};
use gnudi_indexer::{
    ArchivePolicies as _, CacheOptions, CachedIndexer, Indexer as _, MemoryIndexer, Metrics as _, NewMetric,
    conformance::new_metric,
};
use gnudi_model::{ArchivePolicy, ArchivePolicyItem, Measure, MetricId, Statistic, Timespan, Timestamp};
use proptest::prelude::*;
use support::{batch_of, indexer, metric, point, sacks, store::Tapped, wait::block_on};

/// Minutes, and one more granularity each, in seconds.
const COARSE: [i64; 3] = [3600, 300, 7200];
const METRICS: usize = 2;

fn policy(coarse: i64) -> ArchivePolicy {
    let definition = [60, coarse].map(|seconds| ArchivePolicyItem::unlimited(Timespan::from_secs(seconds)));
    ArchivePolicy::new(format!("by {coarse}"), 0, definition.into(), ArchivePolicy::default_methods())
        .unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Append { metric: usize, minutes: Vec<u8> },
    Move { metric: usize, to: usize },
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..METRICS, prop::collection::vec(0u8..40, 1..6))
        .prop_map(|(metric, minutes)| Step::Append { metric, minutes });
    let moved = (0..METRICS, 0..COARSE.len()).prop_map(|(metric, to)| Step::Move { metric, to });
    prop::collection::vec(prop_oneof![4 => append, 1 => moved, 1 => Just(Step::Refresh)], 1..40)
}

async fn play(steps: Vec<Step>, failures: Vec<bool>) -> Result<(), TestCaseError> {
    let index = indexer(METRICS as u128, "medium").await;
    for coarse in COARSE {
        index.create_archive_policy(policy(coarse)).await.unwrap();
    }
    for number in 0..METRICS {
        index.move_metric(metric(number as u128), "by 3600").await.unwrap();
    }
    let store = Arc::new(Tapped::failing(failures));
    let incoming = Arc::new(MemoryIncoming::new(sacks(2), u64::MAX));
    let engine = Engine::new(index.clone(), incoming, store, || Timestamp::EPOCH);
    let metrics: Vec<MetricId> = (0..METRICS as u128).map(metric).collect();
    let refresh = async || engine.refresh(&metrics, Duration::from_secs(10)).await;
    let mut points: Vec<Vec<i64>> = vec![Vec::new(); METRICS];
    let mut of = [0; METRICS];
    for (index_of_step, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append { metric, minutes } => {
                // In order, so that nothing is late in any policy.
                let mut minutes = minutes;
                minutes.sort_unstable();
                let start = index_of_step as i64 * 2400;
                let times =
                    minutes.iter().zip(0..).map(|(minute, second)| start + i64::from(*minute) * 60 + second);
                let times: Vec<i64> = times.collect();
                let batch: Vec<Measure> = times.iter().map(|time| point(*time, 1.0)).collect();
                engine.append(batch_of([(metrics[metric], &batch[..])])).await.unwrap();
                points[metric].extend(times);
            }
            Step::Move { metric, to } => {
                index.move_metric(metrics[metric], &policy(COARSE[to]).name).await.unwrap();
                engine.append_conversions(&[metrics[metric]]).await.unwrap();
                of[metric] = to;
            }
            Step::Refresh => drop(refresh().await),
        }
    }
    while refresh().await.is_err() {}
    for number in 0..METRICS {
        let policy = policy(COARSE[of[number]]);
        for granularity in [60, COARSE[of[number]]] {
            let mut expected: BTreeMap<Timestamp, f64> = BTreeMap::new();
            for time in &points[number] {
                *expected.entry(Timestamp::from_secs(time / granularity * granularity)).or_default() += 1.0;
            }
            for statistic in [Statistic::Count, Statistic::Sum] {
                let found = support::read(&engine, &policy, metrics[number], statistic, granularity, None)
                    .await
                    .unwrap();
                prop_assert_eq!(&found, &expected, "{:?} by {}", statistic, granularity);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn moves_lose_nothing(steps in steps(), failures in prop::collection::vec(any::<bool>(), 0..12)) {
        block_on(play(steps, failures))?;
    }
}

/// A process with a stale cache learns of a move from the conversion request, and does not revert it later.
#[tokio::test]
async fn a_cache_that_is_behind_converts_nothing_back() -> Result<(), EngineError> {
    let options = CacheOptions { metrics_cached_max: 10, resources_cached_max: 10 };
    let cached = Arc::new(CachedIndexer::new(MemoryIndexer::default(), &options));
    cached.create_archive_policy(policy(3600)).await.unwrap();
    cached.create_archive_policy(policy(7200)).await.unwrap();
    let new = NewMetric { id: metric(0), archive_policy_name: "by 3600".to_owned(), ..new_metric(0) };
    cached.create_metrics(vec![new]).await.pop().unwrap().unwrap();
    let store = Arc::new(Tapped::new(|_, writes| writes.len()));
    let incoming = Arc::new(MemoryIncoming::new(sacks(1), u64::MAX));
    let engine = Engine::new(cached.clone(), incoming, store, || Timestamp::EPOCH);
    let refresh = async || engine.refresh(&[metric(0)], Duration::from_secs(10)).await;
    let append = async |second| {
        engine.append(batch_of([(metric(0), &[point(second, 1.0)][..])])).await.unwrap();
    };
    append(60).await;
    append(4000).await;
    refresh().await?;
    cached.index().move_metric(metric(0), "by 7200").await.unwrap();
    engine.append_conversions(&[metric(0)]).await?;
    refresh().await?;
    assert_eq!(cached.cached_metric(metric(0)).unwrap().archive_policy_name, "by 3600");
    append(4100).await;
    refresh().await?;
    append(9000).await;
    refresh().await?;
    let counts = support::read(&engine, &policy(7200), metric(0), Statistic::Count, 7200, None).await?;
    assert_eq!(counts, [(0, 3.0), (7200, 1.0)].map(|(at, count)| (Timestamp::from_secs(at), count)).into());
    Ok(())
}

/// Another process has deleted a policy, and created one of the same name for new metrics: this one's cache has the former.
#[tokio::test]
async fn a_first_head_is_made_for_the_policy_of_today() -> Result<(), EngineError> {
    let options = CacheOptions { metrics_cached_max: 10, resources_cached_max: 10 };
    let cached = Arc::new(CachedIndexer::new(MemoryIndexer::default(), &options));
    let hours = vec![ArchivePolicyItem::unlimited(Timespan::from_secs(3600))];
    let former = ArchivePolicy { definition: hours, ..policy(300) };
    cached.create_archive_policy(former.clone()).await.unwrap();
    cached.archive_policy("by 300").await.unwrap();

    let others = cached.index();
    others.delete_archive_policy("by 300").await.unwrap();
    others.create_archive_policy(policy(300)).await.unwrap();
    let metrics = [metric(0), metric(1)];
    let new = metrics.map(|id| NewMetric { id, archive_policy_name: "by 300".to_owned(), ..new_metric(0) });
    for created in others.create_metrics(new.into()).await {
        created.unwrap();
    }
    let store = Arc::new(Tapped::new(|_, writes| writes.len()));
    let incoming = Arc::new(MemoryIncoming::new(sacks(1), u64::MAX));
    let engine = Engine::new(cached.clone(), incoming, store, || Timestamp::EPOCH);
    let points = [60, 120].map(|second| point(second, 1.0));
    engine.append(batch_of(metrics.map(|id| (id, &points[..])))).await?;
    engine.refresh(&metrics, Duration::from_secs(10)).await?;
    assert_eq!(*cached.cached_policy("by 300").unwrap(), former);
    for id in metrics {
        let counts = support::read(&engine, &policy(300), id, Statistic::Count, 60, None).await?;
        assert_eq!(counts, [60, 120].map(|second| (Timestamp::from_secs(second), 1.0)).into());
    }
    Ok(())
}
