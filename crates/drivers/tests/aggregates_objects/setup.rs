//! Stores on objects in memory, with a test clock.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gnudi_drivers::{
    aggregates::{
        Access, Fence,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    objects::{
        Objects,
        clock::{Clock, Moment},
        memory::MemoryObjects,
    },
};
use gnudi_model::{Sack, SackCount, SackId};
use uuid::Uuid;

pub const CLUSTER: Uuid = Uuid::from_u128(7);
pub const SHARDS: u16 = 2;

/// Moves only when advanced; shared by all processes.
#[derive(Clone, Default)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let ms = self.0.load(Ordering::Relaxed);
        Moment { wall_ms: 1_700_000_000_000 + ms, running_ms: ms }
    }
}

/// Two shards, small tables, some of them in manifests' objects, and merges as often as possible.
pub fn options() -> ObjectAggregatesOptions {
    ObjectAggregatesOptions {
        shards: SackCount(NonZeroU16::new(SHARDS).unwrap()),
        table_bytes_max: 3000,
        in_manifest_bytes_max: 800,
        merged_runs_min: 2,
        runs_max: 4,
        retry_pause_ms: 0,
        ..ObjectAggregatesOptions::default()
    }
}

pub async fn open(objects: &MemoryObjects, options: ObjectAggregatesOptions) -> Arc<ObjectAggregates> {
    ObjectAggregates::open(Arc::new(objects.clone()), CLUSTER, options).await.unwrap()
}

pub async fn open_at(objects: impl Objects, clock: &TestClock) -> Arc<ObjectAggregates> {
    open_with(objects, clock, options()).await
}

pub async fn open_with(
    objects: impl Objects,
    clock: &TestClock,
    options: ObjectAggregatesOptions,
) -> Arc<ObjectAggregates> {
    let clock = Arc::new(clock.clone());
    ObjectAggregates::open_at(Arc::new(objects), CLUSTER, options, Access::Use, clock).await.unwrap()
}

pub fn fence(count: u16, id: u16, token: u64) -> Fence {
    Fence { sack: Sack { count: SackCount(NonZeroU16::new(count).unwrap()), id: SackId(id) }, token }
}

/// Names of objects that contain `part`.
pub fn named(objects: &MemoryObjects, part: &str) -> Vec<String> {
    objects.contents().into_keys().filter(|name| name.contains(part)).collect()
}
