//! Reads of a `SQLite` file through rusqlite connections, each used by one thread at a time.
//!
//! A short statement runs on the caller's thread; one that takes longer than [`SHORT_MAX`] is stopped there and runs
//! again on a blocking thread, since the trip there and back takes longer than most statements. All rows come back
//! together; sqlx, which is used for writing, wakes the reader for each row and copies each value.
//!
//! A statement has a deadline, as on servers: `SQLite` stops it there, so that it does not keep its connection and its
//! thread.

use std::{
    ffi::c_int,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags};
use sqlx::error::{DatabaseError, ErrorKind};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    Row, Statement, Value,
    buffer::Buffer,
    connection::{STATEMENTS_MAX, no_answer},
    error::is_interrupted,
    options::SqliteOptions,
    permits::Permits,
    sqlite,
};

/// Steps of `SQLite`'s virtual machine between two looks at the clock: less than a millisecond.
const STEPS_UNTIMED: c_int = 10_000;
/// How long a statement may keep the caller's thread, and the steps between two looks at the clock. A search in an index
/// is one step, which may read a page of each of its levels from the disk; with those around it, it takes some ten steps.
const SHORT_MAX: Duration = Duration::from_micros(300);
const STEPS_UNTIMED_SHORT: c_int = 20;

/// The connections to the file, each opened when it is first needed.
#[derive(Debug)]
pub struct SqliteReaders {
    options: Arc<SqliteOptions>,
    permits: Permits,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl SqliteReaders {
    /// Opens the first connection, so that an unreadable file is reported at once.
    pub async fn open(options: &SqliteOptions) -> Result<Self, sqlx::Error> {
        let options = Arc::new(options.clone());
        let first = {
            let options = options.clone();
            blocking(move || connect(&options)).await?
        };
        Ok(SqliteReaders {
            permits: Permits::new(options.readers_max),
            idle: Arc::new(Mutex::new(vec![first])),
            options,
        })
    }

    /// The first `rows_max` rows.
    pub async fn fetch(&self, statement: Statement, rows_max: usize) -> Result<Vec<Row>, sqlx::Error> {
        let limit = self.options.timeout;
        let deadline = Instant::now().checked_add(limit);
        let permit = timeout(self.options.busy_timeout, self.permits.acquire(statement.is_search)).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let known = self.idle.lock().pop();
        if let Some(connection) = &known {
            let short = Instant::now() + SHORT_MAX;
            match read(connection, &statement, rows_max, Some(short), STEPS_UNTIMED_SHORT) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {}
                rows => {
                    self.idle.lock().extend(known);
                    return rows.map(into_rows).map_err(failure);
                }
            }
        }
        let (options, idle) = (self.options.clone(), self.idle.clone());
        let fetched = blocking(move || {
            let connection = known.map_or_else(|| connect(&options), Ok)?;
            let rows = read(&connection, &statement, rows_max, deadline, STEPS_UNTIMED);
            idle.lock().push(connection);
            drop(permit);
            rows.map(into_rows)
        });
        fetched.await.map_err(|error| if is_interrupted(&error) { no_answer(limit) } else { error })
    }

    /// Waits for running reads, and rejects new ones.
    pub async fn close(&self) {
        self.permits.close_when_free().await;
        let idle = std::mem::take(&mut *self.idle.lock());
        // Closing the last connection to a file checkpoints its log.
        let closed = blocking(move || {
            drop(idle);
            Ok(())
        });
        // Dropping a connection reports no failure.
        drop(closed.await);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, rusqlite::Error> + Send + 'static,
) -> Result<T, sqlx::Error> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(failure),
        Err(error) => Err(sqlx::Error::Io(io::Error::other(error))),
    }
}

fn connect(options: &SqliteOptions) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    for (name, value) in sqlite::pragmas(options) {
        connection.pragma_update(None, name, value)?;
    }
    connection.pragma_update(None, "query_only", "ON")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

fn read(
    connection: &Connection,
    statement: &Statement,
    rows_max: usize,
    deadline: Option<Instant>,
    steps_untimed: c_int,
) -> Result<Vec<Buffer>, rusqlite::Error> {
    let is_late = move || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    connection.progress_handler(steps_untimed, Some(is_late))?;
    if statement.is_kept {
        let mut prepared: CachedStatement<'_> = connection.prepare_cached(statement.sql())?;
        step(&mut prepared, &statement.values, rows_max)
    } else {
        step(&mut connection.prepare(statement.sql())?, &statement.values, rows_max)
    }
}

