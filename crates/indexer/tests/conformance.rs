//! Every index passes the suite.

use std::cell::Cell;

use gnudi_indexer::{CacheOptions, CachedIndexer, MemoryIndexer, SqlIndexer, SqliteOptions, conformance};

#[tokio::test]
async fn memory() {
    conformance::run(async || MemoryIndexer::default()).await;
}

/// Opens one fresh file after the other.
struct Folder {
    folder: tempfile::TempDir,
    files: Cell<u32>,
}

impl Folder {
    fn new() -> Self {
        Folder { folder: tempfile::tempdir().unwrap(), files: Cell::new(0) }
    }

    async fn open(&self) -> SqlIndexer {
        self.files.set(self.files.get() + 1);
        let path = self.folder.path().join(format!("{}.sqlite", self.files.get()));
        SqlIndexer::open(&SqliteOptions::new(path)).await.unwrap()
    }
}

#[tokio::test]
async fn sqlite() {
    let folder = Folder::new();
    conformance::run(async || folder.open().await).await;
}

#[tokio::test]
async fn cached() {
    let folder = Folder::new();
    // With room for all, for few, for none.
    for metrics_cached_max in [10_000, 2, 0] {
        let options = CacheOptions { metrics_cached_max, resources_cached_max: metrics_cached_max };
        conformance::run(async || CachedIndexer::new(folder.open().await, &options)).await;
        conformance::run(async || CachedIndexer::new(MemoryIndexer::default(), &options)).await;
    }
}
