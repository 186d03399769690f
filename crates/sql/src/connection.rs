//! Connections to any of the databases.

use std::{future, io, time::Duration};

use futures_util::TryStreamExt;
use sqlx::{
    ConnectOptions, Connection as _, Executor, MySqlConnection, PgConnection, SqliteConnection,
    mysql::MySqlConnectOptions, postgres::PgConnectOptions, sqlite::SqliteConnectOptions,
};
use tokio::time::{sleep, timeout};

use crate::{
    Dialect, Row, Statement,
    error::is_lost,
    mysql,
    options::{DatabaseOptions, Server},
    postgres, sqlite,
};

/// Prepared statements cached per connection: listings have many shapes.
pub(crate) const STATEMENTS_MAX: usize = 256;

/// The limits that servers can have: `PostgreSQL` counts milliseconds in 31 bits, and for all of them 0 is none.
const LIMIT_MIN: Duration = Duration::from_millis(1);
const LIMIT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// How often in a row a server may not be reached before a migration is given up.
const FAILURES_MAX: u32 = 3;
/// How often the processes of two connections are compared: others may take one in between.
const COMPARISONS: u32 = 3;

/// How connections are made.
#[derive(Clone, Debug)]
pub enum Connector {
    Sqlite(Box<SqliteConnectOptions>),
    Postgres(Box<PgConnectOptions>, Duration),
    Mysql(Box<MySqlConnectOptions>, Duration),
}

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
    /// Short transactions of a coordinator: the server aborts those of a dead or suspended process after two limits.
    Coordinate,
    /// Changes of the schema, which may take long.
    Migrate,
}

impl Connector {
    pub fn new(options: &DatabaseOptions) -> Self {
        match options {
            DatabaseOptions::Sqlite(options) => Connector::Sqlite(Box::new(sqlite::connect_options(options))),
            DatabaseOptions::Server(options) => {
                let limit = options.timeout.clamp(LIMIT_MIN, LIMIT_MAX);
                match options.server {
                    Server::Postgres => {
                        Connector::Postgres(Box::new(postgres::connect_options(options)), limit)
                    }
                    Server::Mysql => Connector::Mysql(Box::new(mysql::connect_options(options)), limit),
                }
            }
        }
    }

    /// The server's time limits.
    pub fn limit(&self) -> Option<Duration> {
        match self {
            Connector::Sqlite(_) => None,
            Connector::Postgres(_, limit) | Connector::Mysql(_, limit) => Some(*limit),
        }
    }

    pub async fn connect(&self, purpose: Purpose) -> Result<Connection, sqlx::Error> {
        let limit = self.limit();
        let inner = match self {
            Connector::Sqlite(options) => Inner::Sqlite(options.connect().await?),
            Connector::Postgres(options, time) => {
                Inner::Postgres(Box::pin(within(limit, postgres::connect(options, purpose, *time))).await?)
            }
            Connector::Mysql(options, time) => {
                Inner::Mysql(Box::pin(within(limit, mysql::connect(options, purpose, *time))).await?)
            }
        };
        let deadline = limit.filter(|_| purpose != Purpose::Migrate);
        Ok(Connection { inner, deadline, is_lost: false })
    }

    /// Whether a pooler executes the statements of several connections in one session of `PostgreSQL`, as `PgBouncer`
    /// does in transaction mode: settings and prepared statements would be those of other connections.
    pub async fn shares_sessions(&self, connection: &mut Connection) -> Result<bool, sqlx::Error> {
        if !matches!(self, Connector::Postgres(..)) {
            return Ok(false);
        }
        let mut other = self.connect(Purpose::Migrate).await?;
        let mut shares = false;
        for _ in 0..COMPARISONS {
            // The process that was used last is used first.
            shares |= self.process(connection).await? == self.process(&mut other).await?;
        }
        other.close().await;
        Ok(shares)
    }

    /// The process of `PostgreSQL` that executes a statement now; `None` with other databases.
    pub async fn process(&self, connection: &mut Connection) -> Result<Option<i32>, sqlx::Error> {
        let Inner::Postgres(open) = &mut connection.inner else { return Ok(None) };
        within(self.limit(), postgres::process(open)).await.map(Some)
    }

