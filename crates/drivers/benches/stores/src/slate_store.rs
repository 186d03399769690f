//! `SlateDB`: an LSM tree on an object store, one for each shard. A write is durable when its log object is written.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, future::join_all, stream};
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, StoreError,
};
use gnudi_model::{MetricId, SackCount, Timestamp};
use object_store::ObjectStore;
use slatedb::{
    Db, Error, Settings, WriteBatch,
    config::{CompactionWorkerOptions, CompactorOptions, ScanOptions},
    db_cache::foyer::{FoyerCache, FoyerCacheOptions},
};
use tokio::runtime::Handle;

use crate::key::{decode, encode, open, seal};

/// Shards opened at once.
const OPENED_AT_ONCE: usize = 16;
const CLOSING_MAX: Duration = Duration::from_secs(20);
/// Shared by all shards.
const CACHE_BYTES: u64 = 256 << 20;

/// Few requests while idle, and little memory for each shard. A pass writes its log object at once.
pub fn tuned() -> Settings {
    let poll = Duration::from_secs(30);
    let worker = CompactionWorkerOptions {
        compactions_poll_interval: poll,
        max_sst_size: 8 << 20,
        ..CompactionWorkerOptions::default()
    };
    Settings {
        flush_interval: None,
        manifest_poll_interval: Duration::from_secs(60),
        l0_sst_size_bytes: 1 << 20,
        max_unflushed_bytes: 8 << 20,
        compactor_options: Some(CompactorOptions {
            poll_interval: poll,
            worker: Some(worker),
            ..CompactorOptions::default()
        }),
        ..Settings::default()
    }
}

pub struct SlateStore {
    shards: Vec<Db>,
    count: SackCount,
}

impl SlateStore {
    pub async fn open(
        objects: Arc<dyn ObjectStore>,
        count: SackCount,
        settings: Settings,
    ) -> Result<Arc<Self>, Error> {
        let options = FoyerCacheOptions { max_capacity: CACHE_BYTES, shards: 8 };
        let cache = Arc::new(FoyerCache::new_with_opts(options));
        let shards = stream::iter(0..count.0.get()).map(|shard| {
            Db::builder(format!("shard/{shard}"), objects.clone())
                .with_settings(settings.clone())
                .with_db_cache(cache.clone(), shard.into())
                .build()
        });
        Ok(Arc::new(Self { shards: shards.buffered(OPENED_AT_ONCE).try_collect().await?, count }))
    }

    fn shard(&self, metric: MetricId) -> usize {
        usize::from(self.count.sack_of(metric).0)
    }

    async fn head(&self, metric: MetricId) -> Result<Option<Bytes>, StoreError> {
        let found = self.shards[self.shard(metric)].get(head_key(metric)).await.map_err(failed)?;
        found.map(|sealed| open(&sealed)).transpose()
    }

    async fn blocks(&self, range: &BlockRange) -> Result<Vec<(BlockKey, Bytes)>, Error> {
        let bound = |last, first| {
            block_key(&BlockKey { metric: range.metric, granularity: range.granularity, first, last })
        };
        let (low, high) = (bound(range.from, Timestamp(i64::MIN)), bound(Timestamp::MAX, Timestamp::MAX));
        let options =
            ScanOptions { read_ahead_bytes: 256 << 10, cache_blocks: true, ..ScanOptions::default() };
        let mut entries =
            self.shards[self.shard(range.metric)].scan_with_options(low..=high, &options).await?;
        let mut found = Vec::new();
        while let Some(entry) = entries.next().await? {
            let key = decode(&entry.key[1..]);
            if key.first > range.to {
                break;
            }
            found.extend(open(&entry.value).ok().map(|bytes| (key, bytes)));
        }
        Ok(found)
    }

    async fn commit(&self, shard: usize, batch: WriteBatch) -> Result<(), StoreError> {
        self.shards[shard].write(batch).await.map_err(failed)?;
        self.shards[shard].flush().await.map_err(failed)
    }
}

impl Drop for SlateStore {
    fn drop(&mut self) {
        let closed = join_all(self.shards.iter().map(Db::close));
        // Damaged shards may not close.
        let closed = async { tokio::time::timeout(CLOSING_MAX, closed).await };
        let _ = tokio::task::block_in_place(|| Handle::current().block_on(closed));
    }
}

/// Heads before blocks, so that those of a pass are neighbours.
fn head_key(metric: MetricId) -> Vec<u8> {
    [&[0], &metric.0.as_bytes()[..]].concat()
}

fn block_key(key: &BlockKey) -> Vec<u8> {
    [&[1], &encode(key)[..]].concat()
}

fn failed(error: Error) -> StoreError {
    StoreError::Io(error.to_string())
}

#[async_trait]
impl AggregateStore for SlateStore {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        join_all(metrics.iter().map(|metric| self.head(*metric))).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks, StoreError>> {
        let whole = |whole| Blocks { whole, damaged: Vec::new() };
        let blocks = |range| async move { self.blocks(range).await.map(whole).map_err(failed) };
        join_all(ranges.iter().map(blocks)).await
    }

    async fn list_blocks(&self, _ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        unreachable!("not part of the comparison")
    }

    /// Opening a shard fences its former writer.
    async fn raise(&self, _fence: Fence) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write(&self, _fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
        let mut batches: Vec<Option<WriteBatch>> = self.shards.iter().map(|_| None).collect();
        for write in &writes {
            let batch = batches[self.shard(write.metric)].get_or_insert_default();
            for key in &write.expired {
                batch.delete(block_key(key));
            }
            for (key, bytes) in &write.blocks {
                batch.put(block_key(key), seal(bytes));
            }
            batch.put(head_key(write.metric), seal(&write.head));
        }
        let commits = batches.into_iter().enumerate().map(|(shard, batch)| async move {
            match batch {
                Some(batch) => self.commit(shard, batch).await,
                None => Ok(()),
            }
        });
        let answers = join_all(commits).await;
        writes.iter().map(|write| answers[self.shard(write.metric)].clone()).collect()
    }

    async fn delete(&self, _fence: Fence, _metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        unreachable!("not part of the comparison")
    }

    async fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
