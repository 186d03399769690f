//! The workers: all measures are processed, and what waits is told.

use std::{
    num::NonZeroU16,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gnudi_drivers::{
    aggregates::memory::MemoryAggregates,
    incoming::{Batch, memory::MemoryIncoming},
};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_indexer::{Indexer, MemoryIndexer, NewMetric, create_default_archive_policies};
use gnudi_model::{ArchivePolicy, Measure, MetricId, SackCount, Timestamp};

const METRICS: u128 = 200;
const ROUNDS: i64 = 5;

fn metric(number: u128) -> MetricId {
    MetricId(uuid::Uuid::from_u128(number * 7 + 1))
}

async fn engine() -> Arc<Engine> {
    let indexer = Arc::new(MemoryIndexer::default());
    create_default_archive_policies(&*indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let new = (0..METRICS).map(|number| NewMetric {
        id: metric(number),
        creator: "admin".into(),
        name: None,
        unit: None,
        archive_policy_name: "low".into(),
        resource_id: None,
        created_at: Timestamp::EPOCH,
    });
    for created in gnudi_indexer::Metrics::create_metrics(&*indexer, new.collect()).await {
        created.unwrap();
    }
    let incoming = Arc::new(MemoryIncoming::new(SackCount(NonZeroU16::new(50).unwrap()), u64::MAX));
    let indexer: Arc<dyn Indexer> = indexer;
    Arc::new(Engine::new(indexer, incoming, Arc::new(MemoryAggregates::default()), || Timestamp::EPOCH))
}

async fn append(engine: &Engine, round: i64) {
    let mut batch = Batch::default();
    for number in 0..METRICS {
        let point = Measure { timestamp: Timestamp(round * 1_000_000_000), value: 1.0 };
        batch.push(metric(number), 1, |out| gnudi_series::points::encode(&[point], out));
    }
    engine.append(batch).await.unwrap();
}

fn options(workers: usize, gather: Duration) -> MetricdOptions {
    let never = Duration::from_hours(1);
    MetricdOptions {
        name: "test".to_owned(),
        workers,
        greedy: true,
        processing_delay: never,
        gather,
        checkpoint_delay: never,
        reporting_delay: None,
        cleanup_delay: never,
        cleanup_batch_metrics: 1,
        metric_inactive_after: None,
        resource_cleanup_after: None,
        lease: gnudi_engine::metricd::LEASE_DEFAULT,
        clock: || Timestamp::EPOCH,
    }
}

#[tokio::test]
async fn everything_is_processed() {
    // More workers than sacks: some have nothing to do.
    for workers in [1, 3, 64] {
        let engine = engine().await;
        let metricd = Metricd::start(engine.clone(), &options(workers, Duration::from_millis(1)));
        for round in 0..ROUNDS {
            append(&engine, round).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let drained = async {
            while engine.backlog().await.unwrap().measures > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let drained = tokio::time::timeout(Duration::from_secs(20), drained).await;
        assert!(drained.is_ok(), "{workers} workers leave measures");
        assert_eq!(engine.figures().measures_folded.load(Relaxed), METRICS as u64 * ROUNDS as u64);
        metricd.stop().await;
    }
}

#[tokio::test]
async fn the_age_of_what_waits_is_told() {
    let engine = engine().await;
    assert_eq!(engine.oldest_waiting(), Duration::ZERO);
    let metricd = Metricd::start(engine.clone(), &options(1, Duration::from_hours(1)));
    append(&engine, 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let first = engine.oldest_waiting();
    assert!(first > Duration::ZERO);
    // Measures that come later make nothing younger.
    append(&engine, 1).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(engine.oldest_waiting() >= first + Duration::from_millis(30));
    metricd.stop().await;
}
