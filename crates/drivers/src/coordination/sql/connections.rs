//! A few connections to the database, and what both kinds of database have in common.
//!
//! A connection on which anything failed or was given up is dropped, which undoes its transaction, so that none is ever shared
//! in an unknown state. What was asked for is asked once more where a connection turns out to have been lost meanwhile, where
//! the database wants a transaction repeated, and where the tables are gone: every operation may be repeated.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Database, Encode, Executor, IntoArguments, MySqlConnection, PgConnection,
    Row as _, Type,
    database::HasStatementCache,
    mysql::{MySql, MySqlRow},
    postgres::{PgRow, Postgres},
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{SqlCoordinatorOptions, SqlDatabase, schema};
use crate::coordination::CoordinationError;

/// How long to wait before a transaction is repeated that another was in the way of.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// Something that is done on one connection, with a transaction of its own where it needs one, and that may be repeated.
#[async_trait]
pub(super) trait Operation: Sync {
    type Answer: Send;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, sqlx::Error>;
}

pub(super) struct Connections {
    database: SqlDatabase,
    deadline: Duration,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Connections {
    pub(super) fn new(options: &SqlCoordinatorOptions) -> Self {
        Connections {
            database: options.database.clone(),
            deadline: options.deadline,
            idle: Mutex::default(),
            places: Semaphore::new(options.connections_max.max(1)),
        }
    }

    /// Runs an operation within the deadline.
    pub(super) async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, CoordinationError> {
        let unavailable =
            |reason| CoordinationError::Unavailable(format!("{}: {reason}", self.database.place()));
        match timeout(self.deadline, self.run_patiently(&operation)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable(format!("no answer within {:?}", self.deadline))),
        }
    }

    async fn run_patiently<O: Operation>(&self, operation: &O) -> Result<O::Answer, sqlx::Error> {
        let _place = self.places.acquire().await.expect("the places are never closed");
        loop {
            let idle = self.idle.lock().pop();
            let is_new = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(&self.database, self.deadline).await?,
            };
            match operation.run(&mut connection).await {
                Ok(answer) => {
                    self.idle.lock().push(connection);
                    return Ok(answer);
                }
                Err(error) if is_conflict(&error) => sleep(CONFLICT_PAUSE).await,
                Err(error) if is_missing_table(&error) => {
                    schema::Create.run(&mut Connection::open(&self.database, self.deadline).await?).await?;
                }
                // Those that lay idle have been lost together.
                Err(error) if !is_new && is_lost(&error) => self.idle.lock().clear(),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_lost(error: &sqlx::Error) -> bool {
    // `PostgreSQL` says 57P01 to 57P03 when it shuts down, and 25P03 when it has ended a sleeper's transaction; `MySQL` says
    // 08S01, and `MariaDB` 70100 to what runs when it shuts down.
    match error.as_database_error() {
        Some(error) => error.code().is_some_and(|code| {
            matches!(
                &*code,
                "57P01" | "57P02" | "57P03" | "25P03" | "08S01" | "70100" | "08000" | "08003" | "08006"
            )
        }),
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_)),
    }
}

/// Another transaction was in the way: deadlocks, and conflicts of a cluster.
fn is_conflict(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| matches!(&*code, "40001" | "40P01"))
}

fn is_missing_table(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| matches!(&*code, "42P01" | "42S02"))
}

#[derive(Debug)]
pub(super) enum Connection {
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Connection {
    async fn open(database: &SqlDatabase, deadline: Duration) -> Result<Self, sqlx::Error> {
        match database {
            SqlDatabase::Postgres(options) => {
                let options = (**options).clone().disable_statement_logging();
                let mut connection = options.connect().await?;
                let limit_ms = deadline.as_millis().max(1);
                let settings = format!(
                    "SET idle_in_transaction_session_timeout = {limit_ms}; SET statement_timeout = {limit_ms}"
                );
                connection.execute(sqlx::raw_sql(AssertSqlSafe(settings))).await?;
                Ok(Connection::Postgres(connection))
            }
            SqlDatabase::MySql(options) => {
                let options = (**options).clone().disable_statement_logging();
                let mut connection = options.connect().await?;
                let limit_s = deadline.as_secs().max(1);
                // A connection that lies idle for longer than twice the deadline is closed, and with it a sleeper's transaction.
                let settings = format!(
                    "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), \
                     SESSION wait_timeout = {}, SESSION innodb_lock_wait_timeout = {limit_s}; \
                     SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                    limit_s * 2
                );
                connection.execute(sqlx::raw_sql(AssertSqlSafe(settings))).await?;
                Ok(Connection::MySql(connection))
            }
        }
    }

    /// The time now, as a number: microseconds since 1970.
    pub(super) fn now(&self) -> &'static str {
        match self {
            Connection::Postgres(_) => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
            Connection::MySql(_) => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
        }
    }

