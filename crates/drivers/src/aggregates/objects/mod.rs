//! Aggregates on an object store (Ceph, S3, Swift, a shared file system), shared by any number of processes.
//!
//! Metrics are spread over a fixed number of shards by their ids; each shard is a small LSM tree of tables
//! ([`super::table`]). A pass writes one immutable table for any number of metrics; a *manifest* lists the
//! valid tables, version by version (`manifest`, `chain`). A version is created only if absent, which is
//! both commit and fence: the manifest holds the raised fences, and a writer that loses the race must read it
//! before it retries. A small table lies in the object of the version that adds it: so a pass takes one request, and one
//! more for the chain if it was not read for some seconds. The manifest that its process knows has all heads of its
//! sack, once the outcome of its last write is known: later versions are other sacks' writes, and a former owner cannot
//! write any more. A sack normally lies in one shard: there are as many sacks as shards, or twice as many after a split.
//!
//! Tables are merged (`merge`), so that reads need few and superseded values are dropped; old tables are
//! kept for a while for readers that still use them (`maintenance`). Indexes and small tables are cached in memory,
//! within a limit (`cache`): an index takes 48 bytes for some kB of its table.
//!
//! A damaged entry hides older tables' entries: a head that may not be the newest is never served. A manifest's object
//! has two copies of it. If both are damaged and no newer version follows, the whole shard returns
//! [`StoreError::Damaged`], since its valid tables are unknown; removing that object returns the shard to the version
//! before.

mod cache;
mod chain;
mod damage;
mod format;
mod maintenance;
pub(crate) mod manifest;
mod merge;
mod movable;
mod names;
mod read;
mod requests;
mod table;
mod write;

use std::{
    collections::BTreeMap,
    num::NonZeroU16,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use gnudi_model::{MetricId, Sack, SackCount};
use uuid::Uuid;

use self::{
    chain::Shard,
    maintenance::Maintenance,
    requests::Requests,
    write::{Entries, enter, enter_deletion, shard_of},
};
use super::{Access, AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, Result, StoreError};
use crate::{
    Figure, OpenError,
    objects::{
        Objects,
        clock::{Clock, SystemClock},
    },
};

/// No process removes a merged table before it has known of the merge for so long. Options of processes may differ: what one
/// relies on must not depend on its own.
const GRACE_MS_MIN: u64 = 60_000;

/// Limits of the store; memory limits are per process.
#[derive(Clone, Debug)]
pub struct ObjectAggregatesOptions {
    /// Number of shards. Used when the store is created; an existing store keeps its own.
    pub shards: SackCount,
    /// Memory for cached indexes, and for small tables.
    pub cache_bytes_max: u64,
    /// Concurrent requests.
    pub requests_max: usize,
    /// Timeout of a call, and of each request of a merge; listings have a longer one.
    pub deadline_ms: u64,
    /// Delay before the first retry of an idempotent request; doubled before the second.
    pub retry_pause_ms: u64,
    /// Larger tables are split. Ceph accepts no objects above 128 MiB.
    pub table_bytes_max: u64,
    /// Larger tables of a pass are objects of their own. Others that append to the shard read the rest with its manifest.
    pub in_manifest_bytes_max: u64,
    /// How many new runs, or runs of similar size, are merged.
    pub merged_runs_min: usize,
    /// At this many runs in a level of a shard the newest are merged, whatever their sizes; at twice as many new runs
    /// writers wait.
    pub runs_max: usize,
    /// How many merges of more than an eighth of `table_bytes_max` run at once. Each has a stretch of each run, and a
    /// table of each output, in memory, and shards grow alike: all would merge at the same time.
    pub large_merges_max: usize,
    /// How long a process has known of a merge before it removes the merged tables, for current readers and for writers
    /// whose request got no response: at least four deadlines.
    pub grace_ms: u64,
    /// How long a process has known that manifests are outdated before it removes them.
    pub retain_ms: u64,
    /// How often a written shard is searched for orphaned tables, and their minimum age for removal.
    pub sweep_ms: u64,
}

impl Default for ObjectAggregatesOptions {
    fn default() -> Self {
        Self {
            shards: SackCount(NonZeroU16::new(128).expect("not zero")),
            cache_bytes_max: 256 << 20,
            requests_max: 64,
            deadline_ms: 10_000,
            retry_pause_ms: 50,
            table_bytes_max: 32 << 20,
            in_manifest_bytes_max: 1 << 20,
            merged_runs_min: 6,
            runs_max: 16,
            large_merges_max: 8,
            grace_ms: GRACE_MS_MIN,
            retain_ms: 60_000,
            sweep_ms: 3_600_000,
        }
    }
}

/// Counters of this process since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectAggregateFigures {
    /// Requests to the object store.
    pub requests: u64,
    /// Of all of them together.
    pub request_time: Duration,
    /// Bytes of tables written by passes, and by merges.
    pub written_bytes: u64,
    pub merged_bytes: u64,
    pub merges: u64,
    /// Cached now.
    pub cache_bytes: u64,
    /// Runs of all shards, as far as this process knows them.
    pub runs: u64,
    /// Damaged places found.
    pub damaged: u64,
}

