//! Empty databases of every engine, started by the tests.
#![allow(dead_code, reason = "no test needs all of this")]

#[path = "../../../drivers/tests/engines/database.rs"]
pub mod database;
#[path = "../../../drivers/tests/engines/server.rs"]
pub mod server;

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use database::{Database, Kind};
use gnudi_indexer::DatabaseOptions;
use parking_lot::Mutex;
use tempfile::TempDir;

/// Defines tests by name, each a future, mostly the same for all databases.
#[macro_export]
macro_rules! tests {
    ($($name:ident: $test:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $test.await;
            }
        )*
    };
}

/// The engines that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// Where databases are created: a folder, or a server that stops with its last user.
pub enum Engine {
    Sqlite(TempDir),
    Server(Arc<Database>),
}

impl Engine {
    pub fn start(kind: EngineKind) -> Self {
        static POSTGRES: Mutex<Weak<Database>> = Mutex::new(Weak::new());
        static MARIADB: Mutex<Weak<Database>> = Mutex::new(Weak::new());
        match kind {
            EngineKind::Sqlite => Engine::Sqlite(tempfile::tempdir().unwrap()),
            EngineKind::Postgres => Engine::Server(shared(&POSTGRES, Kind::Postgres)),
            EngineKind::MariaDb => Engine::Server(shared(&MARIADB, Kind::MariaDb)),
        }
    }

    /// An empty database.
    pub fn fresh(&self) -> DatabaseOptions {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("index{}", MADE.fetch_add(1, Ordering::Relaxed));
        let url = match self {
            Engine::Sqlite(folder) => format!("sqlite:///{}", folder.path().join(name).display()),
            Engine::Server(server) => server.create_database(&name),
        };
        DatabaseOptions::from_url(&url).unwrap()
    }

    /// Runs statements on a server as an operator; returns the single value found.
    pub fn execute(&self, options: &DatabaseOptions, sql: &str) -> String {
        match (self, options) {
            (Engine::Server(server), DatabaseOptions::Server(options)) => {
                server.execute(&options.database, sql)
            }
            _ => panic!("no server"),
        }
    }
}

/// Shared by all concurrent tests of a binary.
fn shared(place: &Mutex<Weak<Database>>, kind: Kind) -> Arc<Database> {
    let mut place = place.lock();
    place.upgrade().unwrap_or_else(|| {
        let started = Arc::new(Database::start(kind));
        *place = Arc::downgrade(&started);
        started
    })
}
