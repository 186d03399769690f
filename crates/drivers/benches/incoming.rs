//! Concurrent appends to the incoming log: `cargo bench -p gnudi-drivers --bench incoming [DIR]`.
//!
//! Prints for each batch shape appends and frame bytes per second, batches per sync, and CPU per append.

use std::{path::PathBuf, sync::Arc, time::Duration, time::Instant};

use fastrand::Rng;
use gnudi_drivers::incoming::{
    Append as _, Batch, Consume as _, Position,
    log::{Durability, LocalIncoming, LocalIncomingOptions},
};
use gnudi_model::MetricId;
use uuid::Uuid;

struct Shape {
    name: &'static str,
    appenders: u64,
    metrics_each: u64,
    points_bytes: usize,
    durability: Durability,
}

/// The fields of each shape, in their order.
const SHAPES: [(&str, u64, u64, usize, Durability); 7] = [
    ("1 measure, 1 caller", 1, 1, 17, Durability::Sync),
    ("1 measure, 64 callers", 64, 1, 17, Durability::Sync),
    ("1 measure, 64 callers, os", 64, 1, 17, Durability::Os),
    ("5,000 measures, 8 callers", 8, 1, 45_000, Durability::Sync),
    ("5,000 measures, 64 callers", 64, 1, 45_000, Durability::Sync),
    ("5,000 measures, 64 callers, os", 64, 1, 45_000, Durability::Os),
    ("1,000 metrics x 5, 8 callers", 8, 1000, 40, Durability::Sync),
];

const RUN: Duration = Duration::from_secs(3);

fn main() {
    let root = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!(
        "{:32} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9}",
        "", "appends/s", "MB/s", "per sync", "ms/sync", "cpu us", "p50 us"
    );
    for (name, appenders, metrics_each, points_bytes, durability) in SHAPES {
        let shape = Shape { name, appenders, metrics_each, points_bytes, durability };
        let dir = tempfile::tempdir_in(&root).unwrap();
        runtime.block_on(run(&shape, dir.path()));
    }
    for (metrics_each, appends) in [(1, 400_000), (1000, 1000)] {
        let dir = tempfile::tempdir_in(&root).unwrap();
        runtime.block_on(read_back(metrics_each, appends, dir.path()));
    }
}

async fn run(shape: &Shape, dir: &std::path::Path) {
    let options = LocalIncomingOptions { durability: shape.durability, ..LocalIncomingOptions::default() };
    let log = LocalIncoming::open(dir, &options).unwrap();
    let worker = tokio::spawn(drain(Arc::clone(&log)));
    let (start, cpu) = (Instant::now(), cpu_time());
    let appenders: Vec<_> = (0..shape.appenders)
        .map(|task| {
            let log = Arc::clone(&log);
            let points = vec![7u8; shape.points_bytes];
            let metrics = shape.metrics_each;
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut random = Rng::with_seed(task);
                while start.elapsed() < RUN {
                    let mut batch = Batch::default();
                    for _ in 0..metrics {
                        let metric = MetricId(Uuid::from_u128(random.u128(..)));
                        batch.push(metric, 1, |out| out.extend_from_slice(&points));
                    }
                    let begin = Instant::now();
                    log.append(batch).await.unwrap();
                    latencies.push(begin.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for appender in appenders {
        latencies.extend(appender.await.unwrap());
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
    worker.abort();
    let figures = log.figures();
    latencies.sort_unstable();
    let bytes =
        figures.appends as f64 * (shape.metrics_each as usize * (shape.points_bytes + 40) + 32) as f64;
    println!(
        "{:32} {:>10.0} {:>8.0} {:>8.1} {:>9.3} {:>9.1} {:>9}",
        shape.name,
        figures.appends as f64 / seconds,
        bytes / seconds / 1e6,
        figures.appends as f64 / figures.syncs.max(1) as f64,
        figures.sync_time.as_secs_f64() * 1e3 / figures.syncs.max(1) as f64,
        cpu * 1e6 / figures.appends as f64,
        latencies[latencies.len() / 2].as_micros(),
    );
}

/// Reads a backlog, sack by sack, like workers.
async fn read_back(metrics_each: u64, appends: u64, dir: &std::path::Path) {
    let options = LocalIncomingOptions { durability: Durability::Os, ..LocalIncomingOptions::default() };
    let log = LocalIncoming::open(dir, &options).unwrap();
    let mut random = Rng::with_seed(1);
    for _ in 0..appends / 50 {
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let mut batch = Batch::default();
            for _ in 0..metrics_each {
                batch.push(MetricId(Uuid::from_u128(random.u128(..))), 1, |out| out.extend([7; 17]));
            }
            let log = Arc::clone(&log);
            waiting.spawn(async move { log.append(batch).await.unwrap() });
        }
        waiting.join_all().await;
    }
    let (start, cpu, mut records) = (Instant::now(), cpu_time(), 0);
    for sack in log.numbering().count.sacks() {
        let mut after = Position(0);
        loop {
            let read = log.pending(sack, after, 1 << 20).await.unwrap().records;
            let Some(last) = read.last() else { break };
            (after, records) = (last.position, records + read.len());
            log.acknowledge(sack, after).await.unwrap();
        }
    }
    println!(
        "read back, {metrics_each} records a batch: {:.2} us a record, cpu {:.2} us",
        start.elapsed().as_secs_f64() * 1e6 / records as f64,
        (cpu_time() - cpu) * 1e6 / records as f64,
    );
}

/// A worker that reads nothing: acknowledges and trims, so that files are recycled.
async fn drain(log: Arc<LocalIncoming>) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut trimmed = Vec::new();
        for sack in log.numbering().count.sacks() {
            let newest = log.positions(&[sack]).await.unwrap()[0].newest;
            if newest > Position(0) {
                log.acknowledge(sack, newest).await.unwrap();
                trimmed.push((sack, newest));
            }
        }
        log.trim(&trimmed).await.unwrap();
    }
}

fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
