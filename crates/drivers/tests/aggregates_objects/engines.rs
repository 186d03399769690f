//! The suite on real object stores, and two processes that write to one shard concurrently.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use gnudi_drivers::{
    aggregates::{AggregateStore, objects::ObjectAggregates},
    conformance,
    coordination::memory::MemoryArbiter,
    objects::{
        ObjectError, Objects,
        ceph::CephObjects,
        file::{FileObjects, FileOptions},
        s3::S3Objects,
        swift::SwiftObjects,
    },
};

use crate::{
    Changeable,
    ceph::Ceph,
    radosgw::{self, Radosgw},
    server::fresh_name,
    setup::{CLUSTER, fence, options},
    support::aggregate_items::{blocks, head, key, write},
};

/// A part of a store that acts as its own store: an engine is started only once.
struct Under {
    objects: Arc<dyn Objects>,
    prefix: String,
}

impl Under {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

#[async_trait]
impl Objects for Under {
    fn place(&self) -> String {
        self.objects.place()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.objects.put(&self.name(name), bytes).await
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.objects.create(&self.name(name), bytes).await
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        self.objects.get(&self.name(name)).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        self.objects.get_range(&self.name(name), start, length).await
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        let names: Vec<String> = names.iter().map(|name| self.name(name)).collect();
        self.objects.delete(&names).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let names = self.objects.list(&self.name(prefix)).await?;
        let own = |name: String| Some(name.strip_prefix(&self.prefix)?.strip_prefix('/')?.to_owned());
        Ok(names.into_iter().filter_map(own).collect())
    }
}

/// All tests of a real store.
async fn holds_on(objects: Arc<dyn Objects>) {
    let next = || Under { objects: objects.clone(), prefix: fresh_name() };
    conformance::aggregates(async || {
        ObjectAggregates::open(Arc::new(next()), CLUSTER, options()).await.unwrap()
    })
    .await;
    conformance::damaged_aggregates(async || Changeable { objects: Arc::new(next()), options: options() })
        .await;
    let shared = Arc::new(next());
    two_write_to_one_shard(&[
        ObjectAggregates::open(shared.clone(), CLUSTER, options()).await.unwrap(),
        ObjectAggregates::open(shared, CLUSTER, options()).await.unwrap(),
    ])
    .await;
}

/// Sacks 0 and 2 of four lie in shard 0 of two. Nothing is lost although their commits race.
async fn two_write_to_one_shard(processes: &[Arc<ObjectAggregates>; 2]) {
    const ROUNDS: i64 = 15;
    let writing = processes.iter().enumerate().map(async |(at, store)| {
        let (own, id) = (fence(4, 2 * at as u16, 1), 2 * at);
        store.raise(own).await.unwrap();
        for round in 0..ROUNDS {
            let text = format!("round {round}");
            let writes = vec![write(id, &text, &[(key(id, 60 * round), &text)])];
            store.write(own, writes).await.remove(0).unwrap();
            assert_eq!(head(&**store, id).await.unwrap(), Some(text));
        }
    });
    join_all(writing).await;
    let wanted: Vec<String> = (0..ROUNDS).map(|round| format!("round {round}")).collect();
    for store in processes {
        for id in [0, 2] {
            assert_eq!(blocks(&**store, id).await, wanted, "metric {id}");
        }
        store.settle().await;
        assert_eq!(store.figures().damaged, 0);
    }
    assert!(processes.iter().any(|store| store.figures().merges > 0));
}

#[tokio::test]
async fn on_a_shared_folder() {
    let folder = tempfile::tempdir().unwrap();
    let options = FileOptions::new(folder.path().to_owned());
    holds_on(Arc::new(FileObjects::open(&options, "aggregates").await.unwrap())).await;
}

/// One Ceph, for all its interfaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_ceph_s3_and_swift() {
    let ceph = Ceph::start();
    ceph.create_pool("gnocchi");
    holds_on(Arc::new(CephObjects::open(&ceph.options(), "aggregates").await.unwrap())).await;
    let gateway = Radosgw::start(ceph.conf());
    let s3 = radosgw::s3_at(&gateway.endpoint());
    holds_on(Arc::new(S3Objects::open(&s3, "aggregates").await.unwrap())).await;
    let swift = radosgw::swift_at(&gateway.swift_auth());
    let arbiter = Arc::new(MemoryArbiter::default());
    // A container of the same name would be the same bucket.
    holds_on(Arc::new(SwiftObjects::open(&swift, "swift", arbiter).await.unwrap())).await;
}