fn step(
    prepared: &mut rusqlite::Statement<'_>,
    values: &[Value],
    rows_max: usize,
) -> Result<Vec<Buffer>, rusqlite::Error> {
    for (number, value) in (1..).zip(values) {
        match value {
            Value::Integer(value) => prepared.raw_bind_parameter(number, value)?,
            Value::Real(value) => prepared.raw_bind_parameter(number, value)?,
            Value::Text(text) => prepared.raw_bind_parameter(number, text.as_deref())?,
            Value::Bytes(bytes) => prepared.raw_bind_parameter(number, bytes.as_deref())?,
            Value::IntegerColumn(_) | Value::BytesColumn(_) => {
                unreachable!("columns are for another database")
            }
        }
    }
    let (columns, mut read, mut buffers) = (prepared.column_count(), 0, Vec::new());
    let mut buffer = Buffer::new(columns);
    let mut rows = prepared.raw_query();
    while read < rows_max
        && let Some(row) = rows.next()?
    {
        if buffer.is_full() {
            buffers.push(std::mem::replace(&mut buffer, Buffer::new(columns)));
        }
        buffer.push(row)?;
        read += 1;
    }
    buffers.push(buffer);
    Ok(buffers)
}

fn into_rows(buffers: Vec<Buffer>) -> Vec<Row> {
    buffers.into_iter().flat_map(Buffer::into_rows).collect()
}

/// As sqlx would report the failure.
fn failure(error: rusqlite::Error) -> sqlx::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            let message = message.unwrap_or_else(|| code.to_string());
            sqlx::Error::Database(Box::new(SqliteFailure { code: code.extended_code, message }))
        }
        other => sqlx::Error::Decode(other.into()),
    }
}

/// An error of `SQLite`.
#[derive(Debug, thiserror::Error)]
#[error("(code: {code}) {message}")]
struct SqliteFailure {
    /// The extended code: <https://sqlite.org/rescode.html>.
    code: i32,
    message: String,
}

impl DatabaseError for SqliteFailure {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::{Dialect, error};

    async fn readers(folder: &TempDir, readers_max: u32) -> SqliteReaders {
        let path = folder.path().join("index");
        let written = Connection::open(&path).unwrap();
        let text = "CREATE TABLE t (n INTEGER, t TEXT, b BLOB); INSERT INTO t VALUES (1, 'one', x'00ff'), \
            (NULL, '', x''), (-9223372036854775808, NULL, NULL), (4, 'vier\u{1f980}', x'04')";
        written.execute_batch(text).unwrap();
        let options = SqliteOptions {
            readers_max,
            busy_timeout: Duration::from_millis(50),
            ..SqliteOptions::new(path)
        };
        SqliteReaders::open(&options).await.unwrap()
    }

    fn statement(sql: &'static str) -> Statement {
        Statement::whole(Dialect::Sqlite, sql)
    }

    #[tokio::test]
    async fn rows_have_their_values_of_any_type() {
        let folder = TempDir::new().unwrap();
        let readers = readers(&folder, 1).await;
        let rows = readers.fetch(statement("SELECT n, t, b, 0.5 FROM t"), usize::MAX).await.unwrap();
        let get = |row: &Row| {
            let number: Option<i64> = row.try_get(0).unwrap();
            let text: Option<&str> = row.try_get(1).unwrap();
            let bytes: Option<&[u8]> = row.try_get(2).unwrap();
            (number, text.map(str::to_owned), bytes.map(<[u8]>::to_vec))
        };
        let expected = [
            (Some(1), Some("one"), Some(vec![0, 255])),
            (None, Some(""), Some(vec![])),
            (Some(i64::MIN), None, None),
            (Some(4), Some("vier\u{1f980}"), Some(vec![4])),
        ];
        let expected = expected.map(|(number, text, bytes)| (number, text.map(str::to_owned), bytes));
        assert_eq!(rows.iter().map(get).collect::<Vec<_>>(), expected);
        // A text is not a number, NULL is `None`, and there is no fifth column.
        assert!(rows[0].try_get::<i64>(1).is_err());
        assert!(rows[0].try_get::<i64>(3).is_err());
        assert!(rows[0].try_get::<&str>(2).is_err());
        assert!(rows[1].try_get::<i64>(0).is_err());
        assert!(rows[0].try_get::<i64>(4).is_err());
    }

