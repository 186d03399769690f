//! Connections for reading.
//!
//! Those to a server are taken as they are found, without asking whether they still live: a statement that meets a
//! connection which the server has closed meanwhile is tried once more on a new one. Nothing is changed by it.

use std::{io, time::Duration};

use parking_lot::Mutex;
use sqlx::{SqlitePool, sqlite::SqlitePoolOptions};
use tokio::sync::Semaphore;

use crate::{Connection, Connector, Dialect, Purpose, Row, Statement, connection::within, sqlite};

#[derive(Debug)]
pub enum Pool {
    Sqlite(SqlitePool),
    Server(Box<ServerPool>),
}

#[derive(Debug)]
pub struct ServerPool {
    connector: Connector,
    dialect: Dialect,
    limit: Duration,
    /// As many as may be open.
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub async fn open(
        connector: Connector,
        dialect: Dialect,
        readers_max: u32,
        limit: Duration,
    ) -> Result<Self, sqlx::Error> {
        let readers_max = readers_max.max(1);
        match connector {
            Connector::Sqlite(options) => SqlitePoolOptions::new()
                .max_connections(readers_max)
                .acquire_timeout(limit)
                .connect_with(options.pragma("query_only", "ON"))
                .await
                .map(Pool::Sqlite),
            connector => Ok(Pool::Server(Box::new(ServerPool {
                connector,
                dialect,
                limit,
                permits: Semaphore::new(readers_max as usize),
                idle: Mutex::default(),
            }))),
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Pool::Sqlite(_) => Dialect::Sqlite,
            Pool::Server(pool) => pool.dialect,
        }
    }

    /// A statement that is whole but for its values.
    pub fn statement(&self, sql: &'static str) -> Statement {
        Statement::whole(self.dialect(), sql)
    }

    pub async fn fetch_all(&self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Pool::Sqlite(pool) => {
                let rows = sqlite::query(statement).fetch_all(pool).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            Pool::Server(pool) => Box::pin(within(Some(pool.limit), pool.fetch_all(statement))).await,
        }
    }

    pub async fn fetch_optional(&self, statement: Statement) -> Result<Option<Row>, sqlx::Error> {
        match self {
            Pool::Sqlite(pool) => {
                sqlite::query(statement).fetch_optional(pool).await.map(|row| row.map(Row::Sqlite))
            }
            Pool::Server(_) => Ok(self.fetch_all(statement).await?.into_iter().next()),
        }
    }

    pub async fn fetch_one(&self, statement: Statement) -> Result<Row, sqlx::Error> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    pub async fn close(&self) {
        match self {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Server(pool) => {
                pool.permits.close();
                let idle = std::mem::take(&mut *pool.idle.lock());
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
        let idle = self.idle.lock().pop();
        if let Some(mut connection) = idle {
            let outcome = connection.fetch_all(statement.clone()).await;
            if !connection.is_lost() {
                self.idle.lock().push(connection);
                return outcome;
            }
            // The others are as old.
            self.idle.lock().clear();
        }
        let mut connection = self.connector.connect(Purpose::Read).await?;
        let outcome = connection.fetch_all(statement).await;
        if !connection.is_lost() {
            self.idle.lock().push(connection);
        }
        outcome
    }
}
