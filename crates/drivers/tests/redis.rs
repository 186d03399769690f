//! Redis as incoming and as aggregate store: the suites, on real servers.

#[path = "engines/redis.rs"]
mod engine;
#[path = "engines/server.rs"]
mod server;
mod support;

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use async_trait::async_trait;
use engine::{RedisCluster, RedisSentinels, RedisServer};
use futures_util::FutureExt as _;
use gnudi_drivers::{
    OpenError,
    aggregates::{
        Access, AggregateStore as _, Fence, MetricWrite, StoreError,
        redis::{RedisAggregates, RedisAggregatesOptions},
    },
    clients::redis::RedisOptions,
    conformance::{self, Damageable, IncomingSetup, MovableSetup},
    incoming::{
        Append as _, Batch, Consume as _, Incoming as _, IncomingError, Position, Topology as _,
        redis::{RedisIncoming, RedisIncomingOptions},
        registry::{LogRegistry, MemoryLogRegistry, RegisteredLog},
    },
};
use gnudi_model::{MetricId, Numbering, Sack, SackCount};
use server::fresh_name;
use support::{registry::Panicking, wait::until};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(0xc1);
const SETUP: IncomingSetup =
    IncomingSetup { sack_count: SackCount(NonZeroU16::new(4).unwrap()), backlog_bytes_max: u64::MAX };

fn incoming_options(url: &str, setup: IncomingSetup, prefix: &str) -> RedisIncomingOptions {
    RedisIncomingOptions {
        prefix: prefix.to_owned(),
        sack_count: setup.sack_count,
        backlog_bytes_max: setup.backlog_bytes_max,
        backlog_age_max: Duration::ZERO,
        numbering_interval: Duration::from_millis(50),
        ..RedisIncomingOptions::new(RedisOptions::new(url.parse().unwrap()))
    }
}

async fn incoming(url: &str, setup: IncomingSetup, prefix: &str) -> Arc<RedisIncoming> {
    RedisIncoming::open(incoming_options(url, setup, prefix), None, CLUSTER).await.unwrap()
}

/// Learns of a split only from what it does itself.
async fn seldom_polling(url: &str, prefix: &str) -> Arc<RedisIncoming> {
    let numbering_interval = Duration::from_hours(1);
    let options = RedisIncomingOptions { numbering_interval, ..incoming_options(url, SETUP, prefix) };
    RedisIncoming::open(options, None, CLUSTER).await.unwrap()
}

