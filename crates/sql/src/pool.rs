//! Pools of connections for reading.
//!
//! Server connections are not tested before use: a statement on a connection that the server has closed meanwhile is
//! retried once on a new one. Reads are safe to repeat.

use std::{io, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    Connection, Connector, DatabaseOptions, Dialect, Purpose, Row, Statement, connection::within,
    readers::SqliteReaders,
};

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

/// Open connections that are not in use.
#[derive(Debug, Default)]
struct Idle {
    connections: Vec<Connection>,
    /// How often [`Pool::forget_connections`] was called: connections of before are not kept.
    generation: u64,
}

impl Idle {
    fn keep(&mut self, connection: Connection, generation: u64) {
        if generation == self.generation && !connection.is_lost() {
            self.connections.push(connection);
        }
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
                for connection in idle {
                    connection.close().await;
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
        if let Some(mut connection) = idle {
            let outcome = connection.fetch_all(statement.clone()).await;
            if !connection.is_lost() {
                self.idle.lock().keep(connection, generation);
                return outcome;
            }
            // The other idle connections are as old.
            self.idle.lock().connections.clear();
        }
        let generation = self.idle.lock().generation;
        let mut connection = self.connector.connect(Purpose::Read).await?;
        let outcome = connection.fetch_all(statement).await;
        self.idle.lock().keep(connection, generation);
        outcome
    }

    /// An idle connection, if there is any, and its generation.
    fn take_idle(&self) -> (Option<Connection>, u64) {
        let mut idle = self.idle.lock();
        (idle.connections.pop(), idle.generation)
    }
}
