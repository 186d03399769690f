//! Incoming measures in Redis, for any number of processes.
//!
//! A sack's entries are a stream. A script appends the parts of batches and assigns positions: microseconds
//! of the server's clock, or one more than the last that the server or the appending process knows, so that they
//! grow even if a failover lost the newest entries, or a restart all of them. The sacks lie in groups, each on one
//! node; a single server has one group, and accepts batches of up to 512 sacks atomically.
//!
//! Durability depends on the server's configuration (`appendfsync`, replicas), which is read but never
//! changed.

mod append;
pub(crate) mod layout;
mod numbering;
mod read;
mod registration;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use async_trait::async_trait;
use gnudi_model::{Fault, MetricId, Numbering, Sack, SackCount};
use parking_lot::RwLock;
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot},
    time::Instant,
};
use uuid::Uuid;

use self::{
    append::Queued,
    numbering::{LANE, Root, Step, root_call},
    read::READ_BYTES_MAX,
};
use super::{
    Append, Backlog, Batch, Consume, Incoming, IncomingError, Pending, Position, Record, Result, Topology,
    registry::{self, LogRegistry},
};
use crate::{
    Figure, OpenError,
    clients::redis::{
        Call, ClientError, Confirm, RedisClient, RedisDurability, RedisFigures, RedisOptions, Tag, scripts,
    },
    quarantine::Reported,
    tasks::Tasks,
};

scripts! {
    append: "lua/append.lua";
    pending: "lua/pending.lua";
    acknowledge: "lua/acknowledge.lua";
    trim: "lua/trim.lua";
    arrivals: "lua/arrivals.lua";
    seal: "lua/seal.lua";
    open: "lua/open.lua";
    forget: "lua/forget.lua";
    root: "lua/root.lua";
    raise: "lua/raise.lua";
}

#[derive(Clone, Debug)]
pub struct RedisIncomingOptions {
    pub redis: RedisOptions,
    /// Prefix of all keys' names.
    pub prefix: String,
    /// For a new store; an existing one keeps its own.
    pub sack_count: SackCount,
    pub backlog_bytes_max: u64,
    /// In a cluster, or with many sacks, how long the backlog's size is cached for the check against its limit.
    pub backlog_age_max: Duration,
    /// How often the sack count is polled.
    pub numbering_interval: Duration,
}

impl RedisIncomingOptions {
    pub fn new(redis: RedisOptions) -> Self {
        RedisIncomingOptions {
            redis,
            prefix: "gnudi".to_owned(),
            sack_count: SackCount::DEFAULT,
            backlog_bytes_max: 8 << 30,
            backlog_age_max: Duration::from_secs(1),
            numbering_interval: Duration::from_millis(500),
        }
    }
}

pub struct RedisIncoming {
    store: Arc<Store>,
    queue: mpsc::Sender<Queued>,
    arrived: Notify,
    /// The highest position reported, by group.
    named: Mutex<Vec<u64>>,
    tasks: Tasks,
}

/// Shared by all tasks of a driver.
struct Store {
    client: RedisClient,
    scripts: Scripts,
    options: RedisIncomingOptions,
    cluster: Uuid,
    root_tag: Tag,
    tags: Vec<Tag>,
    numbering: RwLock<KnownNumbering>,
    /// Why this log is no longer the followed one.
    replaced: OnceLock<String>,
    /// Whether the engine lost the record: set from the first read that finds it so until the record is complete again.
    is_lost: AtomicBool,
    /// The log begins above this position, or has reached it. Appends go on above it whatever the engine has lost.
    passed: AtomicU64,
    backlog_bytes: Mutex<Option<(Instant, u64)>>,
    /// Counts and ids of sacks, with positions.
    damaged: Reported<(u16, u16, u64)>,
}

/// What a process knows of the sack count.
#[derive(Clone, Copy)]
struct KnownNumbering {
    numbering: Numbering,
    /// Whether groups accept appends by this count: all were sealed before.
    opened: bool,
}

impl Store {
    fn groups(&self) -> u16 {
        self.tags.len() as u16
    }

    fn group_of(&self, sack: Sack) -> u16 {
        sack.id.0 % self.groups()
    }

    fn tag_of(&self, sack: Sack) -> &Tag {
        &self.tags[usize::from(self.group_of(sack))]
    }

    fn numbering(&self) -> Numbering {
        self.numbering.read().numbering
    }

    /// The numbering for those who read: a split has not begun before the old sacks are sealed. Until then another process
    /// may append to one that is idle, behind which records in the new sacks must wait.
    fn sealed_numbering(&self) -> Numbering {
        let KnownNumbering { numbering, opened } = *self.numbering.read();
        if opened { numbering } else { Numbering::settled(numbering.units()) }
    }

