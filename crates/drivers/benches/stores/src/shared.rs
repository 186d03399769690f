//! Stores on shared objects: what a pass, an idle process, an opening and a lost lease take.

use std::{
    num::NonZeroU16,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, Fence, MetricWrite,
    objects::{ObjectAggregates, ObjectAggregatesOptions},
};
use gnudi_model::{MetricId, Sack, SackCount, SackId};
use object_store::ObjectStore;
use slatedb::{DbReader, DbReaderMode, Settings, config::DbReaderOptions};
use uuid::Uuid;

use crate::{
    BATCH, BLOCK_BYTES, block_key,
    counted::{Counted, Counts},
    memory_mb,
    over::OverObjectStore,
    slate_store::{SlateStore, tuned},
    value,
};

const HEAD_BYTES: usize = 600;
const SHARDS: u16 = 128;
/// Metrics of a pass that seal a block.
const SEALED: usize = 10;
/// Blocks that each metric has before the measured passes.
const BLOCKS_BEFORE: usize = 10;
const SLOW_MS: u64 = 20;
const IDLE: Duration = Duration::from_secs(120);

pub async fn run(name: &str) {
    fleet(name).await;
    fence(name).await;
    tokio::join!(passes(name, BATCH), passes(name, 10 * BATCH));
}

pub fn shards(count: u16) -> SackCount {
    SackCount(NonZeroU16::new(count).unwrap())
}

