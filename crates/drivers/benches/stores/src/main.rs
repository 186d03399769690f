//! Compares stores for aggregates: `STORE WORKLOAD [DIR]`. Each run prints lines of figures.
//!
//! Local files: STORE is own, fjall or redb; WORKLOAD is passes, reads, million, crash or damage. Shared objects: STORE
//! is objects (ours), slatedb or slatedb-default (its default settings); WORKLOAD is shared or damage. `all s3` compares
//! clients of S3, and needs Ceph's programs.

mod counted;
mod damage;
mod fjall_store;
mod key;
mod over;
mod redb_store;
mod s3;
mod shared;
mod slate_store;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gnudi_drivers::aggregates::{
    AggregateStore, BlockKey, BlockRange, Fence, MetricWrite,
    local::{LocalAggregates, LocalAggregatesOptions},
};
use gnudi_model::{MetricId, Timespan, Timestamp};
use object_store::local::LocalFileSystem;
use uuid::Uuid;

/// Metrics of a sack's pass.
const BATCH: usize = 150;
const BLOCK_BYTES: usize = 1000;

/// Shards of shared objects in a folder.
const FOLDER_SHARDS: u16 = 4;

pub async fn open(store: &str, dir: &Path) -> Result<Arc<dyn AggregateStore>, String> {
    match store {
        "own" => LocalAggregates::open(dir, &LocalAggregatesOptions::default())
            .map(|store| store as Arc<dyn AggregateStore>)
            .map_err(|error| error.to_string()),
        "fjall" => fjall_store::FjallStore::open(dir).map(|store| store as Arc<dyn AggregateStore>),
        "redb" => redb_store::RedbStore::open(dir).map(|store| store as Arc<dyn AggregateStore>),
        "objects" | "slatedb" | "slatedb-default" => {
            std::fs::create_dir_all(dir).unwrap();
            let objects = LocalFileSystem::new_with_prefix(dir).unwrap();
            shared::open(store, Arc::new(objects), shared::shards(FOLDER_SHARDS)).await
        }
        other => panic!("no store {other:?}"),
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (store, workload) = (&args[0], &args[1]);
    let root = args.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(root).unwrap();
    match workload.as_str() {
        "passes" => passes(store, dir.path()).await,
        "reads" => reads(store, dir.path()).await,
        "million" => million(store, dir.path()).await,
        "damage" => damage::run(store, dir.path()).await,
        "crash" => crash(store, dir.path()).await,
        "shared" => shared::run(store).await,
        "s3" => s3::run().await,
        "fill" => fill(store, Path::new(&args[3])).await,
        other => panic!("no workload {other:?}"),
    }
}

pub fn metric(id: usize) -> MetricId {
    let mixed = (id as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    MetricId(Uuid::from_u128(mixed))
}

pub fn block_key(id: usize, number: usize) -> BlockKey {
    let first = Timestamp::from_secs(number as i64 * 3600);
    let last = first.saturating_add(Timespan::from_secs(3540));
    BlockKey { metric: metric(id), granularity: Timespan::from_secs(60), first, last }
}

/// Bytes like those of floats: most differ, the top ones of each eight do not.
pub fn value(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&(state & 0x0000_ffff_ffff_ffff | 0x4059 << 48).to_be_bytes());
    }
    out.truncate(length);
    out.into()
}

fn head_bytes(id: usize) -> usize {
    700 + id * 7919 % 2300
}

/// Passes over 20,000 metrics, one sack at a time: reads the heads, rewrites them, and sometimes seals a
/// block.
async fn passes(name: &str, dir: &Path) {
    const METRICS: usize = 20_000;
    const TIME: Duration = Duration::from_secs(30);
    let store = open(name, dir).await.unwrap();
    let syncs = tokio::spawn(sync_each_second(Arc::clone(&store)));
    let (start, cpu, written) = (Instant::now(), cpu_seconds(), written_bytes());
    let (mut heads, mut logical, mut round) = (0u64, 0u64, 0);
    let mut slowest = Duration::ZERO;
    while start.elapsed() < TIME {
        for batch in 0..METRICS / BATCH {
            let ids = || batch * BATCH..(batch + 1) * BATCH;
            let begin = Instant::now();
            let metrics: Vec<MetricId> = ids().map(metric).collect();
            for head in store.read_heads(&metrics).await {
                assert_eq!(head.unwrap().is_some(), round > 0);
            }
            let writes: Vec<MetricWrite> = ids()
                .map(|id| MetricWrite {
                    metric: metric(id),
                    blocks: if (round + id) % 4 == 0 {
                        vec![(block_key(id, round), value(BLOCK_BYTES, (round * METRICS + id) as u64))]
                    } else {
                        Vec::new()
                    },
                    expired: Vec::new(),
                    head: value(head_bytes(id), (round * 31 + id) as u64),
                })
                .collect();
            let bytes = |write: &MetricWrite| {
                write.head.len() + write.blocks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
            };
            logical += writes.iter().map(bytes).sum::<usize>() as u64;
            heads += writes.len() as u64;
            for answer in store.write(Fence::EVERYTHING, writes).await {
                answer.unwrap();
            }
            slowest = slowest.max(begin.elapsed());
        }
        round += 1;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    syncs.abort();
    store.sync().await.unwrap();
    let written = written_bytes() - written;
    println!(
        "{name} passes: {:.0} heads/s, cpu {:.1} us/head, written {:.2} x, disk {:.0} MB for {:.0} MB of blocks and 37 MB of heads, slowest pass {} ms, memory {:.0} MB",
        heads as f64 / seconds,
        cpu * 1e6 / heads as f64,
        written as f64 / logical as f64,
        disk_mb(dir),
        heads as f64 / 4.0 * BLOCK_BYTES as f64 / 1e6,
        slowest.as_millis(),
        memory_mb("VmHWM"),
    );
}

async fn sync_each_second(store: Arc<dyn AggregateStore>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.sync().await.unwrap();
    }
}

