//! What all databases can do, in one form: connections, pools of readers, statements, rows.
//!
//! One file per database says how it is reached and how values are bound; `dialect.rs` what it writes differently. What
//! the statements are is not known here.

mod checkpoint;
mod dialect;
mod mysql;
mod pool;
mod postgres;
mod row;
mod sqlite;
mod statement;

pub(in crate::sql) use checkpoint::Checkpoints;
pub(in crate::sql) use dialect::Dialect;
pub(in crate::sql) use pool::Pool;
pub(in crate::sql) use row::Row;
pub(in crate::sql) use sqlite::{
    connect_patiently, copy as copy_sqlite, file_fault as sqlite_file_fault, log_path as sqlite_log_path,
    refresh_statistics, write_log_again as write_sqlite_log_again,
};
pub(in crate::sql) use statement::{Statement, Value};

use std::{io, time::Duration};

use futures_util::TryStreamExt;
use sqlx::{
    ConnectOptions, Connection as _, Executor, MySqlConnection, PgConnection, SqliteConnection,
    mysql::MySqlConnectOptions, postgres::PgConnectOptions, sqlite::SqliteConnectOptions,
};
use tokio::time::timeout;

use super::options::{IndexOptions, Server, ServerOptions};

/// How many prepared statements a connection keeps: listings have many shapes.
const STATEMENTS_MAX: usize = 256;

/// How connections are made.
#[derive(Clone, Debug)]
pub(in crate::sql) enum Connector {
    Sqlite(Box<SqliteConnectOptions>),
    Postgres(Box<PgConnectOptions>, Duration),
    Mysql(Box<MySqlConnectOptions>, Duration),
}

/// How a server is reached, as `sqlx` takes it.
#[derive(Clone, Debug)]
pub enum ConnectTo {
    Postgres(Box<PgConnectOptions>),
    Mysql(Box<MySqlConnectOptions>),
}

impl ServerOptions {
    /// For whoever keeps something else in the index's database, and is to reach it as the index does, encrypted and verified
    /// alike.
    pub fn connect_options(&self) -> ConnectTo {
        match self.server {
            Server::Postgres => ConnectTo::Postgres(Box::new(postgres::connect_options(self))),
            Server::Mysql => ConnectTo::Mysql(Box::new(mysql::connect_options(self))),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Purpose {
    Read,
    Write,
    /// Changes of the schema, which may take their time.
    Migrate,
}

impl Connector {
    pub(in crate::sql) fn new(options: &IndexOptions) -> Self {
        match options {
            IndexOptions::Sqlite(options) => Connector::Sqlite(Box::new(sqlite::connect_options(options))),
            IndexOptions::Server(options) => Connector::server(options),
        }
    }

    fn server(options: &ServerOptions) -> Self {
        match options.connect_options() {
            ConnectTo::Postgres(connect) => Connector::Postgres(connect, options.timeout),
            ConnectTo::Mysql(connect) => Connector::Mysql(connect, options.timeout),
        }
    }

    /// How long a server may take.
    pub(in crate::sql) fn limit(&self) -> Option<Duration> {
        match self {
            Connector::Sqlite(_) => None,
            Connector::Postgres(_, limit) | Connector::Mysql(_, limit) => Some(*limit),
        }
    }

    pub(in crate::sql) async fn connect(&self, purpose: Purpose) -> Result<Connection, sqlx::Error> {
        match self {
            Connector::Sqlite(options) => Ok(Connection {
                inner: Inner::Sqlite(options.connect().await?),
                deadline: None,
                is_lost: false,
            }),
            Connector::Postgres(options, limit) => {
                let connection =
                    Box::pin(within(Some(*limit), postgres::connect(options, purpose, *limit))).await?;
                Ok(Connection::server(Inner::Postgres(connection), purpose, *limit))
            }
            Connector::Mysql(options, limit) => {
                let connection =
                    Box::pin(within(Some(*limit), mysql::connect(options, purpose, *limit))).await?;
                Ok(Connection::server(Inner::Mysql(connection), purpose, *limit))
            }
        }
    }
}

/// A connection to any database. On a server each statement has a deadline, and one that misses it costs the connection.
#[derive(Debug)]
pub(in crate::sql) struct Connection {
    inner: Inner,
    deadline: Option<Duration>,
    is_lost: bool,
}

#[derive(Debug)]
enum Inner {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    Mysql(MySqlConnection),
}

/// What is given for each kind of connection.
macro_rules! each {
    ($connection:expr, $open:ident, $module:ident => $given:expr) => {{
        let deadline = $connection.deadline;
        let given = match &mut $connection.inner {
            Inner::Sqlite($open) => {
                #[allow(unused_imports, reason = "not all that is given needs it")]
                use sqlite as $module;
                $given
            }
            Inner::Postgres($open) => {
                #[allow(unused_imports, reason = "not all that is given needs it")]
                use postgres as $module;
                within(deadline, async { $given }).await
            }
            Inner::Mysql($open) => {
                #[allow(unused_imports, reason = "not all that is given needs it")]
                use mysql as $module;
                within(deadline, async { $given }).await
            }
        };
        if let Err(error) = &given {
            $connection.is_lost |= is_lost(error);
        }
        given
    }};
}

impl Connection {
    fn server(inner: Inner, purpose: Purpose, limit: Duration) -> Self {
        Connection { inner, deadline: (purpose != Purpose::Migrate).then_some(limit), is_lost: false }
    }

    pub(in crate::sql) fn dialect(&self) -> Dialect {
        match self.inner {
            Inner::Sqlite(_) => Dialect::Sqlite,
            Inner::Postgres(_) => Dialect::Postgres,
            Inner::Mysql(_) => Dialect::Mysql,
        }
    }

    /// Whether it is of no use any more.
    pub(in crate::sql) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// A statement that is whole but for its values.
    pub(in crate::sql) fn statement(&self, sql: &'static str) -> Statement {
        Statement::whole(self.dialect(), sql)
    }

    /// Answers how many rows it found to change.
    pub(in crate::sql) async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).execute(open).await.map(|done| done.rows_affected()))
    }