    /// Returns when the server of a connection without deadlines is gone, with the reason: it cannot be reached for a
    /// while, or no longer has the connection's process.
    pub async fn loss(&self, process: Option<i32>) -> sqlx::Error {
        let Some(limit) = self.limit() else { return future::pending().await };
        let mut failures = 0;
        loop {
            sleep(limit).await;
            match self.has(process).await {
                Ok(true) => failures = 0,
                Ok(false) => return sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()),
                // A server that refuses is there.
                Err(error) if error.as_database_error().is_some() => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == FAILURES_MAX {
                        return error;
                    }
                }
            }
        }
    }

    /// Whether the server responds, and still has the process, if any.
    async fn has(&self, process: Option<i32>) -> Result<bool, sqlx::Error> {
        let mut other = self.connect(Purpose::Read).await?;
        let mut found = 1;
        if let Some(process) = process {
            // A standby, to which a proxy may send reads, does not know.
            let select =
                format!("SELECT COUNT(*) FROM pg_stat_activity WHERE pid = {process} OR pg_is_in_recovery()");
            found = other.fetch_one(Statement::once(Dialect::Postgres, select)).await?.try_get::<i64>(0)?;
        }
        other.close().await;
        Ok(found > 0)
    }
}

/// A connection to any database. On a server each statement has a deadline; missing it closes the connection.
#[derive(Debug)]
pub struct Connection {
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

/// Dispatches on the kind of connection.
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
    pub fn dialect(&self) -> Dialect {
        match self.inner {
            Inner::Sqlite(_) => Dialect::Sqlite,
            Inner::Postgres(_) => Dialect::Postgres,
            Inner::Mysql(_) => Dialect::Mysql,
        }
    }

    /// Whether it is unusable.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// A complete statement, without values.
    pub fn statement(&self, sql: &'static str) -> Statement {
        Statement::whole(self.dialect(), sql)
    }

    /// Returns the number of matched rows.
    pub async fn execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).execute(open).await.map(|done| done.rows_affected()))
    }

    pub async fn fetch_all(&mut self, statement: Statement) -> Result<Vec<Row>, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).fetch(open).map_ok(engine::row).try_collect().await)
    }

    pub async fn fetch_optional(&mut self, statement: Statement) -> Result<Option<Row>, sqlx::Error> {
        each!(self, open, engine => engine::query(statement).fetch_optional(open).await.map(|row| row.map(engine::row)))
    }

    pub async fn fetch_one(&mut self, statement: Statement) -> Result<Row, sqlx::Error> {
        self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// Runs statements without values.
    pub async fn run(&mut self, statements: &'static str) -> Result<(), sqlx::Error> {
        each!(self, open, _engine => open.execute(statements).await.map(|_| ()))
    }

    /// Inserts one row and returns the number that the database assigned to its column `number`.
    pub async fn insert_numbered(
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

    /// Runs a statement that may violate a constraint, inside a transaction that continues afterwards.
    pub async fn try_execute(&mut self, statement: Statement) -> Result<u64, sqlx::Error> {
        if self.dialect() != Dialect::Postgres {
            return self.execute(statement).await;
        }
        // A failed statement aborts the transaction, or everything after a savepoint.
        self.run("SAVEPOINT tried").await?;
        let outcome = self.execute(statement).await;
        match &outcome {
            Ok(_) => self.run("RELEASE SAVEPOINT tried").await?,
            Err(_) if self.is_lost => {}
            Err(_) => self.run("ROLLBACK TO SAVEPOINT tried; RELEASE SAVEPOINT tried").await?,
        }
        outcome
    }

    pub async fn close(self) {
        let closed = async {
            match self.inner {
                Inner::Sqlite(open) => open.close().await,
                Inner::Postgres(open) => open.close().await,
                Inner::Mysql(open) => open.close().await,
            }
        };
        // An error on closing does not matter.
        within(self.deadline, closed).await.ok();
    }
}

async fn within<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let Some(limit) = limit else { return answer.await };
    timeout(limit, answer).await.unwrap_or_else(|_| Err(no_answer(limit)))
}

/// The error of a statement that has missed its deadline.
pub(crate) fn no_answer(limit: Duration) -> sqlx::Error {
    let reason = format!("no answer within {} ms", limit.as_millis());
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_beyond_the_limits_of_servers_is_the_nearest_one() {
        let minute = Duration::from_mins(1);
        let timeouts = [Duration::from_micros(3), minute, Duration::from_hours(24 * 365)];
        for url in ["postgresql://me@host/index", "mysql://me@host/index"] {
            let limits = timeouts.map(|timeout| {
                let DatabaseOptions::Server(mut options) = DatabaseOptions::from_url(url).unwrap() else {
                    panic!("{url}")
                };
                options.timeout = timeout;
                Connector::new(&DatabaseOptions::Server(options)).limit()
            });
            assert_eq!(limits, [LIMIT_MIN, minute, LIMIT_MAX].map(Some), "{url}");
        }
    }
}
