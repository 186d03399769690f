//! Aggregates on a store of objects: the suite, many requests as few, writers that slept, failures, damage.

use std::sync::Arc;

use gnudi_drivers::{
    aggregates::objects::{ObjectAggregates, ObjectAggregatesOptions},
    conformance,
    objects::memory::MemoryObjects,
};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(7);

async fn open(objects: &MemoryObjects, options: ObjectAggregatesOptions) -> Arc<ObjectAggregates> {
    ObjectAggregates::open(Arc::new(objects.clone()), CLUSTER, options).await.unwrap()
}

#[tokio::test]
async fn the_suite() {
    conformance::aggregates(async || {
        open(&MemoryObjects::default(), ObjectAggregatesOptions::default()).await
    })
    .await;
}