/// 1,000 metrics with 360 blocks each, written block by block over all metrics; then reads whole metrics.
async fn reads(name: &str, dir: &Path) {
    const METRICS: usize = 1000;
    const BLOCKS: usize = 360;
    const READS: usize = 2000;
    let store = open(name, dir).await.unwrap();
    for number in 0..BLOCKS {
        let writes: Vec<MetricWrite> = (0..METRICS)
            .map(|id| MetricWrite {
                metric: metric(id),
                blocks: vec![(block_key(id, number), value(BLOCK_BYTES, (number * METRICS + id) as u64))],
                expired: Vec::new(),
                head: value(head_bytes(id), number as u64),
            })
            .collect();
        for writes in writes.chunks(BATCH) {
            store.write(Fence::EVERYTHING, writes.to_vec()).await;
        }
    }
    store.sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    for (what, from, to, wanted) in [
        ("360 blocks", 0, i64::MAX, BLOCKS),
        ("1 block", 200 * 3600 * 1_000_000_000, 200 * 3600 * 1_000_000_000, 1),
    ] {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        for read in 0..READS {
            let range = BlockRange {
                metric: metric(read * 7919 % METRICS),
                granularity: Timespan::from_secs(60),
                from: Timestamp(from),
                to: Timestamp(to),
            };
            let blocks = store.read_blocks(&[range]).await.remove(0).unwrap();
            assert_eq!(blocks.whole.len(), wanted);
        }
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let micros = |seconds: f64| seconds * 1e6 / READS as f64;
        println!("{name} reads {what}: {:.1} us a read, cpu {:.1} us", micros(seconds), micros(cpu));
    }
}

/// A million heads of 1 KB: times writing them, reopening the store, and passes over random ones.
async fn million(name: &str, dir: &Path) {
    const METRICS: usize = 1_000_000;
    let store = open(name, dir).await.unwrap();
    let syncs = tokio::spawn(sync_each_second(Arc::clone(&store)));
    let start = Instant::now();
    let head = |id: usize, round: usize| MetricWrite {
        metric: metric(id),
        blocks: Vec::new(),
        expired: Vec::new(),
        head: value(1000, (id + round) as u64),
    };
    for first in (0..METRICS).step_by(BATCH) {
        let writes = (first..METRICS.min(first + BATCH)).map(|id| head(id, 0)).collect();
        assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
    }
    store.sync().await.unwrap();
    let written = start.elapsed().as_secs_f64();
    syncs.abort();
    drop(syncs.await);
    drop(store);
    let start = Instant::now();
    let store = open(name, dir).await.unwrap();
    let opened = start.elapsed().as_secs_f64();
    let memory_opened = memory_mb("VmRSS");
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let syncs = tokio::spawn(sync_each_second(Arc::clone(&store)));
    let (mut heads, mut next) = (0, 1usize);
    while start.elapsed() < Duration::from_secs(20) {
        let ids: Vec<usize> = (0..BATCH)
            .map(|_| {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (next >> 20) % METRICS
            })
            .collect();
        let metrics: Vec<MetricId> = ids.iter().map(|id| metric(*id)).collect();
        assert!(store.read_heads(&metrics).await.into_iter().all(|head| head.unwrap().is_some()));
        store.write(Fence::EVERYTHING, ids.iter().map(|id| head(*id, 1)).collect()).await;
        heads += BATCH;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    syncs.abort();
    println!(
        "{name} million: written in {written:.1} s, opened in {opened:.2} s with {memory_opened:.0} MB, then {:.0} heads/s, cpu {:.1} us/head, disk {:.0} MB, memory {:.0} MB",
        heads as f64 / seconds,
        cpu * 1e6 / heads as f64,
        disk_mb(dir),
        memory_mb("VmHWM"),
    );
}

/// Times opening a store whose process was killed.
async fn crash(name: &str, dir: &Path) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let root = dir.parent().unwrap();
    child.args([name, "fill", root.to_str().unwrap(), dir.to_str().unwrap()]).status().unwrap();
    let disk = disk_mb(dir);
    let start = Instant::now();
    let _store = open(name, dir).await.unwrap();
    println!("{name} crash: opened in {:.2} s, {disk:.0} MB on disk", start.elapsed().as_secs_f64());
}

/// Writes 200,000 heads and as many blocks, syncing every second, and exits without closing.
async fn fill(name: &str, dir: &Path) {
    let store = open(name, dir).await.unwrap();
    let _syncs = tokio::spawn(sync_each_second(Arc::clone(&store)));
    for round in 0..20 {
        for first in (0..10_000).step_by(100) {
            let writes = (first..first + 100)
                .map(|id| MetricWrite {
                    metric: metric(id),
                    blocks: vec![(block_key(id, round), value(BLOCK_BYTES, (round * 10_000 + id) as u64))],
                    expired: Vec::new(),
                    head: value(head_bytes(id), (round + id) as u64),
                })
                .collect();
            assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
        }
    }
    store.sync().await.unwrap();
    std::process::abort();
}

fn proc_figure(file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that the process has written to the disk.
fn written_bytes() -> u64 {
    proc_figure("/proc/self/io", "write_bytes:") as u64
}

fn memory_mb(name: &str) -> f64 {
    proc_figure("/proc/self/status", name) / 1e3
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

fn disk_mb(dir: &Path) -> f64 {
    fn size(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::symlink_metadata(path).unwrap();
        if !metadata.is_dir() {
            return metadata.blocks() * 512;
        }
        std::fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum()
    }
    size(dir) as f64 / 1e6
}
