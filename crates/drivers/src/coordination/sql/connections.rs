//! A few connections to the database, and the differences between the dialects.
//!
//! A connection with a failed or cancelled operation is dropped, which rolls its transaction back, so that
//! none is reused in an unknown state. Nor is an old one reused, as in the index's pool of readers. An operation
//! is repeated if an idle connection turns out to be lost, if the database reports a conflict, and if the tables
//! are missing: every operation may be repeated.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use gnudi_sql::{
    Class, Connection, Connector, DatabaseOptions, Dialect, Error, IdleConnections, Purpose, Statement,
    class, is_missing_table,
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{SqlCoordinatorOptions, schema};
use crate::coordination::CoordinationError;

/// Delay before a conflicting transaction is repeated.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// An operation on one connection, with its own transaction if needed; it may be repeated.
#[async_trait]
pub(super) trait Operation: Sync {
    type Answer: Send;

    async fn run(&self, connection: &mut Connection) -> Result<Self::Answer, Error>;
}

pub(super) struct Connections {
    connector: Connector,
    place: String,
    deadline: Duration,
    idle: IdleConnections,
    places: Semaphore,
}

impl Connections {
    pub(super) fn new(options: &SqlCoordinatorOptions) -> Self {
        Connections {
            connector: Connector::new(&DatabaseOptions::from(&options.database)),
            place: options.database.place(),
            deadline: options.database.timeout,
            idle: IdleConnections::default(),
            places: Semaphore::new(options.connections_max.max(1)),
        }
    }

    /// Runs an operation with the timeout.
    pub(super) async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, CoordinationError> {
        let unavailable = |reason| CoordinationError::Unavailable(format!("{}: {reason}", self.place));
        match timeout(self.deadline, self.run_patiently(&operation)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(unavailable(gnudi_sql::reason(&error))),
            Err(_) => Err(unavailable(format!("no answer within {:?}", self.deadline))),
        }
    }

    async fn run_patiently<O: Operation>(&self, operation: &O) -> Result<O::Answer, Error> {
        let _place = self.places.acquire().await.expect("the places are never closed");
        loop {
            let idle = self.idle.take(Instant::now());
            let is_new = idle.is_none();
            let mut open = match idle {
                Some(open) => open,
                None => self.idle.connect(&self.connector, Purpose::Coordinate).await?,
            };
            match operation.run(&mut open.connection).await {
                Ok(answer) => {
                    self.idle.keep(open);
                    return Ok(answer);
                }
                Err(error) if class(&error) == Class::Contended => sleep(CONFLICT_PAUSE).await,
                Err(error) if is_missing_table(&error) => {
                    schema::Create.run(&mut self.connector.connect(Purpose::Coordinate).await?).await?;
                }
                // All idle connections are probably lost.
                Err(_) if !is_new && open.connection.is_lost() => self.idle.clear(),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Must be ended by [`commit`]; dropping the connection rolls back. With both `PostgreSQL` and `MySQL` each
/// statement sees everything committed before it.
pub(super) async fn begin(connection: &mut Connection) -> Result<(), Error> {
    connection.run("START TRANSACTION").await
}

pub(super) async fn commit(connection: &mut Connection) -> Result<(), Error> {
    connection.run("COMMIT").await
}

/// A statement with numbers in its text; external input must be bound.
pub(super) fn once(connection: &Connection, sql: impl Into<String>) -> Statement {
    Statement::once(connection.dialect(), sql)
}

/// The current time: microseconds since 1970.
pub(super) fn now(connection: &Connection) -> &'static str {
    match connection.dialect() {
        Dialect::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
        Dialect::Mysql => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
        Dialect::Sqlite => no_server(),
    }
}

/// Suffix of an INSERT: on a conflict of `key`, leaves the existing row unchanged.
pub(super) fn on_conflict_ignore(connection: &Connection, key: &str) -> String {
    match connection.dialect() {
        Dialect::Postgres => format!(" ON CONFLICT ({key}) DO NOTHING"),
        Dialect::Mysql => format!(" ON DUPLICATE KEY UPDATE {key} = {key}"),
        Dialect::Sqlite => no_server(),
    }
}

pub(super) fn no_server() -> ! {
    unreachable!("only servers coordinate")
}