    #[tokio::test]
    async fn values_are_bound_and_a_kept_statement_forgets_them() {
        let folder = TempDir::new().unwrap();
        let readers = readers(&folder, 1).await;
        for (value, expected) in [(Some(1), vec![1]), (None, vec![]), (Some(4), vec![4])] {
            let found = statement("SELECT n FROM t WHERE n = ?").bind(value);
            let rows = readers.fetch(found, usize::MAX).await.unwrap();
            let rows: Vec<i64> = rows.iter().map(|row| row.try_get(0).unwrap()).collect();
            assert_eq!(rows, expected);
        }
        assert_eq!(readers.fetch(statement("SELECT n FROM t"), 2).await.unwrap().len(), 2);
        let unbound = readers.fetch(statement("SELECT n FROM t WHERE n = ?"), usize::MAX).await.unwrap();
        assert_eq!(unbound.len(), 0);
    }

    #[tokio::test]
    async fn nothing_can_be_written_and_failures_have_their_code() {
        let folder = TempDir::new().unwrap();
        let readers = readers(&folder, 1).await;
        let refused = readers.fetch(statement("DELETE FROM t"), usize::MAX).await.unwrap_err();
        // SQLITE_READONLY.
        assert_eq!(refused.as_database_error().unwrap().code().as_deref(), Some("8"));
        let unknown = readers.fetch(statement("SELECT x FROM t"), usize::MAX).await.unwrap_err();
        assert!(error::reason(&unknown).contains("no such column: x"), "{unknown}");
    }

    #[tokio::test]
    async fn a_read_that_does_not_end_is_stopped_and_its_connection_goes_on() {
        let folder = TempDir::new().unwrap();
        drop(readers(&folder, 1).await);
        let timeout = Duration::from_millis(100);
        let path = folder.path().join("index");
        let options = SqliteOptions { readers_max: 1, timeout, ..SqliteOptions::new(path) };
        let readers = SqliteReaders::open(&options).await.unwrap();
        let endless =
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n";
        for _ in 0..2 {
            let error = readers.fetch(statement(endless), usize::MAX).await.unwrap_err();
            assert_eq!(error::class(&error), error::Class::Unavailable);
            assert!(error::reason(&error).contains("no answer within 100 ms"), "{error}");
            assert_eq!(readers.fetch(statement("SELECT n FROM t"), usize::MAX).await.unwrap().len(), 4);
        }
    }

    #[test]
    fn a_short_statement_needs_no_other_thread_and_a_long_one_gets_one() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).enable_all().build().unwrap();
        let folder = TempDir::new().unwrap();
        runtime.block_on(async {
            let readers = readers(&folder, 1).await;
            let (release, released) = std::sync::mpsc::channel::<()>();
            let busy = spawn_blocking(move || released.recv());
            assert_eq!(readers.fetch(statement("SELECT n FROM t"), usize::MAX).await.unwrap().len(), 4);
            let long = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) \
                SELECT x FROM n";
            let mut fetched = std::pin::pin!(readers.fetch(statement(long), usize::MAX));
            assert!(timeout(Duration::from_millis(50), &mut fetched).await.is_err(), "it waits for a thread");
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            let rows = fetched.await.unwrap();
            assert_eq!((rows.len(), rows[199_999].try_get::<i64>(0).unwrap()), (200_000, 200_000));
        });
    }

    #[tokio::test]
    async fn searches_leave_a_connection_to_look_ups() {
        let folder = TempDir::new().unwrap();
        let readers = readers(&folder, 2).await;
        let permit = readers.permits.acquire(true).await.unwrap();
        let refused = readers.fetch(statement("SELECT 1").for_search(), 1).await;
        assert!(matches!(refused, Err(sqlx::Error::PoolTimedOut)));
        readers.fetch(statement("SELECT 1"), 1).await.unwrap();
        drop(permit);
        readers.fetch(statement("SELECT 1").for_search(), 1).await.unwrap();
        readers.close().await;
        let closed = readers.fetch(statement("SELECT 1").for_search(), 1).await;
        assert!(matches!(closed, Err(sqlx::Error::PoolClosed)));
    }

    #[tokio::test]
    async fn a_reader_waits_for_its_turn_and_not_for_ever() {
        let folder = TempDir::new().unwrap();
        let readers = readers(&folder, 1).await;
        let permit = readers.permits.acquire(false).await.unwrap();
        let refused = readers.fetch(statement("SELECT 1"), 1).await;
        assert!(matches!(refused, Err(sqlx::Error::PoolTimedOut)));
        drop(permit);
        readers.fetch(statement("SELECT 1"), 1).await.unwrap();
        readers.close().await;
        assert!(matches!(readers.fetch(statement("SELECT 1"), 1).await, Err(sqlx::Error::PoolClosed)));
    }
}
