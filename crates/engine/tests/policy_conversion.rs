//! Policies whose methods change: metrics without new measures get the new methods, too.

mod support;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
use gnudi_engine::{Engine, Metricd, policy_conversion::METRICS_AT_ONCE};
use gnudi_indexer::{
    ArchivePolicies as _, MemoryIndexer, Metrics as _, NewMetric, PolicyChange, PolicyConversion,
    conformance::new_metric,
};
use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Statistic, Timespan, Timestamp};
use support::{Cluster, batch_of, metric, options, point, sacks};

/// More than two rounds.
const METRICS: u128 = 2 * METRICS_AT_ONCE as u128 + 10;
const LEASE: Duration = Duration::from_secs(1);
const POLICIES: [(&str, bool); 2] = [("kept", true), ("plain", false)];

async fn add_policies(indexer: &MemoryIndexer) {
    for (name, is_raw) in POLICIES {
        let definition = vec![ArchivePolicyItem::unlimited(Timespan::from_secs(60))];
        let sum = [AggregationMethod::new(Statistic::Sum)].into();
        let mut policy = ArchivePolicy::new(name.to_owned(), 0, definition, sum).unwrap();
        policy.raw_timespan = is_raw.then_some(Timespan::from_secs(86_400));
        indexer.create_archive_policy(policy).await.unwrap();
    }
}

/// Each metric gets points of three minutes. The last metrics have policy `plain`.
async fn measured(engine: &Engine, indexer: &MemoryIndexer, metrics: u128) {
    for number in 0..metrics {
        let (name, _) = POLICIES[usize::from(number + 3 >= metrics)];
        let new = NewMetric {
            id: metric(1000 + number),
            archive_policy_name: name.to_owned(),
            ..new_metric(1000 + number)
        };
        indexer.create_metrics(vec![new]).await.pop().unwrap().unwrap();
        let points = [0, 10, 60, 130].map(|second| point(second, 2.0));
        engine.append(batch_of([(metric(1000 + number), &points[..])])).await.unwrap();
    }
    refresh(engine, metrics).await;
}

async fn refresh(engine: &Engine, metrics: u128) {
    let ids: Vec<_> = (0..metrics).map(|number| metric(1000 + number)).collect();
    engine.refresh(&ids, Duration::from_secs(30)).await.unwrap();
}

async fn add_method(indexer: &MemoryIndexer, name: &str) {
    let policy = indexer.archive_policy(name).await.unwrap().unwrap();
    let mut methods = policy.aggregation_methods.clone();
    methods.insert(AggregationMethod::new(Statistic::Count));
    let change = PolicyChange {
        definition: policy.definition.clone(),
        aggregation_methods: Some(methods),
        ..PolicyChange::default()
    };
    indexer.update_archive_policy(name, change).await.unwrap();
}

/// The counts read for a metric.
async fn counts(engine: &Engine, indexer: &MemoryIndexer, number: u128) -> Vec<f64> {
    let found = indexer.metrics(&[metric(1000 + number)]).await.unwrap().remove(0).unwrap();
    let policy = indexer.archive_policy(&found.archive_policy_name).await.unwrap().unwrap();
    let read: BTreeMap<Timestamp, f64> =
        support::read(engine, &policy, found.id, Statistic::Count, 60, None).await.unwrap();
    read.into_values().collect()
}

const ALL: [f64; 3] = [2.0, 1.0, 1.0];
/// The current minute, of the points in the head.
const LAST: [f64; 1] = [1.0];

#[tokio::test]
async fn a_conversion_goes_on_where_it_was_left() {
    let indexer = Arc::new(MemoryIndexer::default());
    add_policies(&indexer).await;
    let incoming = Arc::new(MemoryIncoming::new(sacks(4), u64::MAX));
    let store = Arc::new(MemoryAggregates::default());
    let start = || Engine::new(indexer.clone(), incoming.clone(), store.clone(), || Timestamp::EPOCH);
    let engine = start();
    measured(&engine, &indexer, METRICS).await;
    for (name, _) in POLICIES {
        add_method(&indexer, name).await;
    }
    let conversions = indexer.policy_conversions().await.unwrap();
    let [conversion] = &conversions[..] else { panic!("one policy has raw points") };
    assert_eq!(counts(&engine, &indexer, 0).await, LAST);
    let left = engine.convert_next(conversion.clone()).await.unwrap().unwrap();
    assert_eq!(left.converted_to, Some(metric(1000 + METRICS_AT_ONCE as u128 - 1)));
    drop(engine);
    // The next process reads the index.
    let engine = start();
    let mut left = indexer.policy_conversions().await.unwrap();
    let mut rounds = 0;
    assert_eq!(counts(&engine, &indexer, METRICS_AT_ONCE as u128).await, LAST);
    while let Some(conversion) = left.pop() {
        left.extend(engine.convert_next(conversion).await.unwrap());
        rounds += 1;
    }
    assert_eq!(rounds, 3, "two have metrics, one finds none");
    assert_eq!(indexer.policy_conversions().await.unwrap(), []);
    for number in 0..METRICS {
        let expected = if number + 3 >= METRICS { &LAST[..] } else { &ALL[..] };
        assert_eq!(counts(&engine, &indexer, number).await, expected, "{number}");
    }
    // Advancing a finished conversion changes nothing.
    let ended = PolicyConversion { converted_to: None, ..conversion.clone() };
    engine.convert_next(ended).await.unwrap();
    assert_eq!(indexer.policy_conversions().await.unwrap(), []);
}

/// The process that moves a metric may end before it requests the conversion.
#[tokio::test(start_paused = true)]
async fn workers_convert_moved_metrics() {
    let cluster = Cluster::new(0, 8).await;
    add_policies(&cluster.indexer).await;
    let worker = Metricd::start(cluster.engine(), &options("one", LEASE));
    let api = cluster.engine();
    measured(&api, &cluster.indexer, 4).await;
    let kept = cluster.indexer.archive_policy("kept").await.unwrap().unwrap();
    let mut counted = ArchivePolicy { name: "counted".to_owned(), ..ArchivePolicy::clone(&kept) };
    counted.aggregation_methods.insert(AggregationMethod::new(Statistic::Count));
    cluster.indexer.create_archive_policy(counted).await.unwrap();
    cluster.indexer.move_metric(metric(1000), "counted").await.unwrap();
    assert_eq!(counts(&api, &cluster.indexer, 0).await, LAST);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(cluster.indexer.metric_moves(1).await.unwrap(), []);
    refresh(&api, 1).await;
    assert_eq!(counts(&api, &cluster.indexer, 0).await, ALL);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workers_convert_idle_metrics() {
    let cluster = Cluster::new(0, 8).await;
    add_policies(&cluster.indexer).await;
    let workers = ["one", "two"].map(|name| Metricd::start(cluster.engine(), &options(name, LEASE)));
    let api = cluster.engine();
    measured(&api, &cluster.indexer, 300).await;
    add_method(&cluster.indexer, "kept").await;
    assert_eq!(counts(&api, &cluster.indexer, 7).await, LAST);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(cluster.indexer.policy_conversions().await.unwrap(), []);
    refresh(&api, 300).await;
    for number in 0..297 {
        assert_eq!(counts(&api, &cluster.indexer, number).await, ALL, "{number}");
    }
    for worker in workers {
        worker.stop().await;
    }
}
