//! A store that loses an acknowledgement, as Redis may in a failover: a later pass repeats it.

mod support;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gnudi_drivers::{
    aggregates::memory::MemoryAggregates,
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions,
        memory::MemoryIncoming,
    },
};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::{MetricId, Numbering, Sack, Timestamp};
use support::{batch, indexer, options, sacks, until};

struct Forgetful {
    driver: MemoryIncoming,
    /// Whether the first acknowledgement was lost.
    has_lost: AtomicBool,
}

impl Incoming for Forgetful {}

#[async_trait]
impl Append for Forgetful {
    async fn append(&self, batch: Batch) -> Result<(), IncomingError> {
        self.driver.append(batch).await
    }

    async fn backlog(&self) -> Result<Backlog, IncomingError> {
        self.driver.backlog().await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>, IncomingError> {
        self.driver.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for Forgetful {
    fn numbering(&self) -> Numbering {
        self.driver.numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        self.driver.pending(sack, after, bytes_max).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        if self.has_lost.swap(true, Ordering::Relaxed) {
            self.driver.acknowledge(sack, up_to).await?;
        }
        Ok(())
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        self.driver.trim(up_to).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        self.driver.positions(sacks).await
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.driver.arrivals().await
    }
}

/// No later record of the sack brings another acknowledgement.
#[tokio::test]
async fn a_lost_acknowledgement_is_repeated() {
    let driver = MemoryIncoming::new(sacks(1), u64::MAX);
    let incoming = Arc::new(Forgetful { driver, has_lost: AtomicBool::new(false) });
    let store = Arc::new(MemoryAggregates::default());
    let indexer = indexer(1, "low").await;
    let engine = Arc::new(Engine::new(indexer, incoming.clone(), store, || Timestamp::EPOCH));
    let options = MetricdOptions {
        greedy: false,
        processing_delay: Duration::from_millis(2),
        ..options("test", Duration::from_hours(1))
    };
    let metricd = Metricd::start(engine.clone(), &options);
    engine.append(batch(0..1, 0)).await.unwrap();
    until("nothing waits", async || incoming.backlog().await.unwrap().measures == 0).await;
    assert!(incoming.has_lost.load(Ordering::Relaxed));
    metricd.stop().await;
}
