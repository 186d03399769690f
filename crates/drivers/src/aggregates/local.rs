//! Aggregates in an embedded store on the local disk.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use gnudi_model::{MetricId, Timespan, Timestamp};

use super::{AggregateStore, BlockKey, BlockRange, MetricWrite, StoreError};
use crate::OpenError;

/// Limits of the store.
#[derive(Clone, Debug)]
pub struct LocalAggregatesOptions {
    /// Memory for cached blocks of the store's files.
    pub cache_bytes: u64,
}

impl Default for LocalAggregatesOptions {
    fn default() -> Self {
        Self { cache_bytes: 32 << 20 }
    }
}

pub struct LocalAggregates {
    database: Database,
    heads: Keyspace,
    blocks: Keyspace,
}

impl LocalAggregates {
    pub fn open(dir: &Path, options: &LocalAggregatesOptions) -> Result<Arc<Self>, OpenError> {
        let invalid =
            |error: fjall::Error| OpenError::Invalid { path: dir.to_owned(), reason: error.to_string() };
        let database = Database::builder(dir)
            .cache_size(options.cache_bytes)
            .manual_journal_persist(true)
            .open()
            .map_err(invalid)?;
        let heads = database.keyspace("heads", KeyspaceCreateOptions::default).map_err(invalid)?;
        let blocks = database.keyspace("blocks", KeyspaceCreateOptions::default).map_err(invalid)?;
        Ok(Arc::new(Self { database, heads, blocks }))
    }

    fn scan<T>(
        &self,
        range: &BlockRange,
        mut item: impl FnMut(BlockKey, &[u8]) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let bound = |last, first| {
            encode(&BlockKey { metric: range.metric, granularity: range.granularity, first, last })
        };
        let (low, high) =
            (bound(range.from, Timestamp(i64::MIN)), bound(Timestamp::MAX, Timestamp(i64::MAX)));
        let mut found = Vec::new();
        for entry in self.blocks.range(low..=high) {
            let (key, value) = entry.into_inner().map_err(io)?;
            let key = decode(&key);
            if key.first > range.to {
                break;
            }
            found.push(item(key, &value)?);
        }
        Ok(found)
    }
}

fn io(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            StoreError::NoSpace(error.to_string())
        }
        error => StoreError::Io(error.to_string()),
    }
}

fn encode(key: &BlockKey) -> [u8; 40] {
    let mut out = [0; 40];
    out[..16].copy_from_slice(key.metric.0.as_bytes());
    for (at, number) in [key.granularity.0, key.last.0, key.first.0].into_iter().enumerate() {
        out[16 + at * 8..24 + at * 8].copy_from_slice(&(number as u64 ^ 1 << 63).to_be_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> BlockKey {
    let number = |at: usize| {
        let bytes: [u8; 8] = bytes[16 + at * 8..24 + at * 8].try_into().expect("eight bytes");
        (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
    };
    let metric = bytes[..16].try_into().expect("sixteen bytes");
    BlockKey {
        metric: MetricId(uuid::Uuid::from_bytes(metric)),
        granularity: Timespan(number(0)),
        last: Timestamp(number(1)),
        first: Timestamp(number(2)),
    }
}

fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + bytes.len());
    out.extend_from_slice(&crc_fast::crc32_iscsi(bytes).to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

fn open(sealed: &[u8]) -> Result<Bytes, StoreError> {
    match sealed.split_first_chunk::<4>() {
        Some((crc, bytes)) if crc_fast::crc32_iscsi(bytes).to_le_bytes() == *crc => {
            Ok(Bytes::copy_from_slice(bytes))
        }
        _ => Err(StoreError::Damaged("checksum".into())),
    }
}

#[async_trait]
impl AggregateStore for LocalAggregates {
    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>, StoreError>> {
        let read = |metric: &MetricId| {
            self.heads.get(metric.0.as_bytes()).map_err(io)?.map(|sealed| open(&sealed)).transpose()
        };
        metrics.iter().map(read).collect()
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<(BlockKey, Bytes)>, StoreError>> {
        ranges.iter().map(|range| self.scan(range, |key, sealed| Ok((key, open(sealed)?)))).collect()
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>, StoreError>> {
        ranges.iter().map(|range| self.scan(range, |key, _| Ok(key))).collect()
    }

    async fn write(&self, writes: Vec<MetricWrite>) -> Vec<Result<(), StoreError>> {
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
        let answer = batch.commit().map_err(io);
        vec![answer; count]
    }

    async fn delete(&self, metrics: &[MetricId]) -> Vec<Result<(), StoreError>> {
        let delete = |metric: &MetricId| {
            let mut batch = self.database.batch();
            batch.remove(&self.heads, *metric.0.as_bytes());
            for entry in self.blocks.prefix(metric.0.as_bytes()) {
                batch.remove(&self.blocks, entry.key().map_err(io)?);
            }
            batch.commit().map_err(io)
        };
        metrics.iter().map(delete).collect()
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.database.persist(PersistMode::SyncData).map_err(io)
    }
}
