//! The index in a SQL database: `SQLite` today.
//!
//! Opening, the pool of readers, and what `SQLite` must be told (pragmas) are here; one file per noun has its statements,
//! `listing.rs` those that page through metrics. All writes go through the one task in `writer.rs`. What only `SQLite`
//! understands stays in this file, in `failure.rs` and in `migrations/sqlite`; another database needs those anew, a
//! savepoint around each INSERT of metrics where a failed statement ends the transaction, and `PostgreSQL` its own marks in
//! place of `?`.

mod archive_policy;
mod archive_policy_rule;
mod attribute;
mod failure;
mod filter;
mod interner;
mod listing;
mod metric;
mod migrations;
mod resource;
mod resource_type;
mod types;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Executor, Sqlite, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};
use tokio::time::{Instant, sleep};

use crate::{Indexer, IndexerError};
use failure::{indexer_error, is_busy};
use interner::Texts;
use types::{TypeCache, Types};
use writer::Writer;

/// Where the `SQLite` file lies and what it may use.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Created where absent; its folder must exist.
    pub path: PathBuf,
    /// How many reads run at once.
    pub readers_max: u32,
    /// How long a write waits for another process's.
    pub busy_timeout: Duration,
    /// Memory for pages, per connection.
    pub page_cache_bytes: u32,
    /// How large the file may grow; a write beyond it answers [`IndexerError::NoSpace`].
    pub bytes_max: Option<u64>,
    /// How many resources a filter's comparison may find to be looked up one by one; others are met in the listing's order.
    pub rows_rare_max: u32,
}

/// Finding a row by itself costs as much as passing over some 20 others.
const ROWS_RARE_MAX: u32 = 2000;

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            readers_max: 4,
            busy_timeout: Duration::from_secs(10),
            page_cache_bytes: 32 << 20,
            bytes_max: None,
            rows_rare_max: ROWS_RARE_MAX,
        }
    }
}

/// Why an index cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the index has schema version {found}, and this program knows versions up to {known}: run the program that wrote it, or a newer one"
    )]
    SchemaTooNew { found: i64, known: i64 },
    #[error("cannot open the index {path}: {reason}")]
    Database { path: String, reason: String },
}

impl OpenError {
    fn at(self, file: &Path) -> Self {
        match self {
            OpenError::Database { reason, .. } => {
                OpenError::Database { path: file.display().to_string(), reason }
            }
            too_new @ OpenError::SchemaTooNew { .. } => too_new,
        }
    }
}

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

/// The index in a SQL database.
#[derive(Debug)]
pub struct SqlIndexer {
    readers: SqlitePool,
    writer: Writer,
    texts: Arc<Texts>,
    types: TypeCache,
    rows_rare_max: u32,
}

impl SqlIndexer {
    /// Opens or creates the file, and brings its schema up to date.
    pub async fn open(options: &SqliteOptions) -> Result<Self, OpenError> {
        Self::open_inner(options).await.map_err(|error| error.at(&options.path))
    }

    async fn open_inner(options: &SqliteOptions) -> Result<Self, OpenError> {
        let connect = connect_options(options);
        let mut connection = connect_patiently(&connect, options.busy_timeout).await?;
        migrations::migrate(&mut connection).await?;
        refresh_statistics(&mut connection).await;
        let texts = Arc::<Texts>::default();
        let writer = Writer::start(connect.clone(), connection, texts.clone());
        let readers = SqlitePoolOptions::new()
            .max_connections(options.readers_max.max(1))
            .acquire_timeout(options.busy_timeout)
            .connect_with(connect.pragma("query_only", "ON"))
            .await?;
        Ok(SqlIndexer {
            readers,
            writer,
            texts,
            types: TypeCache::default(),
            rows_rare_max: options.rows_rare_max,
        })
    }

    /// The resource types as they are now.
    async fn types(&self) -> Result<Arc<Types>, IndexerError> {
        let version = types::version(&self.readers).await?;
        self.types_at(version).await
    }

    /// Those of this version, or later ones.
    async fn types_at(&self, version: i64) -> Result<Arc<Types>, IndexerError> {
        if let Some(types) = self.types.at(version) {
            return Ok(types);
        }
        let types = types::load(&self.readers).await?;
        self.types.keep(&types);
        Ok(types)
    }

    /// Finishes what was accepted and closes the file.
    pub async fn close(self) {
        self.writer.close().await;
        self.readers.close().await;
    }
}

impl Indexer for SqlIndexer {}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        OpenError::Database { path: String::new(), reason: indexer_error(&error).to_string() }
    }
}

fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
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
        .statement_cache_capacity(metric::STATEMENTS_MAX)
        .row_buffer_size(ROWS_BUFFERED_MAX)
        .disable_statement_logging();
    if let Some(bytes_max) = options.bytes_max {
        connect = connect.pragma("max_page_count", (bytes_max / u64::from(PAGE_BYTES)).max(1).to_string());
    }
    connect
}

/// A new file is made ready for its log under a lock that nobody waits for, so whoever comes second tries again.
async fn connect_patiently(
    connect: &SqliteConnectOptions,
    timeout: Duration,
) -> Result<Connection, sqlx::Error> {
    let deadline = Instant::now() + timeout;
    loop {
        match connect.connect().await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => sleep(BUSY_PAUSE).await,
            connected => return connected,
        }
    }
}

/// Has the planner learn how selective each index is, where tables have grown or shrunk tenfold since it last did. It
/// does without on a full disk.
async fn refresh_statistics(connection: &mut Connection) {
    // 0x10000 looks at all tables, 0x2 analyses those that need it. Other connections read statistics together with the
    // schema, which they do again when it changes.
    const REFRESH: &str = "PRAGMA optimize = 0x10002; \
        DROP VIEW IF EXISTS statistics_refreshed; CREATE VIEW statistics_refreshed AS SELECT 1";
    if let Err(error) = connection.execute(REFRESH).await {
        tracing::warn!(error = %indexer_error(&error), "the index's statistics were not refreshed");
    }
}

type Connection = SqliteConnection;
type Database = Sqlite;
type DatabaseRow = SqliteRow;
