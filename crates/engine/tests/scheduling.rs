//! The workers: all measures are processed, and the backlog is reported.

mod support;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gnudi_drivers::{aggregates::memory::MemoryAggregates, incoming::memory::MemoryIncoming};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::Timestamp;
use support::{batch, indexer, sacks, wait::until};

const METRICS: u128 = 200;
const ROUNDS: i64 = 5;

async fn engine() -> Arc<Engine> {
    let incoming = Arc::new(MemoryIncoming::new(sacks(50), u64::MAX));
    let store = Arc::new(MemoryAggregates::default());
    Arc::new(Engine::new(indexer(METRICS, "low").await, incoming, store, || Timestamp::EPOCH))
}

async fn append(engine: &Engine, round: i64) {
    engine.append(batch(0..METRICS, round)).await.unwrap();
}

fn options(workers: usize, gather: Duration) -> MetricdOptions {
    MetricdOptions { workers, gather, ..support::options("test", Duration::from_hours(1)) }
}

#[tokio::test]
async fn everything_is_processed() {
    // More workers than sacks: some are idle.
    for workers in [1, 3, 64] {
        let engine = engine().await;
        let metricd = Metricd::start(engine.clone(), &options(workers, Duration::from_millis(1)));
        for round in 0..ROUNDS {
            append(&engine, round).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        until(&format!("{workers} workers leave nothing"), async || {
            engine.backlog().await.unwrap().measures == 0
        })
        .await;
        assert_eq!(engine.figures().measures_folded.load(Relaxed), METRICS as u64 * ROUNDS as u64);
        metricd.stop().await;
    }
}

#[tokio::test]
async fn the_age_of_the_backlog_is_reported() {
    let engine = engine().await;
    assert_eq!(engine.oldest_waiting(), Duration::ZERO);
    let metricd = Metricd::start(engine.clone(), &options(1, Duration::from_hours(1)));
    append(&engine, 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let first = engine.oldest_waiting();
    assert!(first > Duration::ZERO);
    // Later measures do not lower the age.
    append(&engine, 1).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(engine.oldest_waiting() >= first + Duration::from_millis(30));
    metricd.stop().await;
}
