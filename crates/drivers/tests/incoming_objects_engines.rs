//! The log of objects on real stores: Ceph, and S3 of radosgw on that Ceph; and how fast they take measures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use gnudi_drivers::{
    conformance::{self, IncomingSetup},
    incoming::{
        Incoming,
        objects::{ObjectIncoming, ObjectIncomingOptions},
    },
    objects::{
        Objects, Secret,
        ceph::{CephObjects, CephOptions},
        s3::{S3Objects, S3Options},
    },
};
use uuid::Uuid;

#[path = "engines/ceph.rs"]
mod ceph;
#[path = "engines/radosgw.rs"]
mod radosgw;
#[path = "engines/server.rs"]
mod server;
mod support;
use support::log_of_objects::{CLUSTER, batch, strict};

async fn open(objects: Arc<dyn Objects>, setup: IncomingSetup) -> Arc<ObjectIncoming> {
    let options = ObjectIncomingOptions {
        backlog_bytes_max: setup.backlog_bytes_max,
        timeout: Duration::from_secs(10),
        ..strict(setup.sack_count.get())
    };
    ObjectIncoming::open(objects, CLUSTER, Uuid::new_v4(), options).await.unwrap()
}

/// Each call of `make` gives a new, empty store.
async fn conforms(make: impl AsyncFn() -> Arc<dyn Objects>) {
    conformance::incoming(async |setup| open(make().await, setup).await).await;
    conformance::shared_incoming(async |setup| {
        let objects = make().await;
        [open(Arc::clone(&objects), setup).await, open(objects, setup).await]
    })
    .await;
}

/// Requests of 5,000 measures from several clients at once, beside creating objects of the same size one after the other.
async fn speed(objects: Arc<dyn Objects>) {
    const CLIENTS: usize = 8;
    let points = "x".repeat(50);
    let until = Instant::now() + Duration::from_secs(2);
    let options = ObjectIncomingOptions::default();
    let log = ObjectIncoming::open(Arc::clone(&objects), CLUSTER, Uuid::new_v4(), options).await.unwrap();
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
        "{}: {} requests/s of 500 metrics (at ten measures each {} measures/s) in {} objects/s of {bytes} bytes; \
         plain creates of that size: {plain}/s",
        objects.place(),
        requests / 2,
        requests / 2 * 5000,
        written / 2,
    );
    assert!(requests > written, "requests share objects");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_ceph_and_s3() {
    let engine = ceph::Ceph::start();
    engine.create_pool("gnocchi");
    let made = AtomicUsize::new(0);
    let purpose = || format!("incoming{}", made.fetch_add(1, Ordering::Relaxed));
    let options = CephOptions { conffile: engine.conf(), ..CephOptions::default() };
    let make =
        async || -> Arc<dyn Objects> { Arc::new(CephObjects::open(&options, &purpose()).await.unwrap()) };
    conforms(make).await;
    speed(make().await).await;
    let gateway = radosgw::Radosgw::start(engine.conf());
    let options = S3Options {
        endpoint_url: Some(gateway.endpoint()),
        access_key_id: Some(radosgw::ACCESS_KEY.to_owned()),
        secret_access_key: Some(Secret::new(radosgw::SECRET_KEY)),
        ..S3Options::default()
    };
    let make =
        async || -> Arc<dyn Objects> { Arc::new(S3Objects::open(&options, &purpose()).await.unwrap()) };
    conforms(make).await;
    speed(make().await).await;
}
