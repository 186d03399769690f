//! The log of objects through the suites, on objects in memory.

use std::{sync::Arc, time::Duration};

use gnudi_drivers::{
    conformance::{self, IncomingSetup},
    incoming::objects::{ObjectIncoming, ObjectIncomingOptions},
    objects::{Objects, memory::MemoryObjects},
};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(1);

/// So that nothing is left to chance: what is trimmed is deleted at once, and nothing is believed that was not asked for.
fn strict(setup: IncomingSetup) -> ObjectIncomingOptions {
    ObjectIncomingOptions {
        sack_count: setup.sack_count,
        backlog_bytes_max: setup.backlog_bytes_max,
        keep: Duration::ZERO,
        mark_delay: Duration::ZERO,
        ..ObjectIncomingOptions::default()
    }
}

fn usual(setup: IncomingSetup) -> ObjectIncomingOptions {
    ObjectIncomingOptions {
        sack_count: setup.sack_count,
        backlog_bytes_max: setup.backlog_bytes_max,
        ..ObjectIncomingOptions::default()
    }
}

async fn open(objects: &MemoryObjects, options: ObjectIncomingOptions) -> Arc<ObjectIncoming> {
    let objects: Arc<dyn Objects> = Arc::new(objects.clone());
    ObjectIncoming::open(objects, CLUSTER, Uuid::new_v4(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process() {
    for options in [strict, usual] {
        conformance::incoming(async |setup: IncomingSetup| {
            open(&MemoryObjects::default(), options(setup)).await
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes() {
    for options in [strict, usual] {
        conformance::shared_incoming(async |setup: IncomingSetup| {
            let objects = MemoryObjects::default();
            [open(&objects, options(setup)).await, open(&objects, options(setup)).await]
        })
        .await;
    }
}
