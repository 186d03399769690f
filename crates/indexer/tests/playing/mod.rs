//! Plays calls on an index and on the one in memory, which is simple enough to be right.

use std::{fmt::Debug, path::Path};

use gnudi_indexer::{CacheOptions, CachedIndexer, Indexer, MemoryIndexer, SqlIndexer, SqliteOptions};
use proptest::prelude::*;

/// One call of an index.
pub trait Call: Debug {
    /// Whether the index is opened anew before it.
    fn reopens(&self) -> bool;

    /// The answer as text, with all its parts.
    async fn answer(&self, index: &dyn Indexer) -> String;

    /// Before the first call.
    async fn prepare(_index: &dyn Indexer) {}

    /// What must be the same after the last call.
    async fn everything(_index: &dyn Indexer) -> String {
        String::new()
    }
}

/// Fails where `SQLite`, behind a cache of so many metrics and resources if any, answers otherwise than the model.
pub fn compare<C: Call>(calls: &[C], cached_max: Option<usize>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let model = MemoryIndexer::default();
        let mut index = open(folder.path(), cached_max).await;
        C::prepare(&model).await;
        C::prepare(&*index).await;
        for call in calls {
            if call.reopens() {
                index = open(folder.path(), cached_max).await;
            }
            prop_assert_eq!(call.answer(&*index).await, call.answer(&model).await, "{:?}", call);
        }
        prop_assert_eq!(C::everything(&*index).await, C::everything(&model).await);
        Ok(())
    })
}

async fn open(folder: &Path, cached_max: Option<usize>) -> Box<dyn Indexer> {
    let sql = SqlIndexer::open(&SqliteOptions::new(folder.join("index"))).await.unwrap();
    match cached_max {
        Some(cached_max) => {
            let options = CacheOptions { metrics_cached_max: cached_max, resources_cached_max: cached_max };
            Box::new(CachedIndexer::new(sql, &options))
        }
        None => Box::new(sql),
    }
}
