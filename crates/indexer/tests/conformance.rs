//! Every index passes the conformance suite.

mod engines;

use std::time::Duration;

use engines::{Engine, EngineKind};
use gnudi_indexer::{CacheOptions, CachedIndexer, DatabaseOptions, MemoryIndexer, SqlIndexer, conformance};

#[tokio::test]
async fn memory() {
    conformance::run(async || MemoryIndexer::default()).await;
}

async fn open(engine: &Engine) -> SqlIndexer {
    let mut options = engine.fresh();
    // The widest filter takes MariaDB seconds, and more on a busy machine.
    if let DatabaseOptions::Server(options) = &mut options {
        options.timeout = Duration::from_mins(2);
    }
    SqlIndexer::open(options).await.unwrap()
}

async fn run_on(kind: EngineKind) {
    let engine = Engine::start(kind);
    conformance::run(async || open(&engine).await).await;
}

tests! {
    sqlite: run_on(EngineKind::Sqlite);
    postgres: run_on(EngineKind::Postgres);
    mariadb: run_on(EngineKind::MariaDb);
}

#[tokio::test]
async fn cached() {
    let engine = Engine::start(EngineKind::Sqlite);
    // With room for all, for few, for none.
    for metrics_cached_max in [10_000, 2, 0] {
        let options = CacheOptions { metrics_cached_max, resources_cached_max: metrics_cached_max };
        conformance::run(async || CachedIndexer::new(open(&engine).await, &options)).await;
        conformance::run(async || CachedIndexer::new(MemoryIndexer::default(), &options)).await;
    }
}
