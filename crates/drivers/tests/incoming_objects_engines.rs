//! The log of objects on real stores: Ceph, and S3 and Swift of radosgw on a Ceph; and its speed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gnudi_drivers::{
    conformance::{self, IncomingSetup},
    coordination::memory::MemoryArbiter,
    incoming::{
        Append as _,
        objects::{ObjectIncoming, ObjectIncomingOptions},
    },
    objects::{Objects, ceph::CephObjects, s3::S3Objects, swift::SwiftObjects},
};
use uuid::Uuid;

#[path = "engines/ceph.rs"]
mod ceph;
#[path = "engines/radosgw.rs"]
mod radosgw;
#[path = "engines/server.rs"]
mod server;
mod support;
use server::fresh_name;
use support::log_of_objects::{CLUSTER, batch};

async fn open(objects: Arc<dyn Objects>, setup: IncomingSetup) -> Arc<ObjectIncoming> {
    let options = ObjectIncomingOptions {
        backlog_bytes_max: setup.backlog_bytes_max,
        sack_count: setup.sack_count,
        look_delay_idle: Duration::from_millis(50),
        ..ObjectIncomingOptions::default()
    };
    ObjectIncoming::open(objects, None, CLUSTER, Uuid::new_v4(), options).await.unwrap()
}

/// Each call of `make` must give a new, empty store.
async fn conforms<O: Objects>(make: &impl AsyncFn() -> Arc<O>) {
    conformance::incoming(async |setup| open(make().await, setup).await).await;
    conformance::shared_incoming(async |setup| {
        let objects: Arc<dyn Objects> = make().await;
        [open(Arc::clone(&objects), setup).await, open(objects, setup).await]
    })
    .await;
}

/// Requests for 500 metrics from several concurrent clients, compared with creating objects of the same size
/// in sequence.
async fn speed(objects: Arc<dyn Objects>) {
    const CLIENTS: usize = 8;
    let points = "x".repeat(50);
    let until = Instant::now() + Duration::from_secs(2);
    let options = ObjectIncomingOptions::default();
    let store = Arc::clone(&objects);
    let log = ObjectIncoming::open(store, None, CLUSTER, Uuid::new_v4(), options).await.unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (log, points) = (Arc::clone(&log), points.clone());
            tokio::spawn(async move {
                let mut requests = 0_u64;
                while Instant::now() < until {
                    let entries: Vec<(u128, &str)> =
                        (0..500).map(|metric| (metric * 8 + client as u128, points.as_str())).collect();
                    log.append(batch(&entries)).await.unwrap();
                    requests += 1;
                }
                requests
            })
        })
        .collect();
    let mut requests = 0;
    for client in clients {
        requests += client.await.unwrap();
    }
    let written = log.figures().objects;
    let bytes = log.backlog().await.unwrap().bytes / written;
    let (mut plain, until) = (0, Instant::now() + Duration::from_secs(1));
    while Instant::now() < until {
        let name = format!("plain/{plain}");
        objects.create(&name, Bytes::from(vec![1; bytes as usize])).await.unwrap();
        plain += 1;
    }
    println!(
        "{}: {} requests/s of 500 metrics in {} objects/s of {bytes} bytes; plain creates of that size: {plain}/s",
        objects.place(),
        requests / 2,
        written / 2,
    );
    assert!(requests > written, "requests share objects");
    assert!(!log.figures().object_time.is_zero());
}

async fn holds<O: Objects>(make: impl AsyncFn() -> Arc<O>) {
    conforms(&make).await;
    speed(make().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_ceph() {
    let engine = ceph::Ceph::start();
    engine.create_pool("gnocchi");
    holds(async || Arc::new(CephObjects::open(&engine.options(), &fresh_name()).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_s3() {
    let engine = ceph::Ceph::start();
    let gateway = radosgw::Radosgw::start(engine.conf());
    let options = radosgw::s3_at(&gateway.endpoint());
    holds(async || Arc::new(S3Objects::open(&options, &fresh_name()).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_swift() {
    let engine = ceph::Ceph::start();
    let gateway = radosgw::Radosgw::start(engine.conf());
    let options = radosgw::swift_at(&gateway.swift_auth());
    let arbiter = Arc::new(MemoryArbiter::default());
    let open = async || SwiftObjects::open(&options, &fresh_name(), arbiter.clone()).await;
    holds(async || Arc::new(open().await.unwrap())).await;
}
