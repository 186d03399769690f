//! A few connections to the database, and the differences between the dialects.
//!
//! A connection with a failed or cancelled operation is dropped, which rolls its transaction back, so that
//! none is reused in an unknown state. Nor is an old one reused, as in the index's pool of readers. An operation
//! is repeated if an idle connection turns out to be lost, if the database reports a conflict, and if the tables
//! are missing: every operation may be repeated.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use gnudi_sql::{
    CONNECTION_AGE_MAX, Class, Connection, Connector, DatabaseOptions, Dialect, Error, Purpose, Statement,
    class, is_missing_table,
};
use parking_lot::Mutex;
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
    /// Each with the time at which it began to connect.
    idle: Mutex<Vec<(Instant, Connection)>>,
    places: Semaphore,
}

impl Connections {
    pub(super) fn new(options: &SqlCoordinatorOptions) -> Self {
        Connections {
            connector: Connector::new(&DatabaseOptions::from(&options.database)),
            place: options.database.place(),
            deadline: options.database.timeout,
            idle: Mutex::default(),
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
            let idle = self.take_idle(Instant::now());
            let is_new = idle.is_none();
            let (since, mut connection) = match idle {
                Some(idle) => idle,
                None => (Instant::now(), self.connect().await?),
            };
            match operation.run(&mut connection).await {
                Ok(answer) => {
                    self.idle.lock().push((since, connection));
                    return Ok(answer);
                }
                Err(error) if class(&error) == Class::Contended => sleep(CONFLICT_PAUSE).await,
                Err(error) if is_missing_table(&error) => {
                    schema::Create.run(&mut self.connect().await?).await?;
                }
                // All idle connections are probably lost.
                Err(_) if !is_new && connection.is_lost() => self.idle.lock().clear(),
                Err(error) => return Err(error),
            }
        }
    }

    /// An idle connection, if there is any. Closes those that are too old: reads on one to a former primary succeed, and are
    /// outdated.
    fn take_idle(&self, now: Instant) -> Option<(Instant, Connection)> {
        let mut idle = self.idle.lock();
        let is_old =
            |(since, _): &mut (Instant, Connection)| now.duration_since(*since) >= CONNECTION_AGE_MAX;
        for (_, old) in idle.extract_if(.., is_old) {
            // Nobody waits for the server.
            tokio::spawn(old.close());
        }
        idle.pop()
    }

    async fn connect(&self) -> Result<Connection, Error> {
        self.connector.connect(Purpose::Coordinate).await
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

#[cfg(test)]
mod tests {
    use gnudi_sql::SqliteOptions;

    use super::*;

    #[tokio::test]
    async fn a_connection_is_used_until_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("index"));
        let connector = Connector::new(&DatabaseOptions::from(&options));
        let start = Instant::now();
        let times = [start, start + CONNECTION_AGE_MAX / 2];
        let mut idle = Vec::new();
        for since in times {
            idle.push((since, connector.connect(Purpose::Coordinate).await.unwrap()));
        }
        let connections = Connections {
            connector,
            place: String::new(),
            deadline: Duration::from_secs(10),
            idle: Mutex::new(idle),
            places: Semaphore::new(1),
        };
        let taken = connections.take_idle(start + CONNECTION_AGE_MAX).unwrap();
        assert_eq!(taken.0, times[1]);
        assert!(connections.idle.lock().is_empty(), "the other one is too old");
        connections.idle.lock().push(taken);
        assert!(connections.take_idle(start + CONNECTION_AGE_MAX * 2).is_none());
    }
}
