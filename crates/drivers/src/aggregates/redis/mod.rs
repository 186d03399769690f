//! Aggregates in Redis, for any number of processes.
//!
//! Metrics are spread over shards, by their id modulo a count that is fixed when the store is created; the
//! keys of a shard lie on one node. A script checks a shard's fences and writes, atomically. A read is one
//! round trip, unless the response would be too large.
//!
//! Redis applies writes at once; whether they survive a power loss depends on the server (`appendfsync`). They wait for
//! replicas as appends do.

pub(crate) mod layout;
mod movable;
mod read;
mod write;

use std::{
    collections::HashSet,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::UNIX_EPOCH,
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{Fault, MetricId, Sack, SackCount};
use parking_lot::Mutex;
use redis::Value;
use uuid::Uuid;

use super::{
    Access, AggregateStore, BlockKey, BlockRange, Blocks, Fence, MetricWrite, Result, StoreError, StoreState,
};
use crate::{
    Figure, OpenError,
    clients::redis::{
        Call, ClientError, Confirm, RedisClient, RedisDurability, RedisFigures, RedisOptions, Tag, scripts,
    },
    quarantine::Reported,
    tasks::Tasks,
};

// Those that write check the fences first.
scripts! {
    raise: "lua/fences.lua", "lua/raise.lua";
    own_heads: "lua/fences.lua", "lua/own_heads.lua";
    write: "lua/fences.lua", "lua/order.lua", "lua/write.lua";
    delete: "lua/fences.lua", "lua/order.lua", "lua/delete.lua";
    read: "lua/read.lua";
    set_aside: "lua/set_aside.lua";
    root: "lua/root.lua";
}

#[derive(Clone, Debug)]
pub struct RedisAggregatesOptions {
    pub redis: RedisOptions,
    /// Prefix of all keys' names.
    pub prefix: String,
    /// For a new store; an existing one keeps its own. Best the number of sacks: a pass then writes to one
    /// shard.
    pub shards: NonZeroU16,
}

impl RedisAggregatesOptions {
    pub fn new(redis: RedisOptions) -> Self {
        let shards = NonZeroU16::new(128).expect("128 is not zero");
        RedisAggregatesOptions { redis, prefix: "gnudi".to_owned(), shards }
    }
}

pub struct RedisAggregates {
    client: Arc<RedisClient>,
    scripts: Scripts,
    root: Tag,
    tags: Vec<Tag>,
    /// For messages.
    place: String,
    next_lane: AtomicUsize,
    /// The number of the next write or deletion. Starts from the time: a process that opens the store again under the same
    /// lease must use higher numbers than before.
    next_write: AtomicU64,
    /// Leases of which a write or a deletion may still be under way: their sacks and tokens.
    in_doubt: Mutex<HashSet<(Sack, u64)>>,
    /// Metric ids, with names of blocks.
    damaged: Reported<Vec<u8>>,
    tasks: Tasks,
}

impl RedisAggregates {
    /// Connects and creates a missing store; refuses one of another cluster, or one that is not in use.
    pub async fn open(options: RedisAggregatesOptions, cluster: Uuid) -> Result<Arc<Self>, OpenError> {
        Self::open_for(options, cluster, Access::Use).await
    }

    /// Like [`RedisAggregates::open`], also for a move.
    pub async fn open_for(
        options: RedisAggregatesOptions,
        cluster: Uuid,
        access: Access,
    ) -> Result<Arc<Self>, OpenError> {
        let place = format!("{}, prefix {}", options.redis.url, options.prefix);
        let failed = |reason: String| OpenError::Engine { engine: place.clone(), reason };
        let scripts = Scripts::new();
        let client = RedisClient::connect(options.redis, scripts.all(), 1 + write::LANES)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let root = layout::root_tag(&options.prefix);
        let new = access.new_state();
        let call = Call::script(&scripts.root, &root)
            .key(root.key(":r"))
            .arg(cluster.to_string())
            .arg(new.map(|state| layout::format(state).to_string()).unwrap_or_default())
            .arg(options.shards.get())
            .arg(new.unwrap_or_default().name());
        let value = client.call(read::LANE, Confirm::Replicas, vec![call]).await.remove(0);
        let value = value.map_err(|error| failed(error.to_string()))?;
        if matches!(&value, Value::Array(items) if items.is_empty()) {
            return Err(access.missing(place));
        }
        let not_ours = || failed(format!("the key {}:r has an unknown format", root.name));
        let (found, format, shards, state): (String, u32, u16, String) =
            redis::from_redis_value(value).map_err(|_| not_ours())?;
        if format > layout::FORMAT {
            let known = layout::FORMAT;
            return Err(failed(format!(
                "its format {format} is newer than this program, which knows {known}"
            )));
        }
        let found = Uuid::parse_str(&found).map_err(|_| not_ours())?;
        if found != cluster {
            return Err(OpenError::OtherCluster { place, found, own: cluster });
        }
        access.check(StoreState::of_name(&state).ok_or_else(not_ours)?, || place.clone())?;
        let shards = NonZeroU16::new(shards).ok_or_else(not_ours)?;
        let tags = layout::shard_tags(&options.prefix, shards.get());
        let client = Arc::new(client);
        let mut tasks = Tasks::default();
        tasks.start(RedisClient::watch(Arc::downgrade(&client)));
        Ok(Arc::new(RedisAggregates {
            client,
            scripts,
            root,
            tags,
            place,
            next_lane: AtomicUsize::new(0),
            next_write: AtomicU64::new(UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64)),
            in_doubt: Mutex::default(),
            damaged: Reported::default(),
            tasks,
        }))
    }

    /// The durability that the servers guarantee.
    pub fn durability(&self) -> RedisDurability {
        self.client.durability()
    }

    pub fn figures(&self) -> RedisFigures {
        self.client.figures()
    }

    fn shard_of(&self, metric: MetricId) -> usize {
        usize::from(self.shards().sack_of(metric).0)
    }

    fn shards(&self) -> SackCount {
        SackCount(NonZeroU16::new(self.tags.len() as u16).expect("a store has shards"))
    }
}

