//! Empty databases of every engine, which the tests start themselves.
#![allow(dead_code, reason = "no test needs all of this")]

#[path = "../../../drivers/tests/engines/mariadb.rs"]
pub mod mariadb;
#[path = "../../../drivers/tests/engines/postgres.rs"]
pub mod postgres;
#[path = "../../../drivers/tests/engines/server.rs"]
pub mod server;

use std::{
    process::Command,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use gnudi_indexer::DatabaseOptions;
use mariadb::MariaDb;
use parking_lot::Mutex;
use postgres::Postgres;
use server::program;
use tempfile::TempDir;

/// What tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// Where databases are made: a folder or a server, which goes when nobody uses it any more.
pub enum Engine {
    Sqlite(TempDir),
    Postgres(Arc<Postgres>),
    MariaDb(Arc<MariaDb>),
}

impl Engine {
    pub fn start(kind: EngineKind) -> Self {
        static POSTGRES: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        static MARIADB: Mutex<Weak<MariaDb>> = Mutex::new(Weak::new());
        match kind {
            EngineKind::Sqlite => Engine::Sqlite(tempfile::tempdir().unwrap()),
            EngineKind::Postgres => Engine::Postgres(shared(&POSTGRES, Postgres::start)),
            EngineKind::MariaDb => Engine::MariaDb(shared(&MARIADB, MariaDb::start)),
        }
    }

    /// An empty database.
    pub fn fresh(&self) -> DatabaseOptions {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("index{}", MADE.fetch_add(1, Ordering::Relaxed));
        let url = match self {
            Engine::Sqlite(folder) => format!("sqlite:///{}", folder.path().join(name).display()),
            Engine::Postgres(server) => server.create_database(&name),
            Engine::MariaDb(server) => server.create_database(&name),
        };
        DatabaseOptions::from_url(&url).unwrap()
    }

    /// Runs statements on a server as an operator does.
    pub fn execute(&self, options: &DatabaseOptions, sql: &str) {
        match self {
            Engine::Sqlite(_) => panic!("no server"),
            Engine::Postgres(server) => server.execute(database(options), sql),
            Engine::MariaDb(server) => server.execute(database(options), sql),
        }
    }

    /// The one value that a statement finds on a server.
    pub fn query(&self, options: &DatabaseOptions, sql: &str) -> String {
        let mut client = match self {
            Engine::Sqlite(_) => panic!("no server"),
            Engine::Postgres(server) => {
                let mut psql = Command::new(program("psql", "postgresql-client"));
                psql.args(["-qAt", "-d", &server.url(database(options)), "-c", sql]);
                psql
            }
            Engine::MariaDb(server) => {
                let mut mariadb = Command::new(program("mariadb", "mariadb-client"));
                mariadb.args(["--no-defaults", "-N", "-h", "127.0.0.1", "-u", "root", "-P"]);
                mariadb.args([&server.port().to_string(), "-D", database(options), "-e", sql]);
                mariadb
            }
        };
        let output = client.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn database(options: &DatabaseOptions) -> &str {
    match options {
        DatabaseOptions::Sqlite(_) => panic!("no server"),
        DatabaseOptions::Server(options) => &options.database,
    }
}

/// One for all tests of a binary that run at the same time.
fn shared<S>(place: &Mutex<Weak<S>>, start: impl Fn() -> S) -> Arc<S> {
    let mut place = place.lock();
    place.upgrade().unwrap_or_else(|| {
        let started = Arc::new(start());
        *place = Arc::downgrade(&started);
        started
    })
}
