//! Every index passes the suite.

use gnudi_indexer::{MemoryIndexer, SqlIndexer, SqliteOptions, conformance};

#[tokio::test]
async fn memory() {
    conformance::run(async || MemoryIndexer::default()).await;
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    conformance::run(async || {
        number.set(number.get() + 1);
        let path = folder.path().join(format!("{}.sqlite", number.get()));
        SqlIndexer::open(&SqliteOptions::new(path)).await.unwrap()
    })
    .await;
}
