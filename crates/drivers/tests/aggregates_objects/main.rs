//! Aggregates on an object store: the suite, number of requests, random passes of two processes, suspended
//! writers, readers beside them, damage.

mod chain;
mod damage;
mod engines;
mod model;
mod readers;
mod setup;
mod trips;
mod world;

#[path = "../engines/ceph.rs"]
mod ceph;
#[path = "../engines/radosgw.rs"]
mod radosgw;
#[path = "../engines/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use gnudi_drivers::{
    aggregates::{
        AggregateStore as _, Fence, Movable as _,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    conformance::{self, Damageable},
    objects::{Objects, memory::MemoryObjects},
};
use gnudi_model::SackCount;

use crate::{
    setup::{CLUSTER, open, options},
    support::aggregate_items::write,
};

#[tokio::test]
async fn the_suite() {
    conformance::aggregates(async || {
        open(&MemoryObjects::default(), ObjectAggregatesOptions::default()).await
    })
    .await;
    // Merging all the time, with segments of a few entries.
    conformance::aggregates(async || open(&MemoryObjects::default(), options()).await).await;
}

/// An object store whose bytes a test can change.
pub struct Changeable {
    pub objects: Arc<dyn Objects>,
    pub options: ObjectAggregatesOptions,
}

#[async_trait]
impl Damageable for Changeable {
    type Store = ObjectAggregates;

    async fn open(&self) -> Arc<ObjectAggregates> {
        ObjectAggregates::open(self.objects.clone(), CLUSTER, self.options.clone()).await.unwrap()
    }

    async fn damage(&self, value: &[u8]) {
        let mut hit = 0;
        for name in self.objects.list("").await.unwrap() {
            let Some(bytes) = self.objects.get(&name).await.unwrap() else { continue };
            if let Some(hurt) = conformance::hurt(&bytes, value) {
                // Swift reads what was created before what was put.
                self.objects.delete(std::slice::from_ref(&name)).await.unwrap();
                self.objects.put(&name, hurt.into()).await.unwrap();
                hit += 1;
            }
        }
        assert!(hit > 0, "the value is nowhere");
    }
}

#[tokio::test]
async fn the_suite_of_damage() {
    // As written, and merged all the time.
    for options in [ObjectAggregatesOptions::default(), options()] {
        conformance::damaged_aggregates(async || {
            let objects = Arc::new(MemoryObjects::default());
            Changeable { objects, options: options.clone() }
        })
        .await;
    }
}

/// Each request has a timeout: all of them together take longer.
#[tokio::test]
async fn metrics_are_listed_however_many_there_are() {
    let objects = MemoryObjects::default();
    let shards = SackCount(1.try_into().unwrap());
    let options = ObjectAggregatesOptions { shards, requests_max: 1, deadline_ms: 1000, ..options() };
    let store = open(&objects, options.clone()).await;
    let head = "h".repeat(2000);
    let writes = (0..400).map(|id| write(id, &head, &[])).collect();
    assert!(store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
    store.settle().await;
    let newcomer = open(&objects, options).await;
    objects.set_delay(Duration::from_millis(10));
    let started = Instant::now();
    assert_eq!(newcomer.list_metrics().await.unwrap().len(), 400);
    assert!(started.elapsed() > Duration::from_secs(1), "the listing is too short for this test");
}

#[tokio::test]
async fn another_cluster_is_refused() {
    use gnudi_drivers::OpenError;
    use uuid::Uuid;

    let objects = MemoryObjects::default();
    let other = Uuid::from_u128(8);
    open(&objects, options()).await;
    let refused = ObjectAggregates::open(Arc::new(objects.clone()), other, options()).await.err().unwrap();
    assert!(
        matches!(refused, OpenError::OtherCluster { found, own, .. } if found == CLUSTER && own == other)
    );
    objects.set_down(true);
    let down = ObjectAggregates::open(Arc::new(objects.clone()), CLUSTER, options()).await.err().unwrap();
    assert!(matches!(down, OpenError::Engine { .. }), "{down}");
}