pub async fn open(
    name: &str,
    objects: Arc<dyn ObjectStore>,
    count: SackCount,
) -> Result<Arc<dyn AggregateStore>, String> {
    let slate = async |settings| match SlateStore::open(objects.clone(), count, settings).await {
        Ok(store) => Ok(store as Arc<dyn AggregateStore>),
        Err(error) => Err(error.to_string()),
    };
    match name {
        "slatedb" => slate(tuned()).await,
        "slatedb-default" => slate(Settings::default()).await,
        _ => {
            let options = ObjectAggregatesOptions { shards: count, ..ObjectAggregatesOptions::default() };
            let objects = Arc::new(OverObjectStore(objects));
            match ObjectAggregates::open(objects, Uuid::from_u128(1), options).await {
                Ok(store) => Ok(store),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

async fn opened(name: &str, objects: &Counted, count: u16) -> Arc<dyn AggregateStore> {
    open(name, Arc::new(objects.clone()), shards(count)).await.unwrap()
}

/// A metric of a shard of [`SHARDS`].
fn metric(shard: u16, number: usize) -> MetricId {
    MetricId(Uuid::from_u128((number * usize::from(SHARDS) + usize::from(shard)) as u128))
}

fn write(shard: u16, number: usize, blocks: std::ops::Range<usize>) -> MetricWrite {
    let metric = metric(shard, number);
    let block =
        |at| (BlockKey { metric, ..block_key(0, at) }, value(BLOCK_BYTES, (number * 1000 + at) as u64));
    let head = value(HEAD_BYTES, (number * 31 + blocks.end) as u64);
    MetricWrite { metric, blocks: blocks.map(block).collect(), expired: Vec::new(), head }
}

/// Reads the heads of [`BATCH`] metrics, and writes them back with some blocks.
async fn pass(store: &dyn AggregateStore, fence: Fence, shard: u16, first: usize, round: usize) {
    let ids = first..first + BATCH;
    let metrics: Vec<MetricId> = ids.clone().map(|number| metric(shard, number)).collect();
    assert!(store.read_heads(&metrics).await.iter().all(Result::is_ok));
    let sealed = |number: usize| usize::from(number - first < SEALED);
    let writes = ids.map(|number| write(shard, number, round..round + sealed(number))).collect();
    for answer in store.write(fence, writes).await {
        answer.unwrap();
    }
}

/// Passes over one shard of so many metrics: one every 1.5 seconds, and then some with slow requests.
async fn passes(name: &str, metrics: usize) {
    const PASSES: usize = 160;
    const SLOW_PASSES: usize = 40;
    let objects = Counted::default();
    let store = opened(name, &objects, 1).await;
    let firsts: Vec<usize> = (0..metrics).step_by(BATCH).collect();
    for first in &firsts {
        let writes = (*first..first + BATCH).map(|number| write(0, number, 0..BLOCKS_BEFORE)).collect();
        assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
    }
    let stored = objects.stored_bytes().await;
    let (before, mut alone) = (objects.counts(), Counts::default());
    let mut ticks = tokio::time::interval(Duration::from_millis(1500));
    for round in 0..PASSES {
        ticks.tick().await;
        let began = objects.counts();
        pass(&*store, Fence::EVERYTHING, 0, firsts[round % firsts.len()], BLOCKS_BEFORE + round).await;
        for (sum, count) in alone.iter_mut().zip(objects.since(began)) {
            *sum += count;
        }
    }
    ticks.tick().await;
    let all = objects.since(before);
    for (what, counts) in [("alone", alone), ("with the background", all)] {
        let [puts, gets, lists, deletions, bytes] = counts.map(|count| count as f64 / PASSES as f64);
        println!(
            "{name} pass of {metrics} metrics {what}: {puts:.1} puts, {gets:.1} gets, {lists:.1} lists, {deletions:.1} deletions, {:.0} KB",
            bytes / 1e3
        );
    }
    let stored = [stored, objects.stored_bytes().await].map(|bytes| bytes as f64 / 1e6);
    println!("{name} passes over {metrics} metrics: stored {stored:.1?} MB before and after");
    objects.set_delay_ms(SLOW_MS);
    let mut times = Vec::new();
    for round in PASSES..PASSES + SLOW_PASSES {
        ticks.tick().await;
        let start = Instant::now();
        pass(&*store, Fence::EVERYTHING, 0, firsts[round % firsts.len()], BLOCKS_BEFORE + round).await;
        times.push(start.elapsed().as_millis());
    }
    times.sort_unstable();
    let (median, slowest) = (times[SLOW_PASSES / 2], times[SLOW_PASSES - 1]);
    println!(
        "{name} pass of {metrics} metrics, {SLOW_MS} ms a request: median {median} ms, slowest {slowest} ms"
    );
}

/// All shards in one process: memory, requests while idle, and opening them again.
async fn fleet(name: &str) {
    const ROUNDS: usize = 10;
    let objects = Counted::default();
    let store = opened(name, &objects, SHARDS).await;
    for round in 0..ROUNDS {
        let passes = (0..SHARDS).map(|shard| pass(&*store, Fence::EVERYTHING, shard, 0, round));
        stream::iter(passes).buffer_unordered(16).collect::<Vec<()>>().await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    fleet_memory(name, "loaded", &objects).await;
    idle(name, "idle", &objects).await;
    drop(store);
    if name != "objects" {
        let open = |shard| {
            let objects: Arc<dyn ObjectStore> = Arc::new(objects.clone());
            let path = format!("shard/{shard}");
            DbReader::open(path, objects, DbReaderMode::FollowLatest, DbReaderOptions::default())
        };
        let readers = stream::iter(0..SHARDS).map(open).buffered(16).try_collect::<Vec<_>>().await.unwrap();
        idle(name, "readers", &objects).await;
        for reader in readers {
            reader.close().await.unwrap();
        }
    }
    for delay in [0, SLOW_MS] {
        objects.set_delay_ms(delay);
        let (start, before) = (Instant::now(), objects.counts());
        let store = opened(name, &objects, SHARDS).await;
        let metrics: Vec<MetricId> = (0..SHARDS).map(|shard| metric(shard, 0)).collect();
        assert!(store.read_heads(&metrics).await.iter().all(|head| head.as_ref().unwrap().is_some()));
        let (seconds, [puts, gets, lists, _, _]) = (start.elapsed().as_secs_f64(), objects.since(before));
        println!(
            "{name} opening, {delay} ms a request: {seconds:.2} s, {puts} puts, {gets} gets, {lists} lists"
        );
        objects.set_delay_ms(0);
        fleet_memory(name, "opened", &objects).await;
    }
}

async fn idle(name: &str, what: &str, objects: &Counted) {
    let before = objects.counts();
    tokio::time::sleep(IDLE).await;
    let [puts, gets, lists, deletions, bytes] =
        objects.since(before).map(|count| count as f64 * 60.0 / IDLE.as_secs_f64());
    println!(
        "{name} {what}, a minute: {puts:.0} puts, {gets:.0} gets, {lists:.0} lists, {deletions:.0} deletions, {:.0} KB",
        bytes / 1e3
    );
}

async fn fleet_memory(name: &str, what: &str, objects: &Counted) {
    let stored = objects.stored_bytes().await as f64 / 1e6;
    let memory = memory_mb("VmRSS");
    println!("{name} {what}: memory {:.0} MB without the {stored:.0} MB of the objects", memory - stored);
}

/// A second process takes over a shard: what that takes, and what the first one's next write does.
async fn fence(name: &str) {
    let fence = |token| Fence { sack: Sack { count: shards(1), id: SackId(0) }, token };
    let objects = Counted::default();
    let first = opened(name, &objects, 1).await;
    first.raise(fence(1)).await.unwrap();
    for round in 0..10 {
        pass(&*first, fence(1), 0, 0, round).await;
    }
    objects.set_delay_ms(SLOW_MS);
    let second = timed(name, "taken over", &objects, async {
        let second = opened(name, &objects, 1).await;
        second.raise(fence(2)).await.unwrap();
        second
    });
    let second = second.await;
    timed(name, "first pass of the new owner", &objects, pass(&*second, fence(2), 0, 0, 10)).await;
    let refused = first.write(fence(1), vec![write(0, 0, 0..0)]);
    let answer = timed(name, "write of the former owner", &objects, refused).await;
    println!("{name} write of the former owner: {answer:?}");
}

/// Prints the time and the requests that something takes.
async fn timed<T>(name: &str, what: &str, objects: &Counted, work: impl Future<Output = T>) -> T {
    let (start, before) = (Instant::now(), objects.counts());
    let answer = work.await;
    let (ms, [puts, gets, lists, _, _]) = (start.elapsed().as_millis(), objects.since(before));
    println!("{name} {what}, {SLOW_MS} ms a request: {ms} ms, {puts} puts, {gets} gets, {lists} lists");
    answer
}
