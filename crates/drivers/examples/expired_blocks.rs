//! How often the embedded store copies blocks, and how much space expired ones take: `cargo run --release --example expired_blocks`.
//!
//! Each metric gets a block in every round, and loses the oldest once it has as many as it keeps. All sizes are a thousandth of those of a
//! real store: 256 KiB of recent entries, 80 MB of blocks. Heads are tiny.

use std::time::Instant;

use gnudi_drivers::aggregates::{
    AggregateStore as _, BlockKey, Fence, MetricWrite,
    local::{LocalAggregates, LocalAggregatesOptions},
};
use gnudi_model::{MetricId, Timespan, Timestamp};
use uuid::Uuid;

const METRICS: usize = 1_250;
const KEPT: i64 = 64;
const ROUNDS: i64 = 6 * KEPT;
const BLOCK_BYTES: usize = 1_000;
const BATCH: usize = 125;
const BLOCK_SECONDS: i64 = 3_600;

fn key(metric: usize, round: i64) -> BlockKey {
    let first = Timestamp::from_secs(round * BLOCK_SECONDS);
    let last = Timestamp::from_secs((round + 1) * BLOCK_SECONDS - 1);
    let metric = MetricId(Uuid::from_u128(metric as u128));
    BlockKey { metric, granularity: Timespan::from_secs(1), first, last }
}

fn write(metric: usize, round: i64) -> MetricWrite {
    let new = key(metric, round);
    let expired = (round >= KEPT).then(|| key(metric, round - KEPT)).into_iter().collect();
    MetricWrite {
        metric: new.metric,
        blocks: vec![(new, vec![round as u8; BLOCK_BYTES].into())],
        expired,
        head: vec![0; 16].into(),
    }
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        LocalAggregatesOptions { recent_bytes_max: 256 << 10, segment_bytes: 1 << 20, ..Default::default() };
    let store = LocalAggregates::open(folder.path(), &options).expect("an empty folder");
    let (start, mut before, mut sizes) = (Instant::now(), 0, Vec::new());
    for round in 0..ROUNDS {
        for batch in (0..METRICS).collect::<Vec<_>>().chunks(BATCH) {
            let writes = batch.iter().map(|metric| write(*metric, round)).collect();
            for written in store.write(Fence::EVERYTHING, writes).await {
                written.expect("a write");
            }
        }
        // What expires has an effect once as much again was written.
        if round == 2 * KEPT {
            before = store.figures().run_bytes;
        }
        if round >= 2 * KEPT {
            sizes.push(store.figures().runs_size_bytes);
        }
    }
    let live = METRICS as f64 * KEPT as f64 * BLOCK_BYTES as f64;
    let written = (ROUNDS - 2 * KEPT) as f64 * METRICS as f64 * BLOCK_BYTES as f64;
    let copies = (store.figures().run_bytes - before) as f64 / written;
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64 / live;
    let largest = sizes.iter().max().map_or(0.0, |size| *size as f64 / live);
    println!("each block is written to runs {copies:.2} times");
    println!("runs take {mean:.2} times the blocks that are kept on average, {largest:.2} times at most");
    println!("{:.1} s", start.elapsed().as_secs_f64());
}