async fn incoming_suites(url: &str) {
    conformance::incoming(async |setup| incoming(url, setup, &fresh_name()).await).await;
    conformance::shared_incoming(async |setup| {
        let prefix = fresh_name();
        [incoming(url, setup, &prefix).await, incoming(url, setup, &prefix).await]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incoming_on_one_server() {
    let server = RedisServer::start(&[]);
    incoming_suites(&server.url()).await;
}

async fn aggregates(url: &str, prefix: &str, shards: u16) -> Arc<RedisAggregates> {
    let options = RedisAggregatesOptions {
        prefix: prefix.to_owned(),
        shards: NonZeroU16::new(shards).unwrap(),
        ..RedisAggregatesOptions::new(RedisOptions::new(url.parse().unwrap()))
    };
    RedisAggregates::open(options, CLUSTER).await.unwrap()
}

async fn aggregates_suite(url: &str) {
    // As many shards as sacks, one, and a count that is coprime to the sacks'.
    for shards in [128, 1, 7] {
        conformance::aggregates(async || aggregates(url, &fresh_name(), shards).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_on_one_server() {
    let server = RedisServer::start(&[]);
    aggregates_suite(&server.url()).await;
}

/// A store with its own key prefix on a server.
struct OnServer {
    url: String,
    prefix: String,
}

impl OnServer {
    fn new(server: &RedisServer) -> Self {
        OnServer { url: server.url(), prefix: fresh_name() }
    }
}

#[async_trait]
impl MovableSetup for OnServer {
    type Store = RedisAggregates;

    async fn open(&self, access: Access) -> Result<Arc<RedisAggregates>, OpenError> {
        let options = RedisAggregatesOptions {
            prefix: self.prefix.clone(),
            ..RedisAggregatesOptions::new(RedisOptions::new(self.url.parse().unwrap()))
        };
        RedisAggregates::open_for(options, CLUSTER, access).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_that_are_moved() {
    let server = RedisServer::start(&[]);
    conformance::movable(async || OnServer::new(&server)).await;
}

#[async_trait]
impl Damageable for OnServer {
    type Store = RedisAggregates;

    async fn open(&self) -> Arc<RedisAggregates> {
        aggregates(&self.url, &self.prefix, 7).await
    }

    async fn damage(&self, value: &[u8]) {
        let mut connection = redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap();
        let pattern = format!("{{{}:*", self.prefix);
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap();
        let mut hit = 0;
        for key in keys {
            let kind: String = redis::cmd("TYPE").arg(&key).query(&mut connection).unwrap();
            if kind != "hash" {
                continue;
            }
            let fields: Vec<(Vec<u8>, Vec<u8>)> =
                redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap();
            for (field, bytes) in fields {
                if let Some(hurt) = conformance::hurt(&bytes, value) {
                    redis::cmd("HSET").arg(&key).arg(field).arg(hurt).exec(&mut connection).unwrap();
                    hit += 1;
                }
            }
        }
        assert!(hit > 0, "the value is nowhere");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_aggregates_on_one_server() {
    let server = RedisServer::start(&[]);
    conformance::damaged_aggregates(async || OnServer::new(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_sentinels_name() {
    let sentinels = RedisSentinels::start(&[]);
    incoming_suites(&sentinels.url()).await;
    aggregates_suite(&sentinels.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster() {
    let cluster = RedisCluster::start(&[]);
    incoming_suites(&cluster.url()).await;
    aggregates_suite(&cluster.url()).await;
}

async fn registered(url: &str, registry: &Arc<MemoryLogRegistry>) -> Arc<RedisIncoming> {
    let registry: Arc<dyn LogRegistry> = registry.clone();
    RedisIncoming::open(incoming_options(url, SETUP, "registered"), Some(registry), CLUSTER).await.unwrap()
}

const METRIC: MetricId = MetricId(Uuid::from_u128(1));

/// A batch that its number of measures identifies.
fn batch(number: u32) -> Batch {
    let mut batch = Batch::default();
    batch.push(METRIC, number, |out| out.push(1));
    batch
}

/// Of the metric.
fn sack_of(log: &RedisIncoming) -> Sack {
    Sack::of(METRIC, log.numbering().count)
}

/// The position of a new record.
async fn append(log: &RedisIncoming) -> Position {
    log.append(batch(1)).await.unwrap();
    log.positions(&[sack_of(log)]).await.unwrap()[0].newest
}

/// It ends no connection, and goes on; what it accepts is lost once it follows the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_replaced_is_left() {
    let sentinels = RedisSentinels::start(&[]);
    let log = incoming(&sentinels.url(), SETUP, "replaced").await;
    append(&log).await;
    let sack = sack_of(&log);
    let stream = format!("{{replaced:in:0}}:s:4:{}", sack.id.0);
    let entries = || sentinels.servers[1].ask::<u64>(&["XLEN", &stream]);
    assert_eq!(entries(), 1, "the replica has what was acknowledged");
    // It keeps a replica of its own.
    let former = &sentinels.servers[0];
    let _replica = RedisServer::start(&["--replicaof", "127.0.0.1", &former.port.to_string()]);
    let replicas = || former.ask::<String>(&["INFO", "replication"]).matches("state=online").count();
    until("another replica", async || replicas() == 2).await;
    sentinels.replace_master();
    let is_left = async || {
        // Refused, or lost, until then.
        log.append(batch(1)).await.ok();
        entries() > 1
    };
    until("an entry on the new master", is_left).await;
}

/// A pass with the heads before a write and its blocks would count late points twice.
#[tokio::test]
async fn a_write_without_an_answer_is_refused_once_the_next_pass_has_begun() {
    let server = RedisServer::start(&[]);
    let open = async || aggregates(&server.url(), "late", 1).await;
    // The numbers of a store begin with the time at which it was opened.
    let (earlier, store) = (open().await, open().await);
    let fence = Fence { token: 9, ..Fence::EVERYTHING };
    let [written, missing] = [1, 2].map(|id| MetricId(Uuid::from_u128(id)));
    let write = |head: &'static str| vec![MetricWrite::of_head(written, head)];
    earlier.raise(fence).await.unwrap();
    assert!(earlier.write(fence, write("before")).await[0].is_ok());
    // Given up before it is sent.
    assert!(store.write(fence, write("lost")).now_or_never().is_none());
    let own_heads = store.read_own_heads(fence, &[written, missing]).await;
    assert_eq!(own_heads[0].as_ref().unwrap().as_deref(), Some(&b"before"[..]));
    assert!(matches!(own_heads[1], Ok(None)));
    // Still under way.
    let late = earlier.write(fence, write("late")).await.remove(0);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    let heads = store.read_heads(&[written]).await;
    assert_eq!(heads[0].as_ref().unwrap().as_deref(), Some(&b"before"[..]));
    assert!(store.write(fence, write("next")).await[0].is_ok());
    // The lease is lost.
    earlier.raise(Fence { token: 10, ..fence }).await.unwrap();
    let refused = store.read_own_heads(fence, &[written]).await.remove(0);
    assert!(matches!(refused, Err(StoreError::Fenced { held: 10, .. })), "{refused:?}");
}

/// A call that has timed out may be delivered after it was repeated over another connection. A move or an import has written
/// the metric again by then.
#[tokio::test]
async fn a_deletion_that_arrives_after_its_repetition_is_refused() {
    let server = RedisServer::start(&[]);
    let open = async || aggregates(&server.url(), "deletions", 1).await;
    // The numbers of a store begin with the time at which it was opened.
    let (earlier, later) = (open().await, open().await);
    let id = MetricId(Uuid::from_u128(1));
    let write = MetricWrite::of_head(id, "written again");
    assert!(later.delete(Fence::EVERYTHING, &[id]).await[0].is_ok());
    assert!(later.write(Fence::EVERYTHING, vec![write]).await[0].is_ok());
    let late = earlier.delete(Fence::EVERYTHING, &[id]).await.remove(0);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    let heads = later.read_heads(&[id]).await;
    assert_eq!(heads[0].as_ref().unwrap().as_deref(), Some(&b"written again"[..]));
    // One without an answer, given up before it is sent: from the next reading of the heads on it is refused.
    let last = open().await;
    assert!(last.delete(Fence::EVERYTHING, &[id]).now_or_never().is_none());
    let own_heads = last.read_own_heads(Fence::EVERYTHING, &[id]).await;
    assert_eq!(own_heads[0].as_ref().unwrap().as_deref(), Some(&b"written again"[..]));
    let late = later.delete(Fence::EVERYTHING, &[id]).await.remove(0);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(last.delete(Fence::EVERYTHING, &[id]).await[0].is_ok());
}

/// It would bring the data of a deleted metric back, and nothing would remove them any more.
#[tokio::test]
async fn a_write_without_an_answer_is_refused_once_its_metric_is_deleted() {
    let server = RedisServer::start(&[]);
    let open = async || aggregates(&server.url(), "deleted", 1).await;
    // The numbers of a store begin with the time at which it was opened.
    let (earlier, store) = (open().await, open().await);
    let fence = Fence { token: 9, ..Fence::EVERYTHING };
    let metric = MetricId(Uuid::from_u128(1));
    let write = |head: &'static str| vec![MetricWrite::of_head(metric, head)];
    store.raise(fence).await.unwrap();
    assert!(earlier.write(fence, write("before")).await[0].is_ok());
    assert!(store.delete(fence, &[metric]).await[0].is_ok());
    // Still under way.
    let late = earlier.write(fence, write("late")).await.remove(0);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(matches!(store.read_heads(&[metric]).await[0], Ok(None)));
    assert!(store.write(fence, write("next")).await[0].is_ok());
}

/// A batch whose caller gave up while it waited for a connection is not appended later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_is_not_appended() {
    let server = RedisServer::start(&[]);
    let driver = seldom_polling(&server.url(), "queue").await;
    server.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    // Both connections for appends wait for the server.
    let mut busy = Vec::new();
    for number in [1, 2] {
        let (trips, of_task, batch) = (driver.figures().trips, driver.clone(), batch(number));
        busy.push(tokio::spawn(async move { of_task.append(batch).await }));
        while driver.figures().trips == trips {
            assert!(!busy.last().is_some_and(tokio::task::JoinHandle::is_finished), "it did not wait");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let given_up = tokio::time::timeout(Duration::from_millis(10), driver.append(batch(3))).await;
    assert!(given_up.is_err());
    server.ask::<String>(&["CLIENT", "UNPAUSE"]);
    for appended in busy {
        appended.await.unwrap().unwrap();
    }
    assert!(driver.figures().trip_time >= Duration::from_millis(10), "appends have waited");
    driver.append(batch(4)).await.unwrap();
    let sack = sack_of(&driver);
    let records = driver.pending(sack, Position(0), usize::MAX).await.unwrap().records;
    let mut numbers: Vec<u32> = records.iter().map(|record| record.measures).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 4]);
}

/// A server that hung executes what it has received as soon as it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_while_the_server_hung_is_not_appended() {
    let server = RedisServer::start(&[]);
    let mut options = incoming_options(&server.url(), SETUP, "hung");
    options.numbering_interval = Duration::from_hours(1);
    let connect_timeout = Duration::from_millis(500);
    (options.redis.timeout, options.redis.connect_timeout) = (Duration::from_secs(1), connect_timeout);
    let driver = RedisIncoming::open(options, None, CLUSTER).await.unwrap();
    // Both connections for appends are made.
    for number in [1, 2] {
        until("an append", async || driver.append(batch(number)).await.is_ok()).await;
    }
    server.process.pause();
    let refused = driver.append(batch(3)).await;
    assert!(matches!(refused, Err(IncomingError::Unavailable(_))), "{refused:?}");
    // A connection knows the server's clock as exactly as it took to connect.
    tokio::time::sleep(connect_timeout).await;
    server.process.resume();
    until("appends go on", async || driver.append(batch(4)).await.is_ok()).await;
    let reader = seldom_polling(&server.url(), "hung").await;
    let records = reader.pending(sack_of(&reader), Position(0), usize::MAX).await.unwrap().records;
    let numbers: Vec<u32> = records.iter().map(|record| record.measures).collect();
    assert!([1, 2, 4].iter().all(|number| numbers.contains(number)), "{numbers:?}");
    assert!(!numbers.contains(&3), "{numbers:?}");
}

/// A server that was emptied, while in use and before a start, and one that replaces a log in another store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_go_on_above_those_of_a_log_that_is_lost() {
    let server = RedisServer::start(&[]);
    let registry = Arc::<MemoryLogRegistry>::default();
    let log = registered(&server.url(), &registry).await;
    let mut last = append(&log).await;
    let flush = || server.ask::<String>(&["flushall"]);
    for _ in 0..3 {
        flush();
        let next = append(&log).await;
        assert!(next > last, "{next:?} is not above {last:?}");
        last = next;
    }
    drop(log);
    flush();
    let log = registered(&server.url(), &registry).await;
    let next = append(&log).await;
    assert!(next > last, "{next:?} is not above {last:?}");
    let logs = registry.logs();
    assert_eq!(logs.len(), 2, "{logs:?}");
    // The same log again.
    drop(log);
    append(&*registered(&server.url(), &registry).await).await;
    assert_eq!(registry.logs().len(), 2);
    // A log in another store is further ahead than the clock.
    let far = Position(logs[1].first.0 + (1 << 50));
    let elsewhere = RegisteredLog { floor: far, ..logs[1].successor(Uuid::new_v4(), "bucket".to_owned()) };
    registry.register_log(&elsewhere).await.unwrap();
    let log = registered(&server.url(), &registry).await;
    assert!(append(&log).await > far);
    let logs = registry.logs();
    assert_eq!(logs.len(), 4);
    // Its clock, and the hour by which a server begins ahead of it, are far below.
    let last = append(&log).await;
    flush();
    let next = append(&log).await;
    assert!(next > last, "{next:?} is not above {last:?}");
    // Above the clock by more than a failover adds: its successor begins above that.
    assert!(append(&log).await < logs[3].floor && logs[3].first < logs[3].floor);
    // Beyond the range of the scripts.
    let beyond = registry.logs()[3].successor(Uuid::new_v4(), "bucket".to_owned());
    registry.register_log(&RegisteredLog { floor: Position(1 << 53), ..beyond }).await.unwrap();
    let options = incoming_options(&server.url(), SETUP, "registered");
    let refused = RedisIncoming::open(options, Some(registry), CLUSTER).await.err().unwrap().to_string();
    assert!(refused.contains("positions in Redis end below"), "{refused}");
}

/// Otherwise a later log could begin below positions that are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_task_that_raises_the_floor_is_a_fault() {
    let server = RedisServer::start(&[]);
    let registry: Arc<dyn LogRegistry> = Arc::<Panicking>::default();
    let options = incoming_options(&server.url(), SETUP, "panics");
    let log = RedisIncoming::open(options, Some(registry), CLUSTER).await.unwrap();
    assert_eq!(log.fault(), None);
    append(&log).await;
    until("a fault", async || log.fault().is_some()).await;
}

/// The server lost its data just before a starting process gave the log an identity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_has_an_identity_alone_is_completed() {
    let server = RedisServer::start(&[]);
    let identity = Uuid::new_v4().to_string();
    server.ask::<u64>(&["hset", "{registered:in}:r", "identity", &identity]);
    let registry = Arc::<MemoryLogRegistry>::default();
    append(&*registered(&server.url(), &registry).await).await;
    assert_eq!(registry.logs()[0].identity.to_string(), identity);
}

/// A master that took over lacks the acknowledgements of sacks that a split has left behind: nobody reads these any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failover_brings_back_in_old_sacks_does_not_count() {
    let server = RedisServer::start(&[]);
    let log = incoming(&server.url(), SETUP, "left").await;
    let position = append(&log).await;
    let sack = sack_of(&log);
    log.split().await.unwrap();
    let keys = ["m", "z", format!("s:4:{}", sack.id.0).as_str()].map(|key| format!("{{left:in:0}}:{key}"));
    let copy = |from: &str, to: &str| assert_eq!(server.ask::<u64>(&["copy", from, to, "replace"]), 1);
    for key in &keys {
        copy(key, &format!("{key}-before"));
    }
    log.acknowledge(sack, position).await.unwrap();
    assert!(!log.settle().await.unwrap().draining);
    for key in &keys {
        copy(&format!("{key}-before"), key);
    }
    assert_eq!(log.backlog().await.unwrap().measures, 1);
    let restarted = incoming(&server.url(), SETUP, "left").await;
    let forgotten = async {
        while log.backlog().await.unwrap().measures > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let forgotten = tokio::time::timeout(Duration::from_mins(1), forgotten);
    tokio::select! {
        arrived = restarted.arrivals() => panic!("{arrived:?}"),
        ended = forgotten => ended.expect("it is forgotten"),
    }
    let backlog = log.backlog().await.unwrap();
    assert_eq!((backlog.measures, backlog.bytes), (0, 0));
    assert_eq!(server.ask::<u64>(&["exists", &keys[2]]), 0);
    let next = append(&restarted).await;
    assert!(next > position, "{next:?} is not above {position:?}");
}

/// A master that took over lacks the acknowledgement, and perhaps the newest records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acknowledgement_is_repeated() {
    let server = RedisServer::start(&[]);
    let log = incoming(&server.url(), SETUP, "again").await;
    let position = append(&log).await;
    let sack = sack_of(&log);
    log.acknowledge_again(sack, Position(position.0 + 1)).await.unwrap();
    assert_eq!(log.positions(&[sack]).await.unwrap()[0].acknowledged, position);
    assert_eq!(log.backlog().await.unwrap().measures, 0);
}

/// In a cluster the record may be lost with its node, and the sacks on other nodes not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_whose_record_is_lost_is_resumed() {
    let server = RedisServer::start(&[]);
    let log = incoming(&server.url(), SETUP, "record").await;
    let position = append(&log).await;
    let sack = sack_of(&log);
    log.split().await.unwrap();
    assert_eq!(server.ask::<u64>(&["del", "{record:in}:r"]), 1);
    // The record is read regularly, and created by that.
    let opened = || server.ask::<Option<String>>(&["hget", "{record:in}:r", "opened"]);
    until("the split", async || opened().as_deref() == Some("1") && log.numbering().draining).await;
    append(&log).await;
    assert_eq!(log.pending(sack, Position(0), usize::MAX).await.unwrap().records.len(), 1);
    log.acknowledge(sack, position).await.unwrap();
    let numbering = log.settle().await.unwrap();
    assert_eq!((numbering.count.get(), numbering.draining), (8, false));
}

/// The same before a start, which takes the count from the registry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_whose_record_is_lost_is_resumed_by_a_start() {
    let server = RedisServer::start(&[]);
    let registry = Arc::<MemoryLogRegistry>::default();
    let log = registered(&server.url(), &registry).await;
    append(&log).await;
    let sack = sack_of(&log);
    log.split().await.unwrap();
    // A start tells the registry how many sacks there are.
    drop((log, registered(&server.url(), &registry).await));
    assert_eq!(server.ask::<u64>(&["del", "{registered:in}:r"]), 1);
    let log = registered(&server.url(), &registry).await;
    assert_eq!((log.numbering().count.get(), log.numbering().draining), (8, true));
    assert_eq!(log.pending(sack, Position(0), usize::MAX).await.unwrap().records.len(), 1);
}

/// Until then other processes may append to them: a worker must not take one for drained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_begins_once_the_old_sacks_are_sealed() {
    let server = RedisServer::start(&[]);
    let log = seldom_polling(&server.url(), "unsealed").await;
    // The process that splits has ended after its first step.
    server.ask::<u64>(&["hset", "{unsealed:in}:r", "count", "8", "draining", "1", "opened", "0"]);
    // Reads the record.
    assert!(log.settle().await.unwrap().draining);
    assert_eq!(log.numbering(), Numbering::settled(SETUP.sack_count));
    log.append(batch(1)).await.unwrap();
    assert_eq!((log.numbering().count.get(), log.numbering().draining), (8, true));
}

/// Its pass would leave them out otherwise, and they would wait until something else arrives in the same sack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_learns_of_a_split_from_what_arrives() {
    let server = RedisServer::start(&[]);
    let url = server.url();
    let (api, worker) = (seldom_polling(&url, "arrivals").await, seldom_polling(&url, "arrivals").await);
    let split = api.split().await.unwrap();
    api.append(batch(1)).await.unwrap();
    assert_eq!(worker.numbering(), Numbering::settled(SETUP.sack_count));
    assert_eq!(worker.arrivals().await, [Sack::of(METRIC, split.count)]);
    assert_eq!(worker.numbering(), split);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_trim_by_position_is_refused() {
    let server = RedisServer::start(&["--rename-command", "XADD", ""]);
    let options = incoming_options(&server.url(), SETUP, "old");
    let refused = RedisIncoming::open(options, None, CLUSTER).await.err().unwrap().to_string();
    assert!(refused.contains("Redis 6.2"), "{refused}");
}

/// Although one call of a script does not append to that many sacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_part_of_a_batch_that_is_refused_for_the_limit_is_appended() {
    let server = RedisServer::start(&[]);
    let sack_count = SackCount(NonZeroU16::new(1024).unwrap());
    // There is room for half of it.
    let setup = IncomingSetup { sack_count, backlog_bytes_max: 900_000 };
    let log = incoming(&server.url(), setup, "limit").await;
    let mut large = Batch::default();
    for id in 0..1024 {
        large.push(MetricId(Uuid::from_u128(id)), 1, |out| out.resize(out.len() + 1000, 0));
    }
    let refused = log.append(large).await;
    assert!(matches!(refused, Err(IncomingError::BacklogFull { .. })), "{refused:?}");
    assert_eq!(log.backlog().await.unwrap().measures, 0);
    log.append(batch(1)).await.unwrap();
}

/// Although the limit of the backlog is checked on all of them, and a start asks all for their positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_down_does_not_keep_the_others_from_accepting() {
    let mut cluster = RedisCluster::start(&["--cluster-require-full-coverage", "no"]);
    // With this prefix the metric's sack lies on the third node.
    let log = incoming(&cluster.url(), SETUP, "gnudi").await;
    cluster.nodes[1].process.stop();
    until("an append", async || log.append(batch(1)).await.is_ok()).await;
    let registry: Arc<dyn LogRegistry> = Arc::<MemoryLogRegistry>::default();
    let options = incoming_options(&cluster.url(), SETUP, "gnudi");
    let other = RedisIncoming::open(options, Some(registry), CLUSTER).await.unwrap();
    until("an append", async || other.append(batch(1)).await.is_ok()).await;
    // A checkpoint trims the sacks of the others.
    let sacks: Vec<Sack> = SETUP.sack_count.sacks().collect();
    assert!(log.positions(&sacks).await.is_err());
    let reachable = log.reachable_positions(&sacks).await.unwrap();
    assert_eq!(reachable.iter().map(|(sack, _)| sack.id.0).collect::<Vec<_>>(), [0, 1, 3]);
}