    fn set_numbering(&self, numbering: Numbering, opened: bool) {
        let mut known = self.numbering.write();
        let is_same = known.numbering == numbering;
        *known = KnownNumbering { numbering, opened: opened || is_same && known.opened };
        drop(known);
        if !is_same {
            let (count, draining) = (numbering.count.get(), numbering.draining);
            tracing::info!(count, draining, "the numbering of the sacks has changed");
        }
    }

    /// A group has accepted an append by this count.
    fn note_opened(&self, count: SackCount) {
        if !self.numbering.read().opened {
            let mut known = self.numbering.write();
            let is_known = known.numbering.count == count;
            known.opened |= is_known;
        }
    }

    fn client_timeout(&self) -> Duration {
        self.options.redis.timeout
    }

    /// The bytes of the backlog, possibly cached. Without those of groups whose node does not respond: the others accept
    /// measures nevertheless.
    async fn recent_backlog_bytes(&self) -> u64 {
        let mut known = self.backlog_bytes.lock().await;
        if let Some((at, bytes)) = *known
            && at.elapsed() < self.options.backlog_age_max
        {
            return bytes;
        }
        let bytes: u64 = self.backlogs().await.iter().flatten().map(|backlog| backlog.bytes).sum();
        *known = Some((Instant::now(), bytes));
        bytes
    }

    /// Polls the numbering until the driver is dropped.
    async fn watch(store: Weak<Store>, interval: Duration) {
        let mut was_opened = true;
        loop {
            tokio::time::sleep(interval).await;
            let Some(store) = store.upgrade() else { return };
            match store.poll(was_opened).await {
                Ok(opened) => was_opened = opened,
                Err(error) => tracing::debug!(%error, "the numbering of the sacks is not known"),
            }
            store.client.refresh_replicas().await;
        }
    }

    /// Reads the numbering. Carries on a split that stands still since the last poll, or a lost record: without appends
    /// nobody else would. Returns whether all groups are opened.
    async fn poll(&self, was_opened: bool) -> Result<bool> {
        let root = self.refresh().await?;
        if !root.opened && !was_opened {
            self.carry_on(root.numbering.count).await?;
        }
        Ok(root.opened)
    }
}

impl RedisIncoming {
    /// Connects and creates a missing store; refuses one of another cluster. With a registry, positions continue
    /// above those already used if the log replaced another one, or was emptied (`incoming::registry`).
    pub async fn open(
        mut options: RedisIncomingOptions,
        registry: Option<Arc<dyn LogRegistry>>,
        cluster: Uuid,
    ) -> Result<Arc<Self>, OpenError> {
        let scripts = Scripts::new();
        let place = options.redis.url.to_string();
        let failed = |reason: String| OpenError::Engine { engine: place.clone(), reason };
        let of_client = |error: ClientError| failed(error.to_string());
        let of_log = |error: IncomingError| failed(error.to_string());
        let client =
            RedisClient::connect(options.redis.clone(), scripts.all(), LANE + 1).await.map_err(of_client)?;
        if let Some(registry) = &registry {
            options.sack_count = registry::sacks(&**registry, options.sack_count).await.map_err(of_log)?;
        }
        let root_tag = layout::root_tag(&options.prefix);
        check_streams(&client, &root_tag).await.map_err(of_client)?;
        let root = found(&client, &scripts, &root_tag, &options, cluster).await.map_err(of_client)?;
        check(&root, &options, cluster)?;
        let store = Arc::new(Store {
            client,
            scripts,
            cluster,
            root_tag,
            tags: layout::group_tags(&options.prefix, root.groups),
            numbering: RwLock::new(KnownNumbering { numbering: root.numbering, opened: root.opened }),
            replaced: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            backlog_bytes: Mutex::new(None),
            damaged: Reported::default(),
            options,
        });
        if !root.opened {
            store.carry_on(root.numbering.count).await.map_err(of_log)?;
        }
        let mut tasks = Tasks::default();
        if let Some(registry) = registry {
            let log = store.register(&*registry).await.map_err(of_log)?;
            tasks.start(Store::keep_ahead(Arc::downgrade(&store), registry, log));
        }
        let (queue, queued) = mpsc::channel(append::QUEUE_BATCHES_MAX);
        let queued = Arc::new(Mutex::new(queued));
        for lane in 0..append::LANES {
            tasks.start(append::lane(Arc::clone(&store), lane, Arc::clone(&queued)));
        }
        tasks.start(Store::watch(Arc::downgrade(&store), store.options.numbering_interval));
        let named = Mutex::new(vec![0; store.tags.len()]);
        Ok(Arc::new(RedisIncoming { store, queue, arrived: Notify::new(), named, tasks }))
    }

    /// The durability that the servers guarantee.
    pub fn durability(&self) -> RedisDurability {
        self.store.client.durability()
    }

    pub fn figures(&self) -> RedisFigures {
        self.store.client.figures()
    }
}

