//! The log of measures in memory behind hooks that see calls, and may change what they return.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use gnudi_drivers::incoming::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Positions, Record, TrimNeed,
    memory::MemoryIncoming,
};
use gnudi_model::{MetricId, Numbering, Sack};

/// What a test sees and changes.
#[async_trait]
pub trait Tap: Send + Sync + 'static {
    /// A call is executed next: `pending`, `acknowledge` or `positions`.
    fn called(&self, _call: &'static str) {}

    /// What a pass finds in a sack.
    fn found(&self, _sack: Sack, _records: &[Record]) {}

    /// A sack is acknowledged next, maybe once more.
    fn acknowledging(&self, _sack: Sack) {}

    /// Sacks are trimmed next.
    async fn trimming(&self, _up_to: &[(Sack, Position)]) {}

    /// Whether the server of a sack does not respond.
    fn is_down(&self, _sack: Sack) -> bool {
        false
    }

    /// How much a trim would free.
    fn trim_need(&self) -> TrimNeed {
        TrimNeed::None
    }

    /// Changes the positions of sacks.
    fn positions(&self, _sacks: &[Sack], _found: &mut [Positions]) {}
}

pub struct TappedIncoming<T> {
    pub driver: MemoryIncoming,
    pub tap: T,
}

impl<T: Tap> TappedIncoming<T> {
    pub fn new(count: u16, tap: T) -> Arc<Self> {
        Arc::new(TappedIncoming { driver: MemoryIncoming::new(super::sacks(count), u64::MAX), tap })
    }
}

impl<T: Tap> Incoming for TappedIncoming<T> {}

#[async_trait]
impl<T: Tap> Append for TappedIncoming<T> {
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
impl<T: Tap> Consume for TappedIncoming<T> {
    fn numbering(&self) -> Numbering {
        self.driver.numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending, IncomingError> {
        self.tap.called("pending");
        let pending = self.driver.pending(sack, after, bytes_max).await?;
        self.tap.found(sack, &pending.records);
        Ok(pending)
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<(), IncomingError> {
        self.tap.called("acknowledge");
        self.tap.acknowledging(sack);
        self.driver.acknowledge(sack, up_to).await
    }

    async fn acknowledge_again(&self, sack: Sack, _up_to: Position) -> Result<(), IncomingError> {
        self.tap.acknowledging(sack);
        Ok(())
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<(), IncomingError> {
        self.tap.trimming(up_to).await;
        self.driver.trim(up_to).await
    }

    fn trim_need(&self) -> TrimNeed {
        self.tap.trim_need()
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>, IncomingError> {
        self.tap.called("positions");
        if sacks.iter().any(|sack| self.tap.is_down(*sack)) {
            return Err(IncomingError::Unavailable("by the test".into()));
        }
        let mut positions = self.driver.positions(sacks).await?;
        self.tap.positions(sacks, &mut positions);
        Ok(positions)
    }

    async fn reachable_positions(&self, sacks: &[Sack]) -> Result<Vec<(Sack, Positions)>, IncomingError> {
        let reachable: Vec<Sack> = sacks.iter().copied().filter(|sack| !self.tap.is_down(*sack)).collect();
        let positions = self.positions(&reachable).await?;
        Ok(reachable.into_iter().zip(positions).collect())
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.driver.arrivals().await
    }
}
