//! Pools of connections for reading.
//!
//! Server connections are not tested before use: a statement on a connection that the server has closed meanwhile is
//! retried once on a new one. Reads are safe to repeat.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;

use crate::{
    Connector, DatabaseOptions, Dialect, IdleConnections, Purpose, Row, Statement, connection::no_answer,
    permits::Permits, readers::SqliteReaders,
};

#[derive(Debug)]
pub enum Pool {
    Sqlite(SqliteReaders),
    Server(Arc<ServerPool>),
}

#[derive(Debug)]
pub struct ServerPool {
    connector: Connector,
    dialect: Dialect,
    limit: Duration,
    permits: Permits,
    idle: IdleConnections,
}

impl Pool {
    pub async fn open(options: &DatabaseOptions) -> Result<Self, sqlx::Error> {
        let server = match options {
            DatabaseOptions::Sqlite(options) => return SqliteReaders::open(options).await.map(Pool::Sqlite),
            DatabaseOptions::Server(server) => server,
        };
        Ok(Pool::Server(Arc::new(ServerPool {
            connector: Connector::new(options),
            dialect: server.server.into(),
            limit: server.timeout,
            permits: Permits::new(server.readers_max),
            idle: IdleConnections::default(),
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
            Pool::Server(pool) => pool.fetch_all(statement).await,
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
        if let Pool::Server(pool) = self {
            pool.idle.forget();
        }
    }

    pub async fn close(&self) {
        match self {
            Pool::Sqlite(readers) => readers.close().await,
            Pool::Server(pool) => {
                pool.permits.close();
                pool.idle.close().await;
            }
        }
    }
}

impl ServerPool {
    /// A server goes on with a statement whose connection is closed. So one that has begun goes on here, too, within its
    /// time, and counts against the limit, even if its caller is gone.
    async fn fetch_all(self: &Arc<Self>, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        let (pool, limit, begun) = (Arc::clone(self), self.limit, Instant::now());
        let closed = |_| sqlx::Error::Io(io::Error::other("the index was closed"));
        let permit = timeout(limit, self.permits.acquire(statement.is_search)).await;
        let permit = permit.map_err(|_| no_answer(limit))?.map_err(closed)?;
        let fetched = tokio::spawn(async move {
            let rest = limit.saturating_sub(begun.elapsed());
            let rows = Box::pin(timeout(rest, pool.fetch(statement))).await;
            drop(permit);
            rows.unwrap_or_else(|_| Err(no_answer(limit)))
        });
        fetched.await.unwrap_or_else(|error| Err(sqlx::Error::Io(io::Error::other(error))))
    }

    async fn fetch(&self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        if let Some(mut open) = self.idle.take(Instant::now()) {
            let outcome = open.connection.fetch_all(statement.clone()).await;
            if !open.connection.is_lost() {
                self.idle.keep(open);
                return outcome;
            }
            // The other idle connections are as old.
            self.idle.clear();
        }
        let mut open = self.idle.connect(&self.connector, Purpose::Read).await?;
        let outcome = open.connection.fetch_all(statement).await;
        self.idle.keep(open);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{OpenConnection, SqliteOptions, idle::CONNECTION_AGE_MAX};

    #[tokio::test]
    async fn a_connection_that_is_used_all_the_time_grows_old() {
        let folder = TempDir::new().unwrap();
        let options = SqliteOptions::new(folder.path().join("index"));
        let connector = Connector::new(&DatabaseOptions::from(&options));
        let start = Instant::now();
        let connection = connector.connect(Purpose::Read).await.unwrap();
        let pool = Arc::new(ServerPool {
            connector,
            dialect: Dialect::Sqlite,
            limit: Duration::from_secs(10),
            permits: Permits::new(1),
            idle: IdleConnections::default(),
        });
        let since = start.checked_sub(CONNECTION_AGE_MAX).unwrap();
        pool.idle.keep(OpenConnection { connection, since, generation: 0 });
        pool.fetch_all(Statement::whole(Dialect::Sqlite, "SELECT 1")).await.unwrap();
        assert!(pool.idle.take(start).is_some_and(|open| open.since >= start));
        assert!(pool.idle.take(start).is_none());
    }
}
