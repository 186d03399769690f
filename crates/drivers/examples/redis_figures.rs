//! Throughput of Redis as incoming and aggregate store: `cargo run --release -p gnudi-drivers --example
//! redis_figures -- URL [SECONDS]`, to compare with `redis-benchmark` on the same server.
//!
//! Writes under its own prefixes and leaves the keys there: use a dedicated server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, Fence, MetricWrite,
        redis::{RedisAggregates, RedisAggregatesOptions},
    },
    clients::redis::RedisOptions,
    incoming::{
        Append as _, Batch, Consume as _, IncomingError, Position,
        redis::{RedisIncoming, RedisIncomingOptions},
    },
};
use gnudi_model::{MetricId, Sack};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(1);
const CALLERS: u64 = 8;
const MEASURES: u32 = 5000;

/// `metrics` of a batch share its measures, of `bytes` each.
struct Shape {
    name: &'static str,
    metrics: u32,
    bytes: usize,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "5,000 of 1 metric, 8 B each", metrics: 1, bytes: 8 },
    Shape { name: "50 of 100 metrics, 8 B each", metrics: 100, bytes: 8 },
    Shape { name: "5 of 1,000 metrics, 4 B each", metrics: 1000, bytes: 4 },
    Shape { name: "5 of 1,000 metrics, 8 B each", metrics: 1000, bytes: 8 },
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: redis_figures URL [SECONDS]");
        std::process::exit(2);
    };
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!(
            "{:34} {:>10} {:>12} {:>8} {:>8} {:>8}",
            "appends", "batches/s", "measures/s", "MB/s", "trips", "p50 us"
        );
        for shape in &SHAPES {
            appends(&url, shape, Duration::from_secs(seconds)).await;
        }
        passes(&url).await;
    });
}

async fn incoming(url: &str) -> Arc<RedisIncoming> {
    let options = RedisOptions::new(url.parse().expect("a URL of Redis"));
    let prefix = format!("figures-{}", unused());
    let options = RedisIncomingOptions { prefix, ..RedisIncomingOptions::new(options) };
    RedisIncoming::open(options, None, CLUSTER).await.unwrap()
}

/// A name part that no earlier run has used.
fn unused() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

fn batch(shape: &Shape, random: &mut Rng) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..shape.metrics {
        let measures = MEASURES / shape.metrics;
        let metric = MetricId(Uuid::from_u128(random.u128(..)));
        batch.push(metric, measures, |out| out.resize(out.len() + measures as usize * shape.bytes, 7));
    }
    batch
}

async fn appends(url: &str, shape: &Shape, time: Duration) {
    let driver = incoming(url).await;
    let worker = tokio::spawn(drain(Arc::clone(&driver)));
    let bytes = Arc::new(AtomicU64::new(0));
    let (started, trips) = (Instant::now(), driver.figures().trips);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (driver, bytes) = (Arc::clone(&driver), Arc::clone(&bytes));
            let shape = Shape { ..*shape };
            tokio::spawn(async move {
                let (mut random, mut latencies) = (Rng::with_seed(caller), Vec::new());
                while started.elapsed() < time {
                    let batch = batch(&shape, &mut random);
                    let of_batch = batch.bytes.len() as u64;
                    let begun = Instant::now();
                    match driver.append(batch).await {
                        Ok(()) => latencies.push(begun.elapsed()),
                        Err(IncomingError::BacklogFull { .. }) => {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    bytes.fetch_add(of_batch, Ordering::Relaxed);
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await.unwrap());
    }
    let seconds = started.elapsed().as_secs_f64();
    worker.abort();
    latencies.sort_unstable();
    let batches = latencies.len() as f64;
    println!(
        "{:34} {:>10.0} {:>12.0} {:>8.0} {:>8} {:>8}",
        shape.name,
        batches / seconds,
        batches * f64::from(MEASURES) / seconds,
        bytes.load(Ordering::Relaxed) as f64 / seconds / 1e6,
        driver.figures().trips - trips,
        latencies[latencies.len() / 2].as_micros(),
    );
}

/// A worker that reads nothing: acknowledges and trims, so that memory does not grow.
async fn drain(driver: Arc<RedisIncoming>) {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sacks: Vec<Sack> = driver.numbering().count.sacks().collect();
        let positions = driver.positions(&sacks).await.unwrap();
        let newest: Vec<(Sack, Position)> =
            sacks.into_iter().zip(positions).map(|(sack, positions)| (sack, positions.newest)).collect();
        for (sack, position) in &newest {
            driver.acknowledge(*sack, *position).await.unwrap();
        }
        driver.trim(&newest).await.unwrap();
    }
}

/// Passes over 20,000 metrics of 60 points: reads heads of 2 kB, and writes them back.
async fn passes(url: &str) {
    let options = RedisOptions::new(url.parse().expect("a URL of Redis"));
    let prefix = format!("figures-{}", unused());
    let store = RedisAggregates::open(
        RedisAggregatesOptions { prefix, ..RedisAggregatesOptions::new(options) },
        CLUSTER,
    )
    .await
    .unwrap();
    let head = bytes::Bytes::from(vec![7; 2000]);
    let metrics: Vec<MetricId> = (0..20_000).map(|id| MetricId(Uuid::from_u128(id))).collect();
    for round in ["20,000 new heads of 2 kB", "and once more"] {
        let started = Instant::now();
        let mut reading = Duration::ZERO;
        // As many sacks as shards: each pass is within one shard.
        for sack in 0..128 {
            let of_sack: Vec<MetricId> = metrics.iter().skip(sack).step_by(128).copied().collect();
            let begun = Instant::now();
            assert!(store.read_heads(&of_sack).await.iter().all(Result::is_ok));
            reading += begun.elapsed();
            let write = |metric: &MetricId| MetricWrite::of_head(*metric, head.clone());
            let writes = store.write(Fence::EVERYTHING, of_sack.iter().map(write).collect()).await;
            assert!(writes.iter().all(Result::is_ok));
        }
        let took = started.elapsed();
        println!("{round}: {} ms, {} of them reading", took.as_millis(), reading.as_millis());
    }
}
