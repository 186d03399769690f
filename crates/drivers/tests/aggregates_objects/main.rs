//! Aggregates on a store of objects: the suite, few requests, random passes of two processes, writers that slept, damage.

mod chain;
mod damage;
mod engines;
mod model;
mod setup;
mod trips;

#[path = "../engines/ceph.rs"]
mod ceph;
#[path = "../engines/radosgw.rs"]
mod radosgw;
#[path = "../engines/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use gnudi_drivers::{
    aggregates::objects::ObjectAggregatesOptions, conformance, objects::memory::MemoryObjects,
};

use crate::setup::{CLUSTER, open, options};

#[tokio::test]
async fn the_suite() {
    conformance::aggregates(async || {
        open(&MemoryObjects::default(), ObjectAggregatesOptions::default()).await
    })
    .await;
    // Merging all the time, with segments of a few entries.
    conformance::aggregates(async || open(&MemoryObjects::default(), options()).await).await;
}

#[tokio::test]
async fn another_cluster_is_refused() {
    use gnudi_drivers::{OpenError, aggregates::objects::ObjectAggregates};
    use std::sync::Arc;
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
