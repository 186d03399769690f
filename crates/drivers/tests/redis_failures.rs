//! Redis as incoming and as aggregate store, when servers end, hang, fail over, or guarantee too little.

#[path = "engines/redis.rs"]
mod engine;
#[path = "engines/server.rs"]
mod server;
mod support;

use std::{
    collections::HashSet,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use engine::{DURABLE, RedisCluster, RedisSentinels, RedisServer};
use gnudi_drivers::{
    OpenError,
    aggregates::{
        AggregateStore, Fence, MetricWrite, StoreError,
        redis::{RedisAggregates, RedisAggregatesOptions},
    },
    clients::redis::{RedisDurability, RedisOptions},
    incoming::{
        Append as _, Batch, Consume as _, Incoming as _, IncomingError, Position, Topology as _,
        redis::{RedisIncoming, RedisIncomingOptions},
    },
};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use support::aggregate_items::{all_blocks, key, metric, write};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(0xc1);
/// How much a call may exceed its timeout on a busy machine.
const SLACK: Duration = Duration::from_secs(2);

fn redis_options(url: &str) -> RedisOptions {
    RedisOptions {
        timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_millis(500),
        replicas_timeout: Duration::from_millis(500),
        ..RedisOptions::new(url.parse().unwrap())
    }
}

fn incoming_options(url: &str) -> RedisIncomingOptions {
    RedisIncomingOptions {
        sack_count: SackCount(NonZeroU16::new(4).unwrap()),
        numbering_interval: Duration::from_millis(100),
        ..RedisIncomingOptions::new(redis_options(url))
    }
}

async fn open(options: RedisIncomingOptions) -> Result<Arc<RedisIncoming>, OpenError> {
    RedisIncoming::open(options, None, CLUSTER).await
}

async fn incoming(url: &str) -> Arc<RedisIncoming> {
    open(incoming_options(url)).await.unwrap()
}

async fn aggregates(url: &str) -> Arc<RedisAggregates> {
    RedisAggregates::open(RedisAggregatesOptions::new(redis_options(url)), CLUSTER).await.unwrap()
}

/// A batch whose measure counts identify it.
fn batch(metrics: &[usize], number: u32) -> Batch {
    let mut batch = Batch::default();
    for id in metrics {
        batch.push(metric(*id), number, |out| out.extend_from_slice(b"points"));
    }
    batch
}

async fn waiting(driver: &RedisIncoming, sack: Sack) -> Vec<(Position, u32)> {
    let records = driver.pending(sack, Position(0), usize::MAX).await.unwrap().records;
    records.into_iter().map(|record| (record.position, record.measures)).collect()
}

async fn numbers(driver: &RedisIncoming, sack: Sack) -> Vec<u32> {
    waiting(driver, sack).await.into_iter().map(|(_, number)| number).collect()
}

fn first_sack(driver: &RedisIncoming) -> Sack {
    Sack { count: driver.numbering().count, id: SackId(0) }
}

/// Retries until it succeeds.
async fn eventually<T, E: std::fmt::Debug>(what: &str, attempt: impl AsyncFn() -> Result<T, E>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "{what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_answer_promises_is_found_out() {
    for (arguments, promised) in [
        (&["--appendonly", "no"][..], RedisDurability::Memory),
        (&["--appendonly", "yes", "--appendfsync", "no"], RedisDurability::System),
        (&["--appendonly", "yes", "--appendfsync", "everysec"], RedisDurability::EverySecond),
        (DURABLE, RedisDurability::Disk),
        (
            &["--appendonly", "yes", "--appendfsync", "always", "--rename-command", "CONFIG", ""],
            RedisDurability::Unknown,
        ),
    ] {
        let server = RedisServer::start(arguments);
        let driver = incoming(&server.url()).await;
        assert_eq!(driver.durability(), promised, "{arguments:?}");
        assert_eq!(aggregates(&server.url()).await.durability(), promised, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_kill() {
    let mut server = RedisServer::start(DURABLE);
    let (driver, store) = (incoming(&server.url()).await, aggregates(&server.url()).await);
    for number in 0..50 {
        driver.append(batch(&[0, 1, 2, 3], number)).await.unwrap();
    }
    let sack = first_sack(&driver);
    let before = waiting(&driver, sack).await;
    driver.acknowledge(sack, before[9].0).await.unwrap();
    assert!(store.write(Fence::EVERYTHING, vec![write(7, "kept", &[])]).await[0].is_ok());
    store.sync().await.unwrap();
    server.process.stop();
    server.process.start_again();
    let after =
        eventually("the server is back", async || driver.pending(sack, Position(0), usize::MAX).await).await;
    let after: Vec<_> = after.records.iter().map(|record| (record.position, record.measures)).collect();
    assert_eq!(after, before[10..]);
    let head =
        eventually("the server is back", async || store.read_heads(&[metric(7)]).await.remove(0)).await;
    assert_eq!(head.unwrap(), "kept");
    eventually("appends go on", async || driver.append(batch(&[0], 50)).await).await;
    assert!(waiting(&driver, sack).await.last().unwrap().0 > before.last().unwrap().0, "positions grow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_unavailable_at_once_and_comes_back() {
    let mut server = RedisServer::start(&[]);
    let (driver, store) = (incoming(&server.url()).await, aggregates(&server.url()).await);
    driver.append(batch(&[0], 1)).await.unwrap();
    let before = waiting(&driver, first_sack(&driver)).await[0].0;
    server.process.stop();
    let mut took = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        let refused = driver.append(batch(&[0], 1)).await;
        assert!(matches!(refused, Err(IncomingError::Unavailable(_))), "{refused:?}");
        let sacks = [first_sack(&driver)];
        assert!(matches!(driver.positions(&sacks).await, Err(IncomingError::Unavailable(_))));
        assert!(matches!(store.read_heads(&[metric(0)]).await[0], Err(StoreError::Unavailable(_))));
        let written = store.write(Fence::EVERYTHING, vec![write(0, "h", &[])]).await;
        assert!(matches!(written[0], Err(StoreError::Unavailable(_))));
        took = took.min(started.elapsed());
    }
    assert!(took < SLACK, "a refused connection takes no time: {took:?}");
    let unreachable = open(incoming_options(&server.url())).await.err().unwrap();
    assert!(matches!(&unreachable, OpenError::Engine { engine, .. } if engine.contains("redis 127.0.0.1")));
    server.process.start_again();
    // It has lost everything, so the store is created again.
    eventually("it answers again", async || driver.append(batch(&[0], 2)).await).await;
    let sack = first_sack(&driver);
    assert_eq!(numbers(&driver, sack).await, [2]);
    assert!(
        waiting(&driver, sack).await[0].0 > before,
        "heads that outlived it ignore what they have applied"
    );
    assert!(driver.split().await.unwrap().draining);
    eventually("heads are written", async || {
        store.write(Fence::EVERYTHING, vec![write(0, "h", &[])]).await.remove(0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_given_up_after_the_deadline() {
    let server = RedisServer::start(&[]);
    let (driver, store) = (incoming(&server.url()).await, aggregates(&server.url()).await);
    driver.append(batch(&[0], 1)).await.unwrap();
    server.process.pause();
    let started = Instant::now();
    let sack = first_sack(&driver);
    let ranges = [all_blocks(0)];
    let (appended, read, blocks) = tokio::join!(
        driver.append(batch(&[0], 2)),
        driver.pending(sack, Position(0), 1000),
        store.read_blocks(&ranges)
    );
    assert!(matches!(appended, Err(IncomingError::Unavailable(_))), "{appended:?}");
    assert!(matches!(read, Err(IncomingError::Unavailable(_))), "{read:?}");
    assert!(matches!(blocks[0], Err(StoreError::Unavailable(_))), "{blocks:?}");
    assert!(started.elapsed() < Duration::from_secs(1) + 5 * SLACK, "{:?}", started.elapsed());
    server.process.resume();
    eventually("it goes on", async || driver.append(batch(&[0], 3)).await).await;
    let numbers = numbers(&driver, sack).await;
    assert!(numbers.contains(&1) && numbers.contains(&3));
}

/// Every acknowledged batch survives the master's death, in order, and positions grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_appends_survive_a_failover() {
    let mut sentinels = RedisSentinels::start(&[]);
    let (driver, store) = (incoming(&sentinels.url()).await, aggregates(&sentinels.url()).await);
    let sack = first_sack(&driver);
    let fence = Fence { sack, token: 9 };
    store.raise(fence).await.unwrap();
    assert!(store.write(fence, vec![write(0, "kept", &[])]).await[0].is_ok());
    store.sync().await.unwrap();
    let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let appender = tokio::spawn({
        let (driver, stop, taken) = (driver.clone(), stop.clone(), taken.clone());
        async move {
            let mut acknowledged = Vec::new();
            for number in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match driver.append(batch(&[0], number)).await {
                    Ok(()) => {
                        acknowledged.push(number);
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(IncomingError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Err(other) => panic!("{other}"),
                }
            }
            acknowledged
        }
    });
    let more = async |by: u64| {
        let wanted = taken.load(Ordering::Relaxed) + by;
        eventually("appends are taken", async || {
            if taken.load(Ordering::Relaxed) >= wanted { Ok(()) } else { Err("too few") }
        })
        .await;
    };
    more(200).await;
    let old_master = sentinels.master_port();
    let before = waiting(&driver, sack).await.last().unwrap().0;
    sentinels.servers[0].process.stop();
    more(200).await;
    stop.store(true, Ordering::Relaxed);
    let acknowledged = appender.await.unwrap();
    assert_ne!(sentinels.master_port(), old_master, "nothing failed over");
    let found = waiting(&driver, sack).await;
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "positions grow");
    assert!(found.last().unwrap().0 > before);
    let numbers: Vec<u32> = found.iter().map(|(_, number)| *number).collect();
    assert!(numbers.is_sorted(), "in the order of acceptance");
    let numbers: HashSet<u32> = numbers.into_iter().collect();
    let lost: Vec<&u32> = acknowledged.iter().filter(|number| !numbers.contains(number)).collect();
    assert!(lost.is_empty(), "acknowledged, but lost: {lost:?}");
    // Fences and aggregates survive, too.
    assert_eq!(store.read_heads(&[metric(0)]).await.remove(0).unwrap().unwrap(), "kept");
    let late = store.write(Fence { token: 8, ..fence }, vec![write(0, "too late", &[])]).await.remove(0);
    assert!(matches!(late, Err(StoreError::Fenced { held: 9, .. })), "{late:?}");
}

/// A call that has timed out may be delivered after it was repeated over another connection.
#[tokio::test]
async fn a_write_that_arrives_after_its_repetition_is_refused() {
    let server = RedisServer::start(&[]);
    // The numbers of a store begin with the time at which it was opened.
    let (earlier, later) = (aggregates(&server.url()).await, aggregates(&server.url()).await);
    let sack = first_sack(&*incoming(&server.url()).await);
    let fence = Fence { sack, token: 9 };
    later.raise(fence).await.unwrap();
    assert!(later.write(fence, vec![write(0, "repeated", &[])]).await[0].is_ok());
    let late = earlier.write(fence, vec![write(0, "late", &[])]).await.remove(0);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(later.read_heads(&[metric(0)]).await.remove(0).unwrap().unwrap(), "repeated");
    // The numbers of another lease are its own.
    assert!(earlier.write(Fence { token: 10, ..fence }, vec![write(0, "next", &[])]).await[0].is_ok());
}

/// A server that takes over without the newest entries does not reuse their positions, even if its clock is
/// behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_grow_where_a_tail_was_lost() {
    let mut server = RedisServer::start(DURABLE);
    let driver = incoming(&server.url()).await;
    let sack = first_sack(&driver);
    driver.append(batch(&[0], 1)).await.unwrap();
    let kept = server.folder().join("appendonlydir");
    let copy = server.folder().join("copy");
    let copied = std::process::Command::new("cp").arg("-r").arg(&kept).arg(&copy).status().unwrap();
    assert!(copied.success());
    // As if the lost server's clock had been far ahead.
    let meta = "{gnudi:in:0}:m";
    let ahead = server.ask::<u64>(&["HGET", meta, "last"]) + 300_000_000;
    server.ask::<u64>(&["HSET", meta, "last", &ahead.to_string()]);
    driver.append(batch(&[0], 2)).await.unwrap();
    let lost = waiting(&driver, sack).await.last().unwrap().0;
    assert!(lost.0 > ahead);
    server.process.stop();
    std::fs::remove_dir_all(&kept).unwrap();
    std::fs::rename(&copy, &kept).unwrap();
    server.process.start_again();
    eventually("appends go on", async || driver.append(batch(&[0], 3)).await).await;
    let found = waiting(&driver, sack).await;
    assert_eq!(found.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [1, 3]);
    assert!(found[1].0 > lost, "{:?} was given away before {lost:?} was lost", found[1].0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_replicas_is_unavailable() {
    let server = RedisServer::start(&[]);
    let with = |replicas_min| {
        let mut options = incoming_options(&server.url());
        options.redis.replicas_min = replicas_min;
        options
    };
    // Without sentinels no replica is required by default; if one is configured, it must exist.
    open(with(None)).await.unwrap().append(batch(&[0], 1)).await.unwrap();
    let error = open(with(Some(1))).await.err().unwrap().to_string();
    assert!(error.contains("0 of 1 replicas"), "{error}");
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let driver = eventually("the replica is there", async || open(with(Some(1))).await).await;
    eventually("the replica has it", async || driver.append(batch(&[0], 2)).await).await;
    let mut options = RedisAggregatesOptions::new(redis_options(&server.url()));
    options.redis.replicas_min = Some(1);
    let store = RedisAggregates::open(options, CLUSTER).await.unwrap();
    let fence = Fence { sack: first_sack(&driver), token: 9 };
    store.raise(fence).await.unwrap();
    replica.process.pause();
    let refused = driver.append(batch(&[0], 3)).await;
    assert!(
        matches!(&refused, Err(IncomingError::Unavailable(reason)) if reason.contains("replicas")),
        "{refused:?}"
    );
    // A pass does not acknowledge what the replica lacks, nor does the next one, which finds it on the master.
    let written = store.write(fence, vec![write(0, "head", &[])]).await.remove(0);
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    let own_head = async || store.read_own_heads(fence, &[metric(0)]).await.remove(0);
    assert!(matches!(own_head().await, Err(StoreError::Unavailable(_))));
    replica.process.resume();
    eventually("the replica goes on", async || driver.append(batch(&[0], 4)).await).await;
    assert_eq!(eventually("the replica has the head", own_head).await.unwrap(), "head");
    let error = open(incoming_options(&replica.url())).await.err().unwrap().to_string();
    assert!(error.contains("is a replica"), "{error}");
}

/// Without a restart, and without a sentinel that ends its connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_becomes_a_replica_is_left() {
    let server = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let mut options = incoming_options(&server.url());
    options.redis.replicas_min = Some(1);
    let driver = eventually("the replica is there", async || open(options.clone()).await).await;
    replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
    server.ask::<String>(&["REPLICAOF", "127.0.0.1", &replica.port.to_string()]);
    eventually("it is left", async || match driver.append(batch(&[0], 1)).await {
        Err(IncomingError::Unavailable(reason)) if reason.contains("is a replica") => Ok(()),
        other => Err(other),
    })
    .await;
}

/// Its whole timeout would be that of the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_hangs_does_not_hide_the_others() {
    let sentinels = RedisSentinels::start(&[]);
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!("redis://{},", hung.local_addr().unwrap());
    let mut options = incoming_options(&sentinels.url().replacen("redis://", &hosts, 1));
    options.redis.connect_timeout = options.redis.timeout;
    let driver = eventually("it opens", async || open(options.clone()).await).await;
    let _: i64 = sentinels.servers[0].ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("it connects again", async || driver.append(batch(&[0], 1)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clusters_place_is_refused() {
    let server = RedisServer::start(&[]);
    server.ask::<String>(&["CONFIG", "SET", "requirepass", "hidden"]);
    let url = format!("redis://:hidden@127.0.0.1:{}", server.port);
    let other = Uuid::from_u128(0xc2);
    let _first = (incoming(&url).await, aggregates(&url).await);
    let errors = [
        RedisIncoming::open(incoming_options(&url), None, other).await.err().unwrap(),
        RedisAggregates::open(RedisAggregatesOptions::new(redis_options(&url)), other).await.err().unwrap(),
    ];
    for error in errors {
        assert!(
            matches!(error, OpenError::OtherCluster { found: CLUSTER, own, .. } if own == other),
            "{error}"
        );
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
    // Two prefixes on one server are possible.
    let prefix = "second".to_owned();
    let options = RedisIncomingOptions { prefix, ..incoming_options(&url) };
    RedisIncoming::open(options, None, other).await.unwrap();
    let wrong = url.replace("hidden", "guessed");
    let error = open(incoming_options(&wrong)).await.err().unwrap().to_string();
    assert!(error.contains("redis 127.0.0.1") && !error.contains("guessed"), "{error}");
}

/// A worker's pass over a sack without folding: reads, writes and acknowledges.
async fn pass(driver: &RedisIncoming, store: &RedisAggregates, sack: Sack, ids: &[usize]) -> u64 {
    let trips = || driver.figures().trips + store.figures().trips;
    let before = trips();
    let records = driver.pending(sack, Position(0), 8 << 20).await.unwrap().records;
    assert_eq!(records.len(), ids.len());
    let metrics: Vec<MetricId> = ids.iter().map(|id| metric(*id)).collect();
    assert!(store.read_heads(&metrics).await.into_iter().all(|head| head.is_ok()));
    let ranges: Vec<_> = ids.iter().map(|id| all_blocks(*id)).collect();
    assert!(store.read_blocks(&ranges).await.into_iter().all(|blocks| blocks.is_ok()));
    let writes = ids.iter().map(|id| {
        let blocks = vec![(key(*id, 0), vec![7; 500].into())];
        MetricWrite { blocks, head: vec![1; 1000].into(), ..write(*id, "", &[]) }
    });
    let writes = store.write(Fence { sack, token: 1 }, writes.collect()).await;
    assert!(writes.into_iter().all(|written| written.is_ok()));
    store.sync().await.unwrap();
    let up_to = records.last().unwrap().position;
    driver.acknowledge(sack, up_to).await.unwrap();
    driver.trim(&[(sack, up_to)]).await.unwrap();
    trips() - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trips_of_a_pass_do_not_grow_with_its_metrics() {
    let server = RedisServer::start(&[]);
    let numbering_interval = Duration::from_hours(1);
    let options = RedisIncomingOptions { numbering_interval, ..incoming_options(&server.url()) };
    let driver = open(options).await.unwrap();
    let store = aggregates(&server.url()).await;
    let sack = first_sack(&driver);
    let mut trips = Vec::new();
    for count in [10, 1000] {
        // Sack 0 of 4 covers 32 of 128 shards.
        let ids: Vec<usize> = (0..count).map(|id| 4 * id).collect();
        let before = driver.figures().trips;
        driver.append(batch(&ids, 1)).await.unwrap();
        assert_eq!(driver.figures().trips - before, 1, "an append is one trip");
        trips.push(pass(&driver, &store, sack, &ids).await);
    }
    // pending, heads, blocks, write, acknowledge, trim
    assert_eq!(trips, [6, 6]);
    let before = driver.figures().trips;
    let sacks: Vec<Sack> = driver.numbering().count.sacks().collect();
    driver.positions(&sacks).await.unwrap();
    assert_eq!(driver.figures().trips - before, 1, "many positions are one trip");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trimming_gives_memory_back() {
    let server = RedisServer::start(&[]);
    let driver = incoming(&server.url()).await;
    let mut used = Vec::new();
    for _ in 0..5 {
        for _ in 0..100 {
            let mut batch = Batch::default();
            for id in 0..8 {
                batch.push(metric(id), 1000, |out| out.resize(out.len() + 4000, 7));
            }
            driver.append(batch).await.unwrap();
        }
        let full = server.used_memory_bytes();
        for sack in driver.numbering().count.sacks() {
            let newest = driver.positions(&[sack]).await.unwrap()[0].newest;
            driver.acknowledge(sack, newest).await.unwrap();
            driver.trim(&[(sack, newest)]).await.unwrap();
        }
        assert_eq!(driver.backlog().await.unwrap().bytes, 0);
        used.push(server.used_memory_bytes());
        assert!(full > used.last().unwrap() + 3_000_000, "3.2 MB waited: {full}, {used:?}");
    }
    assert!(used[4] < used[0] + 200_000, "memory grows: {used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_told_and_its_neighbours_stay() {
    let server = RedisServer::start(&[]);
    let (driver, store) = (incoming(&server.url()).await, aggregates(&server.url()).await);
    driver.append(batch(&[0], 1)).await.unwrap();
    let sack = first_sack(&driver);
    let stream = "{gnudi:in:0}:s:4:0";
    let packed = String::from_utf8(vec![0; 24]).unwrap();
    let id = format!("{}-1", driver.positions(&[sack]).await.unwrap()[0].newest.0);
    server.ask::<String>(&["XADD", stream, &id, "c", &packed, "p", "damaged"]);
    driver.append(batch(&[0], 2)).await.unwrap();
    assert_eq!(numbers(&driver, sack).await, [1, 2]);
    assert_eq!(server.ask::<Vec<String>>(&["LRANGE", "{gnudi:in:0}:damaged", "0", "-1"]), ["damaged"]);
    let written = write(5, "head", &[(key(5, 0), "one"), (key(5, 60), "two")]);
    store.write(Fence::EVERYTHING, vec![written]).await.remove(0).unwrap();
    let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let (heads, mut of_blocks) = ("{gnudi:ag:5}:h", b"{gnudi:ag:5}:b:".to_vec());
    of_blocks.extend_from_slice(metric(5).0.as_bytes());
    let names: Vec<Vec<u8>> = redis::cmd("HKEYS").arg(&of_blocks).query(&mut client).unwrap();
    let first = names.iter().min().unwrap();
    redis::cmd("HSET").arg(&of_blocks).arg(first).arg("rubbish").exec(&mut client).unwrap();
    redis::cmd("HSET").arg(heads).arg(metric(5).0.as_bytes()).arg("rubbish").exec(&mut client).unwrap();
    for _ in 0..2 {
        let found = store.read_blocks(&[all_blocks(5)]).await.remove(0).unwrap();
        assert_eq!((found.whole, found.damaged.len()), (vec![(key(5, 60), "two".into())], 1));
        assert!(matches!(store.read_heads(&[metric(5)]).await[0], Err(StoreError::Damaged(_))));
    }
    assert_eq!(server.ask::<u64>(&["HLEN", "{gnudi:ag:5}:damaged"]), 2);
    assert_eq!((driver.damaged(), store.damaged()), (1, 2));
}

/// Nothing can acknowledge damaged entries that no other entry follows, except what reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_at_the_end_does_not_keep_a_sack_from_being_idle() {
    let server = RedisServer::start(&[]);
    let driver = incoming(&server.url()).await;
    driver.append(batch(&[0], 1)).await.unwrap();
    let sack = first_sack(&driver);
    let id = format!("{}-0", driver.positions(&[sack]).await.unwrap()[0].newest.0);
    let stream = "{gnudi:in:0}:s:4:0";
    assert_eq!(server.ask::<u64>(&["DEL", stream]), 1);
    // An entry, a measure, and some bytes.
    let sums = [1.0, 1.0, 80.0].map(f64::to_be_bytes).concat();
    let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut entry = redis::cmd("XADD");
    entry.arg(stream).arg(id).arg("c").arg(sums).arg("p").arg("damaged");
    entry.exec(&mut client).unwrap();
    driver.split().await.unwrap();
    assert!(!driver.positions(&[sack]).await.unwrap()[0].is_idle());
    assert_eq!(numbers(&driver, sack).await, [] as [u32; 0]);
    assert!(driver.positions(&[sack]).await.unwrap()[0].is_idle());
    assert!(!driver.settle().await.unwrap().draining);
    assert_eq!(driver.backlog().await.unwrap().measures, 0);
}

/// A node of a cluster ends: the others go on, and everything is there once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_ends_and_comes_back() {
    let mut cluster = RedisCluster::start(&[DURABLE, &["--cluster-require-full-coverage", "no"]].concat());
    let (driver, store) = (incoming(&cluster.url()).await, aggregates(&cluster.url()).await);
    let ids: Vec<usize> = (0..100).collect();
    for number in 0..10 {
        driver.append(batch(&ids, number)).await.unwrap();
    }
    let writes = ids.iter().map(|id| write(*id, "head", &[])).collect();
    assert!(store.write(Fence::EVERYTHING, writes).await.into_iter().all(|written| written.is_ok()));
    cluster.nodes[1].process.stop();
    let metrics: Vec<MetricId> = ids.iter().map(|id| metric(*id)).collect();
    let heads = store.read_heads(&metrics).await;
    let there = heads.iter().filter(|head| head.is_ok()).count();
    assert!(there > 20 && there < 80, "{there} of 100 heads lie on the other nodes");
    cluster.nodes[1].process.start_again();
    eventually("the node is back", async || {
        store.read_heads(&metrics).await.into_iter().collect::<Result<Vec<_>, _>>()
    })
    .await;
    eventually("appends go on", async || driver.append(batch(&ids, 10)).await).await;
    for sack in driver.numbering().count.sacks() {
        let found = numbers(&driver, sack).await;
        for number in 0..=10 {
            assert!(found.iter().filter(|found| **found == number).count() >= 25, "{number} of {sack:?}");
        }
    }
}

/// Slots move to another node while appends and reads go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_a_cluster_move() {
    let cluster = RedisCluster::start(&[]);
    let (driver, store) = (incoming(&cluster.url()).await, aggregates(&cluster.url()).await);
    let ids: Vec<usize> = (0..64).collect();
    let mut taken = Vec::new();
    for number in 0..5 {
        driver.append(batch(&ids, number)).await.unwrap();
        let appending = tokio::spawn({
            let (driver, ids) = (driver.clone(), ids.clone());
            // Appends refused while their keys move do not exist; accepted ones must.
            async move { driver.append(batch(&ids, 100 + number)).await.is_ok() }
        });
        let writes = ids.iter().map(|id| write(*id, "head", &[])).collect();
        assert!(store.write(Fence::EVERYTHING, writes).await.into_iter().all(|written| written.is_ok()));
        // The first group of the incoming store, and some shard.
        for tag in ["{gnudi:in:0}", "{gnudi:ag:3}"] {
            cluster.move_slot_of(tag, number as usize % 3);
        }
        if appending.await.unwrap() {
            taken.push(100 + number);
        }
    }
    driver.append(batch(&ids, 5)).await.unwrap();
    for sack in driver.numbering().count.sacks() {
        let numbers = numbers(&driver, sack).await;
        assert!((0..=5).chain(taken.iter().copied()).all(|number| numbers.contains(&number)), "{numbers:?}");
    }
    let metrics: Vec<MetricId> = ids.iter().map(|id| metric(*id)).collect();
    assert!(store.read_heads(&metrics).await.into_iter().all(|head| head.unwrap().is_some()));
}