/// Refuses a server that cannot trim streams by their positions: it would accept measures, and remove none. Before Redis 6.2
/// XTRIM ignores its arguments if there is no stream, so this asks with XADD, which adds nothing to a missing stream.
async fn check_streams(client: &RedisClient, tag: &Tag) -> Result<(), ClientError> {
    let mut probe = Call::command("XADD", tag).key(tag.key(":probe"));
    for argument in ["NOMKSTREAM", "MINID", "0", "*", "p", ""] {
        probe.push(argument);
    }
    // Whether it responds at all is seen later; one whose memory is full can be read.
    if let Err(ClientError::Refused(reason)) = client.call(LANE, Confirm::Master, vec![probe]).await.remove(0)
    {
        let text = format!("{reason}: XADD and XTRIM of Redis 6.2 or Valkey are needed");
        return Err(ClientError::Refused(text));
    }
    Ok(())
}

/// The store's record, created if missing.
async fn found(
    client: &RedisClient,
    scripts: &Scripts,
    tag: &Tag,
    options: &RedisIncomingOptions,
    cluster: Uuid,
) -> Result<Root, ClientError> {
    let groups = if client.is_cluster() { layout::GROUPS_OF_A_CLUSTER } else { layout::GROUPS_OF_ONE_SERVER };
    let mut call = root_call(scripts, tag, cluster, groups, options.sack_count);
    Step::Read.add_to(&mut call);
    let value = client.call(LANE, Confirm::Replicas, vec![call]).await.remove(0)?;
    let key = format!("{}:r", tag.name);
    Root::parse(value).ok_or_else(|| ClientError::Refused(format!("the key {key} has an unknown format")))
}

fn check(root: &Root, options: &RedisIncomingOptions, cluster: Uuid) -> Result<(), OpenError> {
    let place = format!("{}, prefix {}", options.redis.url, options.prefix);
    if root.format > layout::FORMAT {
        let reason =
            format!("its format {} is newer than this program, which knows {}", root.format, layout::FORMAT);
        return Err(OpenError::Engine { engine: place, reason });
    }
    match Uuid::parse_str(&root.cluster) {
        Ok(found) if found == cluster => Ok(()),
        Ok(found) => Err(OpenError::OtherCluster { place, found, own: cluster }),
        Err(_) => {
            let reason = format!("the cluster's id {:?} is none", root.cluster);
            Err(OpenError::Engine { engine: place, reason })
        }
    }
}

impl From<ClientError> for IncomingError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unavailable(reason) => IncomingError::Unavailable(reason),
            ClientError::NoSpace(reason) => IncomingError::NoSpace(reason),
            ClientError::Refused(reason) => IncomingError::Io(reason),
        }
    }
}

impl Incoming for RedisIncoming {
    fn damaged(&self) -> u64 {
        self.store.damaged.found()
    }

    fn shared_figures(&self) -> Vec<Figure> {
        self.figures().list(self.damaged())
    }

    fn fault(&self) -> Option<Fault> {
        let replaced = self.store.replaced.get();
        replaced
            .map(|_| Fault::Ended("the log in Redis that this process follows"))
            .or_else(|| self.tasks.fault("a task of the log in Redis"))
    }

    fn topology(&self) -> Option<&dyn Topology> {
        Some(self)
    }
}

#[async_trait]
impl Append for RedisIncoming {
    async fn append(&self, batch: Batch) -> Result<()> {
        if batch.entries.is_empty() {
            return Ok(());
        }
        if let Some(reason) = self.store.replaced.get() {
            return Err(IncomingError::Poisoned(reason.clone()));
        }
        let late = || IncomingError::Unavailable(format!("{} is behind", self.store.client.place()));
        let deadline = Instant::now() + 2 * self.store.client_timeout();
        let (answer, answered) = oneshot::channel();
        match tokio::time::timeout_at(deadline, self.queue.send(Queued { batch, answer })).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(late()),
        }
        match tokio::time::timeout_at(deadline, answered).await {
            Ok(Ok(result)) => {
                self.arrived.notify_one();
                result
            }
            Ok(Err(_)) | Err(_) => Err(late()),
        }
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.store.backlog().await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>> {
        let mut measures: HashMap<MetricId, u64> = HashMap::new();
        for sack in self.store.arrived(&mut vec![0; self.store.tags.len()]).await? {
            let mut after = Position(0);
            loop {
                let Pending { records, more } = self.pending(sack, after, READ_BYTES_MAX).await?;
                for Record { metric, measures: of_record, .. } in &records {
                    *measures.entry(*metric).or_default() += u64::from(*of_record);
                }
                match records.last() {
                    Some(last) if more => after = last.position,
                    _ => break,
                }
            }
        }
        Ok(measures)
    }
}

#[async_trait]
impl Topology for RedisIncoming {
    async fn split(&self) -> Result<Numbering> {
        self.store.split().await
    }

    async fn settle(&self) -> Result<Numbering> {
        self.store.settle().await
    }
}