/// A shard's pending results, one per item.
type Asked<A> = Pin<Box<dyn Future<Output = Result<Vec<Result<A>>>> + Send>>;

pub struct ObjectAggregates {
    requests: Arc<Requests>,
    shards: Vec<Arc<Shard>>,
    count: SackCount,
    maintenance: Maintenance,
}

impl ObjectAggregates {
    /// Opens the cluster's store in `objects`, creating it if missing; refuses one that is not in use.
    pub async fn open(
        objects: Arc<dyn Objects>,
        cluster: Uuid,
        options: ObjectAggregatesOptions,
    ) -> Result<Arc<Self>, OpenError> {
        Self::open_for(objects, cluster, options, Access::Use).await
    }

    /// Like [`ObjectAggregates::open`], also for a move.
    pub async fn open_for(
        objects: Arc<dyn Objects>,
        cluster: Uuid,
        options: ObjectAggregatesOptions,
        access: Access,
    ) -> Result<Arc<Self>, OpenError> {
        Self::open_at(objects, cluster, options, access, Arc::new(SystemClock)).await
    }

    /// Like [`ObjectAggregates::open_for`], with another clock.
    pub async fn open_at(
        objects: Arc<dyn Objects>,
        cluster: Uuid,
        options: ObjectAggregatesOptions,
        access: Access,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        assert!(options.grace_ms >= 4 * options.deadline_ms, "a grace time of {} ms", options.grace_ms);
        assert!(options.merged_runs_min >= 2 && options.runs_max >= options.merged_runs_min, "{options:?}");
        let requests = Arc::new(Requests::new(objects, options, clock));
        let count = format::open(&requests, cluster, access).await?;
        let shards = count.iter().map(|id| Arc::new(Shard::new(id.0))).collect();
        Ok(Arc::new(Self { requests, shards, count, maintenance: Maintenance::default() }))
    }

    pub fn figures(&self) -> ObjectAggregateFigures {
        let counters = &self.requests.counters;
        let known = self.shards.iter().filter_map(|shard| shard.known());
        ObjectAggregateFigures {
            requests: counters.requests.load(Ordering::Relaxed),
            request_time: Duration::from_micros(counters.request_us.load(Ordering::Relaxed)),
            written_bytes: counters.written_bytes.load(Ordering::Relaxed),
            merged_bytes: counters.merged_bytes.load(Ordering::Relaxed),
            merges: counters.merges.load(Ordering::Relaxed),
            cache_bytes: self.requests.cache.bytes(),
            runs: known.map(|known| known.runs.all().count() as u64).sum(),
            damaged: self.requests.damage.found(),
        }
    }

    /// Waits until no merge or cleanup is running.
    pub async fn settle(&self) {
        self.maintenance.wait_idle().await;
    }

    fn deadline(&self) -> Duration {
        Duration::from_millis(self.requests.options.deadline_ms)
    }

