//! Pools of connections for reading.
//!
//! Server connections are not tested before use: a statement on a connection that the server has closed meanwhile is
//! retried once on a new one. Reads are safe to repeat.
//!
//! Nor is a connection kept for long: behind a virtual address or a proxy it may lead to a server that is no longer the
//! primary, whose reads succeed and are outdated.

use std::{
    io,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    Connection, Connector, DatabaseOptions, Dialect, Purpose, Row, Statement, connection::within,
    readers::SqliteReaders,
};

/// Older connections are not used again: bounds how long reads go to a former primary. Connecting takes milliseconds.
pub const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub enum Pool {
    Sqlite(SqliteReaders),
    Server(Box<ServerPool>),
}

#[derive(Debug)]
pub struct ServerPool {
    connector: Connector,
    dialect: Dialect,
    limit: Duration,
    /// Limits open connections.
    permits: Semaphore,
    idle: Mutex<Idle>,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    /// When it began to connect.
    since: Instant,
}

/// Open connections that are not in use.
#[derive(Debug, Default)]
struct Idle {
    connections: Vec<Open>,
    /// How often [`Pool::forget_connections`] was called. Connections of earlier generations are not kept.
    generation: u64,
}

impl Idle {
    fn keep(&mut self, open: Open, generation: u64) {
        if generation == self.generation && !open.connection.is_lost() {
            self.connections.push(open);
        }
    }

    fn remove_old(&mut self, now: Instant) -> Vec<Open> {
        self.connections
            .extract_if(.., |open| now.saturating_duration_since(open.since) >= CONNECTION_AGE_MAX)
            .collect()
    }
}

impl Pool {
    pub async fn open(options: &DatabaseOptions) -> Result<Self, sqlx::Error> {
        let server = match options {
            DatabaseOptions::Sqlite(options) => return SqliteReaders::open(options).await.map(Pool::Sqlite),
            DatabaseOptions::Server(server) => server,
        };
        Ok(Pool::Server(Box::new(ServerPool {
            connector: Connector::new(options),
            dialect: server.server.into(),
            limit: server.timeout,
            permits: Semaphore::new(server.readers_max.max(1) as usize),
            idle: Mutex::default(),
        })))
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Pool::Sqlite(_) => Dialect::Sqlite,
            Pool::Server(pool) => pool.dialect,
        }
    }

    /// A complete statement, without values.
    pub fn statement(&self, sql: &'static str) -> Statement {
        Statement::whole(self.dialect(), sql)
    }

    pub async fn fetch_all(&self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Pool::Sqlite(readers) => readers.fetch(statement, usize::MAX).await,
            Pool::Server(pool) => Box::pin(within(Some(pool.limit), pool.fetch_all(statement))).await,
        }
    }

    pub async fn fetch_optional(&self, statement: Statement) -> Result<Option<Row>, sqlx::Error> {
        match self {
            Pool::Sqlite(readers) => Ok(readers.fetch(statement, 1).await?.pop()),
            Pool::Server(_) => Ok(self.fetch_all(statement).await?.into_iter().next()),
        }
    }

    pub async fn fetch_one(&self, statement: Statement) -> Result<Row, sqlx::Error> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// Drops all connections, so that later reads connect again. To be called when another connection to the server is
    /// lost: the server may no longer be the primary.
    pub fn forget_connections(&self) {
        let Pool::Server(pool) = self else { return };
        let mut idle = pool.idle.lock();
        idle.connections.clear();
        idle.generation += 1;
    }

    pub async fn close(&self) {
        match self {
            Pool::Sqlite(readers) => readers.close().await,
            Pool::Server(pool) => {
                pool.permits.close();
                let idle = std::mem::take(&mut pool.idle.lock().connections);
                for open in idle {
                    open.connection.close().await;
                }
            }
        }
    }
}

impl ServerPool {
    async fn fetch_all(&self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        let closed = |_| sqlx::Error::Io(io::Error::other("the index was closed"));
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let (idle, generation) = self.take_idle();
        if let Some(mut open) = idle {
            let outcome = open.connection.fetch_all(statement.clone()).await;
            if !open.connection.is_lost() {
                self.idle.lock().keep(open, generation);
                return outcome;
            }
            // The other idle connections are as old.
            self.idle.lock().connections.clear();
        }
        let generation = self.idle.lock().generation;
        let since = Instant::now();
        let mut connection = self.connector.connect(Purpose::Read).await?;
        let outcome = connection.fetch_all(statement).await;
        self.idle.lock().keep(Open { connection, since }, generation);
        outcome
    }

    /// An idle connection, if there is any, and its generation. Closes those that are too old.
    fn take_idle(&self) -> (Option<Open>, u64) {
        let (old, open, generation) = {
            let mut idle = self.idle.lock();
            (idle.remove_old(Instant::now()), idle.connections.pop(), idle.generation)
        };
        for old in old {
            // Nobody waits for the server.
            tokio::spawn(old.connection.close());
        }
        (open, generation)
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::SqliteOptions;

    #[tokio::test]
    async fn a_connection_is_used_until_it_is_old() {
        let folder = TempDir::new().unwrap();
        let options = SqliteOptions::new(folder.path().join("index"));
        let connector = Connector::new(&DatabaseOptions::from(&options));
        let start = Instant::now();
        let mut idle = Idle::default();
        for since in [start, start + CONNECTION_AGE_MAX / 2] {
            let connection = connector.connect(Purpose::Read).await.unwrap();
            idle.keep(Open { connection, since }, 0);
        }
        let mut left_at = |now: Instant| {
            idle.remove_old(now);
            idle.connections.len()
        };
        assert_eq!(left_at(start), 2);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX / 2), 2);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX), 1);
        assert_eq!(left_at(start + CONNECTION_AGE_MAX * 2), 0);
        // One that is used all the time grows old as well.
        let connection = connector.connect(Purpose::Read).await.unwrap();
        let pool = ServerPool {
            connector,
            dialect: Dialect::Sqlite,
            limit: Duration::from_secs(10),
            permits: Semaphore::new(1),
            idle: Mutex::default(),
        };
        let since = start.checked_sub(CONNECTION_AGE_MAX).unwrap();
        pool.idle.lock().keep(Open { connection, since }, 0);
        pool.fetch_all(Statement::whole(Dialect::Sqlite, "SELECT 1")).await.unwrap();
        let kept: Vec<Instant> = pool.idle.lock().connections.iter().map(|open| open.since).collect();
        assert!(kept.len() == 1 && kept[0] >= start, "{kept:?}");
    }
}
