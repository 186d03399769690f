//! Runs calls on an index and on the one in memory, the reference model.

use std::fmt::Debug;

use gnudi_indexer::{CacheOptions, CachedIndexer, DatabaseOptions, Indexer, MemoryIndexer, SqlIndexer};
use proptest::{prelude::*, test_runner::TestRunner};

use crate::engines::{Engine, EngineKind};

/// One call of an index.
pub trait Call: Debug {
    /// Whether the index is reopened before it.
    fn reopens(&self) -> bool;

    /// The complete result as text.
    async fn answer(&self, index: &dyn Indexer) -> String;

    /// Before the first call.
    async fn prepare(_index: &dyn Indexer) {}

    /// What must be equal after the last call.
    async fn everything(_index: &dyn Indexer) -> String {
        String::new()
    }
}

/// The calls of a test: by name, their arguments and their use of `$index`; further text after a semicolon. Adds
/// `Reopen`.
#[macro_export]
macro_rules! calls {
    ($index:ident: $($call:ident($($argument:ident: $type:ty),*) => $answer:expr,)*; $($more:tt)*) => {
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "a test makes some at a time")]
        enum Call {
            $($call($($type),*),)*
            Reopen,
        }

        impl playing::Call for Call {
            fn reopens(&self) -> bool {
                matches!(self, Call::Reopen)
            }

            async fn answer(&self, $index: &dyn Indexer) -> String {
                match self.clone() {
                    $(Call::$call($($argument),*) => format!("{:?}", $answer),)*
                    Call::Reopen => String::new(),
                }
            }

            $($more)*
        }
    };
}

/// Sequences tried on a server, where creating an index takes a while.
const CASES_ON_SERVERS: u32 = 12;
const CASES: u32 = 64;

/// The tests of random calls: on each database, and behind a cache.
#[macro_export]
macro_rules! answers_as_the_model {
    ($calls:ident) => {
        #[test]
        fn sqlite_answers_as_the_model() {
            $crate::playing::run_on($crate::engines::EngineKind::Sqlite, $calls(), Just(None));
        }

        #[test]
        fn postgres_answers_as_the_model() {
            $crate::playing::run_on($crate::engines::EngineKind::Postgres, $calls(), Just(None));
        }

        #[test]
        fn mariadb_answers_as_the_model() {
            $crate::playing::run_on($crate::engines::EngineKind::MariaDb, $calls(), Just(None));
        }

        #[test]
        fn a_cached_index_answers_as_the_model() {
            let cached_max = (0..8usize).prop_map(Some);
            $crate::playing::run_on($crate::engines::EngineKind::Sqlite, $calls(), cached_max);
        }
    };
}

/// Runs random calls on an engine, optionally behind a cache of this many metrics and resources.
pub fn run_on<C: Call>(
    kind: EngineKind,
    calls: impl Strategy<Value = Vec<C>>,
    cached_max: impl Strategy<Value = Option<usize>>,
) {
    let engine = Engine::start(kind);
    let cases = if kind == EngineKind::Sqlite { CASES } else { CASES_ON_SERVERS };
    // Failures are reported; the file beside the test is for those of a single test.
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let played = TestRunner::new(config)
        .run(&(calls, cached_max), |(calls, cached_max)| compare(&engine, &calls, cached_max));
    played.unwrap();
}

/// Fails if the engine, behind such a cache, and the model give different results.
fn compare<C: Call>(engine: &Engine, calls: &[C], cached_max: Option<usize>) -> Result<(), TestCaseError> {
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
