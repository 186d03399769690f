//! redb: a copy-on-write B+ tree in one file; writes are not durable until a durable commit, which is `sync`.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
};
use gnudi_model::{MetricId, Timestamp};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::key::{decode, encode, open, seal};

const HEADS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("heads");
const BLOCKS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("blocks");

pub struct RedbStore(Database);

impl RedbStore {
    pub fn open(dir: &Path) -> Result<Arc<Self>, String> {
        std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let mut builder = Database::builder();
        builder.set_cache_size(64 << 20);
        let database = builder.create(dir.join("aggregates.redb")).map_err(|error| error.to_string())?;
        let store = Self(database);
        store.commit(Durability::Immediate, |_, _| Ok(())).map_err(|error| error.to_string())?;
        Ok(Arc::new(store))
    }

    fn commit(
        &self,
        durability: Durability,
        work: impl FnOnce(
            &mut redb::Table<'_, &[u8], &[u8]>,
            &mut redb::Table<'_, &[u8], &[u8]>,
        ) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(durability).expect("no savepoints");
        {
            let mut heads = transaction.open_table(HEADS)?;
            let mut blocks = transaction.open_table(BLOCKS)?;
            work(&mut heads, &mut blocks)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn heads(&self, metrics: &[MetricId]) -> Result<Vec<Result<Option<Bytes>, StoreError>>, redb::Error> {
        let transaction = self.0.begin_read()?;
        let heads = transaction.open_table(HEADS)?;
        let read = |metric: &MetricId| match heads.get(&metric.0.as_bytes()[..]) {
            Ok(value) => value.map(|value| open(value.value())).transpose(),
            Err(error) => Err(failed(error.into())),
        };
        Ok(metrics.iter().map(read).collect())
    }

    fn blocks(&self, range: &BlockRange) -> Result<Vec<(BlockKey, Bytes)>, redb::Error> {
        let bound = |last, first| {
            encode(&BlockKey { metric: range.metric, granularity: range.granularity, first, last })
        };
        let (low, high) = (bound(range.from, Timestamp(i64::MIN)), bound(Timestamp::MAX, Timestamp::MAX));
        let transaction = self.0.begin_read()?;
        let blocks = transaction.open_table(BLOCKS)?;
        let mut found = Vec::new();
        for entry in blocks.range(&low[..]..=&high[..])? {
            let (key, value) = entry?;
            let key = decode(key.value());
            if key.first > range.to {
                break;
            }
            found.extend(open(value.value()).ok().map(|bytes| (key, bytes)));
        }
        Ok(found)
    }
}

fn failed(error: redb::Error) -> StoreError {
    StoreError::Io(error.to_string())
}

#[async_trait]
impl AggregateStore for RedbStore {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        self.heads(metrics).unwrap_or_else(|error| vec![Err(failed(error)); metrics.len()])
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        let whole = |whole| Blocks { whole, damaged: Vec::new() };
        ranges.iter().map(|range| self.blocks(range).map(whole).map_err(failed)).collect()
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        let keys = |blocks: Vec<(BlockKey, Bytes)>| blocks.into_iter().map(|(key, _)| key).collect();
        ranges.iter().map(|range| self.blocks(range).map(keys).map_err(failed)).collect()
    }

    async fn raise(&self, _fence: Fence) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write(&self, _fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let answer = self.commit(Durability::None, |heads, blocks| {
            for write in &writes {
                for key in &write.expired {
                    blocks.remove(&encode(key)[..])?;
                }
                for (key, bytes) in &write.blocks {
                    blocks.insert(&encode(key)[..], &seal(bytes)[..])?;
                }
                heads.insert(&write.metric.0.as_bytes()[..], &seal(&write.head)[..])?;
            }
            Ok(())
        });
        vec![answer.map_err(failed); writes.len()]
    }

    async fn delete(&self, _fence: Fence, _metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        unreachable!("not part of the comparison")
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.commit(Durability::Immediate, |_, _| Ok(())).map_err(failed)
    }
}