    /// The end of an INSERT that may meet a row with the same `key`: `column` is set anew in that one.
    pub(super) fn on_conflict(&self, key: &str, columns: &[&str]) -> String {
        let set = |new: &dyn Fn(&str) -> String| {
            columns.iter().map(|column| format!("{column} = {}", new(column))).collect::<Vec<_>>().join(", ")
        };
        match self {
            Connection::Postgres(_) => {
                format!(" ON CONFLICT ({key}) DO UPDATE SET {}", set(&|column| format!("EXCLUDED.{column}")))
            }
            Connection::MySql(_) => {
                format!(" ON DUPLICATE KEY UPDATE {}", set(&|column| format!("VALUES({column})")))
            }
        }
    }

    /// In the end, [`Connection::commit`]; dropping the connection undoes it.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let begin = match self {
            // Each statement sees what was committed before it.
            Connection::Postgres(_) => "BEGIN ISOLATION LEVEL READ COMMITTED",
            // The first plain SELECT decides what all see; each transaction waits for its turn before that one.
            Connection::MySql(_) => "START TRANSACTION",
        };
        self.execute(begin, &[]).await.map(|_| ())
    }

    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        self.execute("COMMIT", &[]).await.map(|_| ())
    }

    /// How many rows a statement changed; each `?` is one of the texts.
    pub(super) async fn execute(&mut self, sql: &str, texts: &[&str]) -> Result<u64, sqlx::Error> {
        match self {
            Connection::Postgres(connection) => {
                execute::<Postgres>(connection, numbered(sql), texts).await.map(|done| done.rows_affected())
            }
            Connection::MySql(connection) => {
                execute::<MySql>(connection, sql.to_owned(), texts).await.map(|done| done.rows_affected())
            }
        }
    }

    pub(super) async fn rows(&mut self, sql: &str, texts: &[&str]) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Connection::Postgres(connection) => {
                let rows = rows::<Postgres>(connection, numbered(sql), texts).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
            Connection::MySql(connection) => {
                let rows = rows::<MySql>(connection, sql.to_owned(), texts).await?;
                rows.into_iter().map(Row::MySql).collect()
            }
        })
    }
}

/// `PostgreSQL` numbers what is bound.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        numbered += &["$", &(number + 1).to_string(), part].concat();
    }
    numbered
}

async fn execute<DB: Database + HasStatementCache>(
    connection: &mut DB::Connection,
    sql: String,
    texts: &[&str],
) -> Result<DB::QueryResult, sqlx::Error>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    Vec<u8>: for<'q> Encode<'q, DB> + Type<DB>,
    DB::Arguments: IntoArguments<DB>,
{
    if texts.is_empty() {
        return sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await;
    }
    let query = sqlx::query::<DB>(AssertSqlSafe(sql)).persistent(false);
    texts.iter().fold(query, |query, text| query.bind(text.as_bytes().to_vec())).execute(connection).await
}

async fn rows<DB: Database + HasStatementCache>(
    connection: &mut DB::Connection,
    sql: String,
    texts: &[&str],
) -> Result<Vec<DB::Row>, sqlx::Error>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    Vec<u8>: for<'q> Encode<'q, DB> + Type<DB>,
    DB::Arguments: IntoArguments<DB>,
{
    if texts.is_empty() {
        return sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(connection).await;
    }
    let query = sqlx::query::<DB>(AssertSqlSafe(sql)).persistent(false);
    texts.iter().fold(query, |query, text| query.bind(text.as_bytes().to_vec())).fetch_all(connection).await
}

#[derive(Debug)]
pub(super) enum Row {
    Postgres(PgRow),
    MySql(MySqlRow),
}

impl Row {
    pub(super) fn number(&self, column: usize) -> Result<Option<i64>, sqlx::Error> {
        match self {
            Row::Postgres(row) => row.try_get(column),
            Row::MySql(row) => row.try_get(column),
        }
    }

    /// As [`Row::number`], of a column that is never NULL.
    pub(super) fn sure(&self, column: usize) -> Result<i64, sqlx::Error> {
        self.number(column)?.ok_or(sqlx::Error::RowNotFound)
    }

    pub(super) fn text(&self, column: usize) -> Result<String, sqlx::Error> {
        let bytes: Vec<u8> = match self {
            Row::Postgres(row) => row.try_get(column),
            Row::MySql(row) => row.try_get(column),
        }?;
        String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
    }
}
