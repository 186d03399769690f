//! Aggregates in memory: for tests, and the reference model for the durable stores.
//!
//! Simple and slow on purpose. Nothing survives the process.

use std::{collections::BTreeMap, sync::OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{MetricId, Timestamp};
use parking_lot::RwLock;
use uuid::Uuid;

use super::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, Movable, Result, StoreError, StoreState,
};
use crate::fence::Fences;

#[derive(Default)]
pub struct MemoryAggregates {
    state: RwLock<State>,
    fences: Fences,
    moved: RwLock<StoreState>,
    identity: OnceLock<Uuid>,
}

#[derive(Default)]
struct State {
    heads: BTreeMap<MetricId, Bytes>,
    blocks: BTreeMap<BlockKey, Bytes>,
}

impl State {
    fn range<'a>(&'a self, range: &'a BlockRange) -> impl Iterator<Item = (&'a BlockKey, &'a Bytes)> {
        let BlockRange { metric, granularity, .. } = *range;
        let key = |at| BlockKey { metric, granularity, first: at, last: at };
        self.blocks
            .range(key(Timestamp(i64::MIN))..=key(Timestamp::MAX))
            .filter(move |(key, _)| key.first <= range.to && key.last >= range.from)
    }

    fn blocks(&self, range: &BlockRange) -> Blocks {
        let whole = self.range(range).map(|(key, bytes)| (*key, bytes.clone())).collect();
        Blocks { whole, damaged: Vec::new() }
    }
}

#[async_trait]
impl AggregateStore for MemoryAggregates {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        let state = self.state.read();
        metrics.iter().map(|metric| Ok(state.heads.get(metric).cloned())).collect()
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks>> {
        let state = self.state.read();
        ranges.iter().map(|range| Ok(state.blocks(range))).collect()
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>>> {
        let state = self.state.read();
        ranges.iter().map(|range| Ok(state.range(range).map(|(key, _)| *key).collect())).collect()
    }

    async fn raise(&self, fence: Fence) -> Result<()> {
        self.fences.raise(fence).map_err(|held| StoreError::refused(fence, held))
    }

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<()>> {
        if let Err(held) = self.fences.check(fence) {
            return vec![Err(StoreError::refused(fence, held)); writes.len()];
        }
        let mut state = self.state.write();
        let answers = vec![Ok(()); writes.len()];
        for write in writes {
            for key in &write.expired {
                state.blocks.remove(key);
            }
            state.blocks.extend(write.blocks);
            state.heads.insert(write.metric, write.head);
        }
        answers
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<()>> {
        if let Err(held) = self.fences.check(fence) {
            return vec![Err(StoreError::refused(fence, held)); metrics.len()];
        }
        let mut state = self.state.write();
        for metric in metrics {
            state.heads.remove(metric);
            state.blocks.retain(|key, _| key.metric != *metric);
        }
        vec![Ok(()); metrics.len()]
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Movable for MemoryAggregates {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn identity(&self) -> Result<Uuid> {
        Ok(*self.identity.get_or_init(Uuid::new_v4))
    }

    async fn state(&self) -> Result<StoreState> {
        Ok(*self.moved.read())
    }

    async fn set_state(&self, state: StoreState) -> Result<()> {
        *self.moved.write() = state;
        Ok(())
    }

    async fn list_metrics(&self) -> Result<Vec<MetricId>> {
        Ok(self.state.read().heads.keys().copied().collect())
    }
}
