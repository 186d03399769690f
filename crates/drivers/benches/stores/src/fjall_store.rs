//! fjall: an LSM tree with a journal; two keyspaces, batches across both.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
};
use gnudi_model::{MetricId, Timestamp};

use crate::key::{decode, encode, open, seal};

pub struct FjallStore {
    database: Database,
    heads: Keyspace,
    blocks: Keyspace,
}

impl FjallStore {
    pub fn open(dir: &Path) -> Result<Arc<Self>, String> {
        let database = Database::builder(dir)
            .cache_size(32 << 20)
            .manual_journal_persist(true)
            .max_journaling_size(256 << 20)
            .open()
            .map_err(|error| error.to_string())?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(32 << 20);
        let heads = database.keyspace("heads", options).map_err(|error| error.to_string())?;
        let blocks = database.keyspace("blocks", options).map_err(|error| error.to_string())?;
        Ok(Arc::new(Self { database, heads, blocks }))
    }

    fn scan<T>(
        &self,
        range: &BlockRange,
        mut item: impl FnMut(BlockKey, &[u8]) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let bound = |last, first| {
            encode(&BlockKey { metric: range.metric, granularity: range.granularity, first, last })
        };
        let low = bound(range.from, Timestamp(i64::MIN));
        let high = bound(Timestamp::MAX, Timestamp::MAX);
        let mut found = Vec::new();
        for entry in self.blocks.range(low..=high) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            let key = decode(&key);
            if key.first > range.to {
                break;
            }
            found.extend(item(key, &value));
        }
        Ok(found)
    }
}

fn failed(error: fjall::Error) -> StoreError {
    StoreError::Io(error.to_string())
}

#[async_trait]
impl AggregateStore for FjallStore {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        let read = |metric: &MetricId| {
            self.heads.get(metric.0.as_bytes()).map_err(failed)?.map(|sealed| open(&sealed)).transpose()
        };
        metrics.iter().map(read).collect()
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        let whole = |whole| Blocks { whole, damaged: Vec::new() };
        let read = |range| self.scan(range, |key, sealed| Some((key, open(sealed).ok()?))).map(whole);
        ranges.iter().map(read).collect()
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        ranges.iter().map(|range| self.scan(range, |key, _| Some(key))).collect()
    }

    async fn raise(&self, _fence: Fence) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write(&self, _fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let count = writes.len();
        let mut batch = self.database.batch();
        for write in writes {
            for key in &write.expired {
                batch.remove(&self.blocks, encode(key));
            }
            for (key, bytes) in &write.blocks {
                batch.insert(&self.blocks, encode(key), seal(bytes));
            }
            batch.insert(&self.heads, *write.metric.0.as_bytes(), seal(&write.head));
        }
        let answer = batch.commit().map_err(failed);
        vec![answer; count]
    }

    async fn delete(&self, _fence: Fence, _metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        unreachable!("not part of the comparison")
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.database.persist(PersistMode::SyncData).map_err(failed)
    }
}
