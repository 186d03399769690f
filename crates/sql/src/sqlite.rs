//! `SQLite`: opening files, pragmas, copies and statistics.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    Arguments as _, ConnectOptions as _, Connection as _, Sqlite,
    query::Query,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::time::{Instant, sleep};

use crate::{
    Connection, Connector, Purpose, Statement, Value,
    checkpoint::CHECKPOINT_PAGES,
    connection::STATEMENTS_MAX,
    error::{is_busy, reason},
    options::SqliteOptions,
};

pub(crate) use crate::Row::Sqlite as row;

/// `SQLite`'s page size; [`SqliteOptions::bytes_max`] is rounded down to whole pages.
pub(crate) const PAGE_BYTES: u32 = 4096;
/// The log file is truncated to this size after a checkpoint.
const LOG_BYTES_MAX: u32 = CHECKPOINT_PAGES * PAGE_BYTES;

/// Rows of each index sampled for the planner's statistics: enough to tell a creator's metrics from a name's among a
/// million, in a fraction of a second.
const STATISTICS_ROWS_MAX: u32 = 100_000;

/// Pause before a locked file is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// How long a copy waits for a short lock.
const COPY_TIMEOUT: Duration = Duration::from_mins(1);

/// Rows buffered between a connection's thread and the reader.
const ROWS_BUFFERED_MAX: usize = 1024;

pub(crate) fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    let mut connect = SqliteConnectOptions::new()
        .filename(&options.path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        // Every commit is synced: a metric answered with 201 survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(options.busy_timeout)
        .analysis_limit(STATISTICS_ROWS_MAX)
        .statement_cache_capacity(STATEMENTS_MAX)
        .row_buffer_size(ROWS_BUFFERED_MAX)
        .disable_statement_logging();
    for (name, value) in pragmas(options) {
        connect = connect.pragma(name, value);
    }
    if let Some(bytes_max) = options.bytes_max {
        connect = connect.pragma("max_page_count", (bytes_max / u64::from(PAGE_BYTES)).max(1).to_string());
    }
    connect
}

/// Pragmas for all connections.
pub(crate) fn pragmas(options: &SqliteOptions) -> [(&'static str, String); 4] {
    [
        ("cache_size", format!("-{}", options.page_cache_bytes / 1024)),
        // The writer runs the checkpoints (`checkpoint.rs`).
        ("wal_autocheckpoint", "0".to_owned()),
        ("journal_size_limit", LOG_BYTES_MAX.to_string()),
        ("temp_store", "MEMORY".to_owned()),
    ]
}

/// Copies the database `from`, which others may be writing to, to the new file `to`: a consistent snapshot.
pub async fn copy(from: &Path, to: &Path) -> Result<(), sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(from)
        .create_if_missing(false)
        .busy_timeout(COPY_TIMEOUT)
        .disable_statement_logging();
    let mut connection = options.connect().await?;
    let copied =
        sqlx::query("VACUUM INTO ?").bind(to.to_string_lossy().into_owned()).execute(&mut connection).await;
    connection.close().await?;
    copied.map(|_| ())
}

/// Whether a file that was complete once has the wrong length. The header is
/// <https://sqlite.org/fileformat2.html#the_database_header>.
pub fn file_fault(path: &Path) -> io::Result<Option<String>> {
    const HEADER_BYTES: usize = 100;
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some("is missing".to_owned())),
        file => file?,
    };
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Some("is empty".to_owned()));
    }
    let mut header = [0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Ok(Some(format!("is cut short: {length} bytes are left")));
    }
    file.read_exact(&mut header)?;
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let wanted = page_bytes * u64::from(number(28));
    // The length in the header is valid if it was written with the last change. Pages in the log may be missing in the
    // file.
    let is_told = number(24) == number(92);
    let has_log = std::fs::metadata(log_path(path)).is_ok_and(|log| log.len() > 0);
    let is_short = is_told && !has_log && length < wanted;
    Ok(is_short.then(|| format!("is cut short: {length} of {wanted} bytes are left")))
}

/// Rewrites the log of a file that nobody has open, and syncs it. A commit whose sync failed may exist only in the page
/// cache, which Linux marks as clean: `SQLite` would treat it as durable and build on it.
pub fn write_log_again(path: &Path) -> io::Result<()> {
    const PIECE_BYTES: usize = 1 << 20;
    let log = match File::options().read(true).write(true).open(log_path(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        log => log?,
    };
    let length = log.metadata()?.len();
    let mut piece = vec![0; PIECE_BYTES];
    for start in (0..length).step_by(PIECE_BYTES) {
        let piece = &mut piece[..(length - start).min(PIECE_BYTES as u64) as usize];
        log.read_exact_at(piece, start)?;
        log.write_all_at(piece, start)?;
    }
    log.sync_data()
}

/// The path of a file's log.
pub fn log_path(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// A new file is switched to WAL mode under a lock without a timeout, so a concurrent opener must retry.
pub async fn connect_patiently(connector: &Connector, timeout: Duration) -> Result<Connection, sqlx::Error> {
    let deadline = Instant::now() + timeout;
    loop {
        match connector.connect(Purpose::Migrate).await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => sleep(BUSY_PAUSE).await,
            connected => return connected,
        }
    }
}

/// Updates the planner's statistics if tables have grown or shrunk tenfold. Skipped if the disk is full. Servers do
/// this themselves.
pub async fn refresh_statistics(connection: &mut Connection) {
    // 0x10000 checks all tables, 0x2 analyses those that need it. Other connections reload statistics together with the
    // schema, so the schema is changed, too.
    const REFRESH: &str = "PRAGMA optimize = 0x10002; \
        DROP VIEW IF EXISTS statistics_refreshed; CREATE VIEW statistics_refreshed AS SELECT 1";
    if connection.dialect().is_server() {
        return;
    }
    if let Err(error) = connection.run(REFRESH).await {
        tracing::warn!(error = reason(&error), "the index's statistics were not refreshed");
    }
}

pub(crate) fn query(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    let is_kept = statement.is_kept;
    let (sql, values) = statement.into_parts();
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::IntegerColumn(_) | Value::BytesColumn(_) => {
                unreachable!("columns are for another database")
            }
        };
        added.expect("plain values can be bound");
    }
    sqlx::query_with(sql, arguments).persistent(is_kept)
}