fn store_error(error: ClientError) -> StoreError {
    match error {
        ClientError::Unavailable(reason) => StoreError::Unavailable(reason),
        ClientError::NoSpace(reason) => StoreError::NoSpace(reason),
        ClientError::Refused(reason) => StoreError::Io(reason),
    }
}

#[async_trait]
impl AggregateStore for RedisAggregates {
    fn fault(&self) -> Option<Fault> {
        self.tasks.fault("a task of the aggregates in Redis")
    }

    fn damaged(&self) -> u64 {
        self.damaged.found()
    }

    fn shared_figures(&self) -> Vec<Figure> {
        self.figures().list(self.damaged.found())
    }

    async fn read_heads(&self, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        self.heads(None, metrics).await
    }

    async fn read_own_heads(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<Option<Bytes>>> {
        let is_in_doubt = self.in_doubt.lock().contains(&(fence.sack, fence.token));
        self.heads(is_in_doubt.then_some(fence), metrics).await
    }

    async fn read_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Blocks>> {
        self.ranges(ranges, false).await
    }

    async fn list_blocks(&self, ranges: &[BlockRange]) -> Vec<Result<Vec<BlockKey>>> {
        let keys = |blocks: Blocks| blocks.whole.into_iter().map(|(key, _)| key).collect();
        self.ranges(ranges, true).await.into_iter().map(|found| found.map(keys)).collect()
    }

    async fn raise(&self, fence: Fence) -> Result<()> {
        self.raise_all(fence).await
    }

    async fn write(&self, fence: Fence, writes: Vec<MetricWrite>) -> Vec<Result<()>> {
        self.in_doubt_until_known(fence, self.write_each(fence, &writes)).await
    }

    async fn delete(&self, fence: Fence, metrics: &[MetricId]) -> Vec<Result<()>> {
        self.in_doubt_until_known(fence, self.delete_each(fence, metrics)).await
    }

    /// Nothing to do: each write has waited for replicas.
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
}
