//! `SQLite`: a file, and what it must be told (pragmas).

use std::time::Duration;

use sqlx::{
    Arguments as _, ConnectOptions, Sqlite,
    query::Query,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};
use tokio::time::{Instant, sleep};

use super::{Connection, Connector, Purpose, Row, STATEMENTS_MAX, Statement, Value};
use crate::sql::{
    failure::{indexer_error, is_busy},
    options::SqliteOptions,
};

/// Nobody else writes until it ends.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// `SQLite`'s page size; [`SqliteOptions::bytes_max`] is cut to whole pages.
const PAGE_BYTES: u32 = 4096;
/// The log is folded into the file when it has so many pages: rarely, since random keys touch the same pages again.
const CHECKPOINT_PAGES: u32 = 8192;
/// What the log's file is cut back to once it was folded.
const LOG_BYTES_MAX: u32 = CHECKPOINT_PAGES * PAGE_BYTES;

/// How many rows of each index the planner's statistics are made from: enough to tell a creator's metrics from a name's
/// among a million, and a fraction of a second.
const STATISTICS_ROWS_MAX: u32 = 100_000;

/// How long to wait before a file that is locked is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Rows on the way from a connection's thread to whoever reads them.
const ROWS_BUFFERED_MAX: usize = 1024;

pub(super) fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    let mut connect = SqliteConnectOptions::new()
        .filename(&options.path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        // A metric that was answered 201 survives a power cut: every commit is synced.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(options.busy_timeout)
        .pragma("cache_size", format!("-{}", options.page_cache_bytes / 1024))
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
        .pragma("journal_size_limit", LOG_BYTES_MAX.to_string())
        .pragma("temp_store", "MEMORY")
        .analysis_limit(STATISTICS_ROWS_MAX)
        .statement_cache_capacity(STATEMENTS_MAX)
        .row_buffer_size(ROWS_BUFFERED_MAX)
        .disable_statement_logging();
    if let Some(bytes_max) = options.bytes_max {
        connect = connect.pragma("max_page_count", (bytes_max / u64::from(PAGE_BYTES)).max(1).to_string());
    }
    connect
}

/// A new file is made ready for its log under a lock that nobody waits for, so whoever comes second tries again.
pub(in crate::sql) async fn connect_patiently(
    connector: &Connector,
    timeout: Duration,
) -> Result<Connection, sqlx::Error> {
    let deadline = Instant::now() + timeout;
    loop {
        match connector.connect(Purpose::Migrate).await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => sleep(BUSY_PAUSE).await,
            connected => return connected,
        }
    }
}

/// Has the planner learn how selective each index is, where tables have grown or shrunk tenfold since it last did. It
/// does without on a full disk. Servers do so by themselves.
pub(in crate::sql) async fn refresh_statistics(connection: &mut Connection) {
    // 0x10000 looks at all tables, 0x2 analyses those that need it. Other connections read statistics together with the
    // schema, which they do again when it changes.
    const REFRESH: &str = "PRAGMA optimize = 0x10002; \
        DROP VIEW IF EXISTS statistics_refreshed; CREATE VIEW statistics_refreshed AS SELECT 1";
    if connection.dialect().is_server() {
        return;
    }
    if let Err(error) = connection.run(REFRESH).await {
        tracing::warn!(error = %indexer_error(&error), "the index's statistics were not refreshed");
    }
}

pub(super) fn query(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    let (sql, values) = statement.into_parts();
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::Integers(_) | Value::Bytess(_) => unreachable!("columns are for another database"),
        };
        added.expect("plain values can be bound");
    }
    sqlx::query_with(sql, arguments)
}

pub(super) fn row(row: SqliteRow) -> Row {
    Row::Sqlite(row)
}
