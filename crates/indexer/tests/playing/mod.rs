//! Plays calls on an index and on the one in memory, which is simple enough to be right.

use std::fmt::Debug;

use gnudi_indexer::{CacheOptions, CachedIndexer, DatabaseOptions, Indexer, MemoryIndexer, SqlIndexer};
use proptest::{prelude::*, test_runner::TestRunner};

use crate::engines::{Engine, EngineKind};

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

/// How many sequences are tried on a server, which takes a while to make each an index.
const CASES_ON_SERVERS: u32 = 12;
const CASES: u32 = 64;

/// Plays random calls on an engine.
pub fn run_on<C: Call>(kind: EngineKind, calls: impl Strategy<Value = Vec<C>>) {
    let engine = Engine::start(kind);
    let cases = if kind == EngineKind::Sqlite { CASES } else { CASES_ON_SERVERS };
    // Failures are told; the file beside the test is for those of one test alone.
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&calls, |calls| compare(&engine, &calls, None)).unwrap();
}

/// Fails where the engine, behind a cache of so many metrics and resources if any, answers otherwise than the model.
pub fn compare<C: Call>(
    engine: &Engine,
    calls: &[C],
    cached_max: Option<usize>,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = engine.fresh();
        let model = MemoryIndexer::default();
        let mut index = open(&options, cached_max).await;
        C::prepare(&model).await;
        C::prepare(&*index).await;
        for call in calls {
            if call.reopens() {
                index = open(&options, cached_max).await;
            }
            prop_assert_eq!(call.answer(&*index).await, call.answer(&model).await, "{:?}", call);
        }
        prop_assert_eq!(C::everything(&*index).await, C::everything(&model).await);
        Ok(())
    })
}

async fn open(options: &DatabaseOptions, cached_max: Option<usize>) -> Box<dyn Indexer> {
    let sql = SqlIndexer::open(options).await.unwrap();
    match cached_max {
        Some(cached_max) => {
            let options = CacheOptions { metrics_cached_max: cached_max, resources_cached_max: cached_max };
            Box::new(CachedIndexer::new(sql, &options))
        }
        None => Box::new(sql),
    }
}
