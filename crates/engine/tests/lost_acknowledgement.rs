//! A store that loses an acknowledgement, as Redis may in a failover: a later pass repeats it.

mod support;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use gnudi_drivers::{
    aggregates::memory::MemoryAggregates,
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Topology,
        memory::MemoryIncoming,
    },
};
use gnudi_engine::{Engine, Metricd, MetricdOptions};
use gnudi_model::{MetricId, Numbering, Sack, Timestamp};
use parking_lot::Mutex;
use support::{batch, indexer, metric, options, sacks, until};

struct Forgetful {
    driver: MemoryIncoming,
    /// The sack without its acknowledgements.
    lost: Mutex<Option<Sack>>,
}

impl Incoming for Forgetful {
    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Topology for Forgetful {
    async fn split(&self) -> Result<Numbering, IncomingError> {
        self.driver.split().await
    }

    async fn settle(&self) -> Result<Numbering, IncomingError> {
        Ok(self.driver.numbering())
    }
}

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
        self.lost.lock().take_if(|lost| *lost == sack);
        self.driver.acknowledge(sack, up_to).await
    }

    async fn acknowledge_again(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        self.acknowledge(sack, up_to).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        self.driver.trim(up_to).await
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        let mut positions = self.driver.positions(sacks).await?;
        let lost = *self.lost.lock();
        for (_, positions) in sacks.iter().zip(&mut positions).filter(|(sack, _)| lost == Some(**sack)) {
            positions.acknowledged = Position(0);
        }
        Ok(positions)
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.driver.arrivals().await
    }
}

/// No later record of the sack brings another acknowledgement. An old sack of a split has counted as drained before.
#[tokio::test]
async fn a_lost_acknowledgement_is_repeated() {
    for splits in [false, true] {
        let driver = MemoryIncoming::new(sacks(1), u64::MAX);
        let incoming = Arc::new(Forgetful { driver, lost: Mutex::default() });
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
        let sack = Sack::of(metric(0), incoming.numbering().count);
        if splits {
            incoming.split().await.unwrap();
            engine.append(batch(0..1, 60)).await.unwrap();
        }
        until("nothing waits", async || incoming.backlog().await.unwrap().measures == 0).await;
        *incoming.lost.lock() = Some(sack);
        until("another acknowledgement", async || incoming.lost.lock().is_none()).await;
        metricd.stop().await;
    }
}