    pub(in crate::sql) async fn fetch_all(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).fetch(open).map_ok(engine::row).try_collect().await)
    }

    pub(in crate::sql) async fn fetch_optional(
        &mut self,
        statement: Statement,
    ) -> Result<Option<Row>, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).fetch_optional(open).await.map(|row| row.map(engine::row)))
    }

    pub(in crate::sql) async fn fetch_one(&mut self, statement: Statement) -> Result<Row, sqlx::Error> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// Carries out statements without values.
    pub(in crate::sql) async fn run(&mut self, statements: &'static str) -> Result<(), sqlx::Error> {
        each!(self, open, _engine => open.execute(statements).await.map(|_| ()))
    }

    /// An INSERT of one row, which answers with the number that the database gave it, its column `number`.
    pub(in crate::sql) async fn insert_numbered(
        &mut self,
        mut statement: Statement,
        number: &str,
    ) -> Result<i64, sqlx::Error> {
        if let Inner::Mysql(open) = &mut self.inner {
            let done = within(self.deadline, mysql::query(statement).execute(open)).await;
            self.is_lost |= done.as_ref().is_err_and(is_lost);
            return Ok(done?.last_insert_id() as i64);
        }
        statement.push(format_args!(" RETURNING {number}"));
        self.fetch_one(statement).await?.try_get(0)
    }

    /// A statement that a constraint may refuse, within a transaction that goes on then.
    pub(in crate::sql) async fn try_execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        if self.dialect() != Dialect::Postgres {
            return self.execute(statement).await;
        }
        // A failed statement ends a transaction, or what came behind a savepoint.
        self.run("SAVEPOINT tried").await?;
        let outcome = self.execute(statement).await;
        match &outcome {
            Ok(_) => self.run("RELEASE SAVEPOINT tried").await?,
            Err(_) if self.is_lost => {}
            Err(_) => self.run("ROLLBACK TO SAVEPOINT tried; RELEASE SAVEPOINT tried").await?,
        }
        outcome
    }

    /// Begins a transaction that writes: one at a time, whichever process asks.
    pub(in crate::sql) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.run(match self.dialect() {
            Dialect::Sqlite => sqlite::BEGIN,
            Dialect::Postgres => postgres::BEGIN,
            Dialect::Mysql => mysql::BEGIN,
        })
        .await
    }

    pub(in crate::sql) async fn close(self) {
        let closed = async {
            match self.inner {
                Inner::Sqlite(open) => open.close().await,
                Inner::Postgres(open) => open.close().await,
                Inner::Mysql(open) => open.close().await,
            }
        };
        // An error while closing changes nothing.
        within(self.deadline, closed).await.ok();
    }
}

/// Whether nothing can be said over the connection any more.
pub(in crate::sql) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
        sqlx::Error::Database(error) => {
            // Administrators end connections, and servers their sessions.
            matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03" | "25P03" | "08S01"))
                || error.code().is_some_and(|code| code.starts_with("08"))
        }
        _ => false,
    }
}

async fn within<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let Some(limit) = limit else { return answer.await };
    timeout(limit, answer).await.unwrap_or_else(|_| {
        let reason = format!("no answer within {} ms", limit.as_millis());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, reason)))
    })
}
