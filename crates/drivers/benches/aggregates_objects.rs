//! Passes over 20,000 heads on an object store: `cargo bench -p gnudi-drivers --bench aggregates_objects
//! [ENGINE...]`.
//!
//! Engines are `memory`, `slow` (memory with 2 ms per request), `ceph` and `s3`; for the latter two the bench
//! starts a Ceph. Prints per pass the heads read and written per second, and the requests; at the end the
//! bytes written in total.

use std::{sync::Arc, time::Duration, time::Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gnudi_drivers::{
    aggregates::{
        AggregateStore, Fence, MetricWrite,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    objects::{Objects, ceph::CephObjects, memory::MemoryObjects, s3::S3Objects},
};
use gnudi_model::{MetricId, Sack, SackCount};
use uuid::Uuid;

#[path = "../tests/engines/ceph.rs"]
mod ceph;
#[path = "../tests/engines/radosgw.rs"]
mod radosgw;
#[path = "../tests/engines/server.rs"]
mod server;

const HEADS: u128 = 20_000;
const HEAD_BYTES: usize = 550;
const PASSES: usize = 4;
/// Sacks processed concurrently.
const WORKERS: usize = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let engines: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let engines = if engines.is_empty() { vec!["memory".to_owned(), "slow".to_owned()] } else { engines };
    for engine in engines {
        match engine.as_str() {
            "memory" => measure("memory", Arc::new(MemoryObjects::default())).await,
            "slow" => {
                let objects = MemoryObjects::default();
                objects.set_delay(Duration::from_millis(2));
                measure("memory, 2 ms a request", Arc::new(objects)).await;
            }
            "ceph" => {
                let ceph = ceph::Ceph::start();
                ceph.create_pool("gnocchi");
                measure("ceph", Arc::new(CephObjects::open(&ceph.options(), "bench").await.unwrap())).await;
            }
            "s3" => {
                let ceph = ceph::Ceph::start();
                let gateway = radosgw::Radosgw::start(ceph.conf());
                let s3 = radosgw::s3_at(&gateway.endpoint());
                measure("radosgw", Arc::new(S3Objects::open(&s3, "bench").await.unwrap())).await;
            }
            _ => panic!("no engine {engine}"),
        }
    }
}

async fn measure(name: &str, objects: Arc<dyn Objects>) {
    let options = ObjectAggregatesOptions::default();
    let sacks: Vec<Sack> = SackCount::DEFAULT.sacks().collect();
    let store = ObjectAggregates::open(objects, Uuid::from_u128(1), options).await.unwrap();
    let fence = |sack: Sack| Fence { sack, token: 1 };
    for raised in
        stream::iter(&sacks).map(|sack| store.raise(fence(*sack))).buffered(WORKERS).collect::<Vec<_>>().await
    {
        raised.unwrap();
    }
    println!("{name}: {HEADS} heads of {HEAD_BYTES} bytes in {} sacks", sacks.len());
    for pass in 1..=PASSES {
        let (began, before) = (Instant::now(), store.figures());
        let passes = sacks.iter().map(|sack| one_pass(&store, fence(*sack), pass));
        stream::iter(passes).buffer_unordered(WORKERS).collect::<Vec<()>>().await;
        let seconds = began.elapsed().as_secs_f64();
        let requests = store.figures().requests - before.requests;
        println!(
            "  pass {pass}: {:.0} heads/s, {requests} requests, {:.1} a sack",
            HEADS as f64 / seconds,
            requests as f64 / sacks.len() as f64
        );
    }
    let more = 12;
    for pass in 0..more {
        let passes = sacks.iter().map(|sack| one_pass(&store, fence(*sack), pass));
        stream::iter(passes).buffer_unordered(WORKERS).collect::<Vec<()>>().await;
    }
    store.settle().await;
    let figures = store.figures();
    println!(
        "  after {} passes: {} runs, {:.2} bytes written for each byte of a pass, {} merges, {:.1} requests a sack and pass",
        PASSES + more,
        figures.runs,
        (figures.written_bytes + figures.merged_bytes) as f64 / figures.written_bytes as f64,
        figures.merges,
        figures.requests as f64 / (sacks.len() * (PASSES + more)) as f64
    );
}

/// Reads the heads of a sack and writes them back.
async fn one_pass(store: &ObjectAggregates, fence: Fence, pass: usize) {
    let ids = (0..HEADS).filter(|id| id % 128 == u128::from(fence.sack.id.0));
    let metrics: Vec<MetricId> = ids.map(|id| MetricId(Uuid::from_u128(id))).collect();
    assert!(store.read_heads(&metrics).await.iter().all(Result::is_ok));
    let head = Bytes::from(vec![pass as u8; HEAD_BYTES]);
    let write = |metric: &MetricId| MetricWrite::of_head(*metric, head.clone());
    let writes = metrics.iter().map(write).collect();
    assert!(store.write(fence, writes).await.iter().all(Result::is_ok));
}
