//! Runs every driver's suite.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
};

use async_trait::async_trait;
use gnudi_drivers::{
    OpenError,
    aggregates::{
        Access,
        local::{LocalAggregates, LocalAggregatesOptions},
        memory::MemoryAggregates,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    conformance::{self, Damageable, IncomingSetup, MovableSetup},
    incoming::{
        log::{Durability, LocalIncoming, LocalIncomingOptions},
        memory::MemoryIncoming,
    },
    objects::{
        file::{FileObjects, FileOptions},
        memory::MemoryObjects,
    },
};

/// Creates a directory for each driver of a suite.
struct Directories {
    root: tempfile::TempDir,
    made: AtomicUsize,
}

impl Directories {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), made: AtomicUsize::new(0) }
    }

    fn next(&self) -> PathBuf {
        self.root.path().join(self.made.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_incoming() {
    conformance::incoming(async |setup: IncomingSetup| {
        Arc::new(MemoryIncoming::new(setup.sack_count, setup.backlog_bytes_max))
    })
    .await;
    conformance::shared_incoming(async |setup: IncomingSetup| {
        let one = Arc::new(MemoryIncoming::new(setup.sack_count, setup.backlog_bytes_max));
        [one.clone(), one]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_incoming() {
    for durability in [Durability::Sync, Durability::Os] {
        let directories = Directories::new();
        conformance::incoming(async |setup: IncomingSetup| {
            let options = LocalIncomingOptions {
                sack_count: setup.sack_count,
                backlog_bytes_max: setup.backlog_bytes_max,
                durability,
                segment_bytes: 1 << 16,
                ..LocalIncomingOptions::default()
            };
            LocalIncoming::open(&directories.next(), &options).unwrap()
        })
        .await;
    }
}

#[tokio::test]
async fn memory_aggregates() {
    conformance::aggregates(async || Arc::new(MemoryAggregates::default())).await;
}

fn open_aggregates(dir: &Path, recent_bytes_max: u64) -> Arc<LocalAggregates> {
    let segment_bytes = 1 << 16;
    let options = LocalAggregatesOptions { segment_bytes, recent_bytes_max, ..Default::default() };
    LocalAggregates::open(dir, &options).unwrap()
}

#[tokio::test]
async fn local_aggregates() {
    // With room for everything, and with so little that nearly every write is flushed and runs are merged.
    for recent_bytes_max in [1 << 20, 1000] {
        let directories = Directories::new();
        conformance::aggregates(async || open_aggregates(&directories.next(), recent_bytes_max)).await;
    }
}

/// A directory with a store.
struct OnDisk {
    dir: PathBuf,
    recent_bytes_max: u64,
}

#[async_trait]
impl Damageable for OnDisk {
    type Store = LocalAggregates;

    async fn open(&self) -> Arc<LocalAggregates> {
        open_aggregates(&self.dir, self.recent_bytes_max)
    }

    async fn damage(&self, value: &[u8]) {
        let mut hit = 0;
        for folder in ["log", "runs"] {
            for entry in std::fs::read_dir(self.dir.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if let Some(hurt) = conformance::hurt(&std::fs::read(&path).unwrap(), value) {
                    std::fs::write(&path, hurt).unwrap();
                    hit += 1;
                }
            }
        }
        assert!(hit > 0, "the value is nowhere");
    }
}

#[tokio::test]
async fn damaged_local_aggregates() {
    // In the log, and in runs that are merged all the time.
    for recent_bytes_max in [1 << 20, 200] {
        let directories = Directories::new();
        conformance::damaged_aggregates(async || OnDisk { dir: directories.next(), recent_bytes_max }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_objects() {
    conformance::objects(async || {
        let store = MemoryObjects::default();
        [Arc::new(store.clone()), Arc::new(store)]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_objects() {
    let directories = Directories::new();
    conformance::objects(async || {
        let options = FileOptions::new(directories.next());
        let one = Arc::new(FileObjects::open(&options, "store").await.unwrap());
        [one, Arc::new(FileObjects::open(&options, "store").await.unwrap())]
    })
    .await;
}

struct InMemory(MemoryObjects);

#[async_trait]
impl MovableSetup for InMemory {
    type Store = ObjectAggregates;

    async fn open(&self, access: Access) -> Result<Arc<ObjectAggregates>, OpenError> {
        let options = ObjectAggregatesOptions::default();
        ObjectAggregates::open_for(Arc::new(self.0.clone()), uuid::Uuid::from_u128(7), options, access).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_aggregates_that_are_moved() {
    conformance::movable(async || InMemory(MemoryObjects::default())).await;
}