    /// Applies the timeout. The future may be dropped at any point: the chain then finds out what took
    /// effect.
    async fn in_time<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.deadline(), asked).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> StoreError {
        let place = self.requests.objects.place();
        StoreError::Unavailable(format!("{place}: no answer within {} ms", self.requests.options.deadline_ms))
    }

    /// Sends each shard its items, concurrently, and returns the results in the items' order.
    async fn ask<T: Copy, A>(
        &self,
        items: &[T],
        metric: impl Fn(&T) -> MetricId,
        ask: impl Fn(Arc<Requests>, Arc<Shard>, Vec<T>) -> Asked<A>,
    ) -> Vec<Result<A>> {
        let mut by_shard: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            let (places, items) = by_shard.entry(shard_of(self.count, metric(item))).or_default();
            places.push(at);
            items.push(*item);
        }
        let (mut places, mut asked) = (Vec::new(), Vec::new());
        for (shard, (places_of_shard, items)) in by_shard {
            let answers = ask(self.requests.clone(), self.shards[shard].clone(), items);
            asked.push(tokio::time::timeout(self.deadline(), answers));
            places.push(places_of_shard);
        }
        let mut answers = Vec::with_capacity(items.len());
        for (places, of_shard) in places.into_iter().zip(join_all(asked).await) {
            match of_shard.unwrap_or_else(|_| Err(self.late())) {
                Ok(of_shard) => answers.extend(places.into_iter().zip(of_shard)),
                Err(error) => answers.extend(places.into_iter().map(|place| (place, Err(error.clone())))),
            }
        }
        answers.sort_unstable_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// With a fence: for the process that has raised it.
    async fn heads(&self, own: Option<Fence>, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        self.ask(
            metrics,
            |metric| *metric,
            |requests, shard, metrics| {
                Box::pin(async move { requests.read_heads(&shard, own, &metrics).await })
            },
        )
        .await
    }

    /// Enters all items, each into the entries of its metric's shard, and writes all shards' entries concurrently.
    async fn add<T: Sync>(
        &self,
        fence: Fence,
        items: &[T],
        metric: fn(&T) -> MetricId,
        enter: fn(&mut Entries, &T),
    ) -> Vec<Result<()>> {
        let mut entries: BTreeMap<usize, Entries> = BTreeMap::new();
        let mut shard_of_item = Vec::with_capacity(items.len());
        for item in items {
            let shard = shard_of(self.count, metric(item));
            enter(entries.entry(shard).or_default(), item);
            shard_of_item.push(shard);
        }
        let answers = join_all(entries.into_iter().map(|(shard, entries)| async move {
            let at = &self.shards[shard];
            let answer = self.in_time(self.requests.add_run(at, fence, entries)).await;
            if answer.is_ok() {
                self.maintenance.after_write(&self.requests, at).await;
            }
            (shard, answer)
        }));
        let answers: BTreeMap<usize, Result<()>> = answers.await.into_iter().collect();
        shard_of_item.iter().map(|shard| answers[shard].clone()).collect()
    }
}

#[async_trait]
impl AggregateStore for ObjectAggregates {
    fn damaged(&self) -> u64 {
        self.requests.damage.found()
    }

    fn shared_figures(&self) -> Vec<Figure> {
        let figures = self.figures();
        let written = figures.written_bytes + figures.merged_bytes;
        vec![
            Figure::counter("requests", "Requests to the object store", figures.requests),
            Figure::time("request_seconds", "Time of these requests in seconds", figures.request_time),
            Figure::counter("written_bytes", "Bytes of tables written by passes and merges", written),
            Figure::counter("merges", "Merges of runs", figures.merges),
            Figure::counter("damaged", "Damaged places found", figures.damaged),
            Figure::gauge("runs", "Number of runs that this process knows", figures.runs),
            Figure::gauge("cache_bytes", "Memory of cached indexes and tables", figures.cache_bytes),
        ]
    }

    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        self.heads(None, metrics).await
    }

    async fn read_own_heads(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        self.heads(Some(fence), metrics).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks>> {
        self.ask(
            ranges,
            |range| range.metric,
            |requests, shard, ranges| Box::pin(async move { requests.read_blocks(&shard, &ranges).await }),
        )
        .await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>>> {
        self.ask(
            ranges,
            |range| range.metric,
            |requests, shard, ranges| Box::pin(async move { requests.list_blocks(&shard, &ranges).await }),
        )
        .await
    }

    async fn raise(&self, fence: Fence) -> Result<()> {
        let shared =
            self.count.sacks().zip(&self.shards).filter(|(sack, _): &(Sack, _)| sack.intersects(fence.sack));
        let raised = join_all(shared.map(|(_, shard)| self.in_time(self.requests.raise(shard, fence)))).await;
        raised.into_iter().collect()
    }

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<()>> {
        self.add(fence, &writes, |write| write.metric, enter).await
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<()>> {
        self.add(fence, metrics, |metric| *metric, |entries, metric| enter_deletion(entries, *metric)).await
    }

    /// Nothing to do: every write is durable.
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
}
