//! The index in a SQL database: `SQLite`, `PostgreSQL`, `MySQL` or `MariaDB`.
//!
//! This file opens the index; one file per noun has its statements, `listing.rs` those for pages of metrics,
//! `pieces.rs` the pagination. All writes of a process go through the one task in `writer.rs`, and those of several
//! processes are serialised. What only one database understands is in `gnudi_sql`, in `failure.rs` and in
//! `migrations/`; small differences use the dialect.

mod annotation;
mod archive_policy;
mod archive_policy_rule;
mod attribute;
mod damage;
mod decoding;
mod execute;
mod failure;
mod feed;
mod filter;
mod import_mark;
mod interner;
mod listing;
mod metric;
mod migrations;
mod pattern;
mod pieces;
mod resource;
mod resource_type;
mod scope;
mod types;
mod verify;
mod writer;

pub use feed::FeedEntry;
pub use verify::FileCheck;

use std::{path::Path, sync::Arc};

use gnudi_model::Fault;
use gnudi_sql::{
    Connection, Connector, DatabaseOptions, Dialect, Pool, Purpose, Row, Statement, reason, sqlite,
};
use uuid::Uuid;

use crate::{Indexer, Result};
use damage::Damage;
use interner::Texts;
use types::{TypeCache, Types};
use writer::{Context, Writer};

/// Maximum ids in a statement; shorter lists are padded to a power of two by repetition.
const IDS_NAMED_MAX: usize = 1024;

/// Why an index cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the index has schema version {found}, and this program knows versions up to {known}: run the program that wrote it, or a newer one"
    )]
    SchemaTooNew { found: i64, known: i64 },
    #[error(
        "the index has schema version {found}, of a program that was never released, and this program reads versions from {oldest} on: begin a new index"
    )]
    SchemaTooOld { found: i64, oldest: i64 },
    #[error(
        "the database holds tables of {program} ({tables}), and gnudi needs a database of its own: create an empty one, and name it here"
    )]
    OtherProgram { program: &'static str, tables: String },
    #[error(
        "a pooler of connections to PostgreSQL shares sessions between them, and gnudi needs sessions of its own: set `pool_mode = session` if it is PgBouncer, or name the server here"
    )]
    SharedSessions,
    /// `path` of a server is its URL without the password.
    #[error("cannot open the index {path}: {reason}")]
    Database { path: String, reason: String },
}

impl OpenError {
    fn at(mut self, place: &str) -> Self {
        if let OpenError::Database { path, .. } = &mut self {
            place.clone_into(path);
        }
        self
    }
}

/// The index in a SQL database.
#[derive(Debug)]
pub struct SqlIndexer {
    readers: Arc<Pool>,
    writer: Writer,
    texts: Arc<Texts>,
    types: TypeCache,
    damage: Arc<Damage>,
    rows_rare_max: u32,
    cluster_id: Uuid,
}

impl SqlIndexer {
    /// Opens the index, creating a missing file or schema, and migrates the schema. Several processes may do so
    /// concurrently.
    pub async fn open(options: impl Into<DatabaseOptions>) -> Result<Self, OpenError> {
        let options = options.into();
        Self::open_inner(&options).await.map_err(|error| error.at(&options.place()))
    }

    /// Whether the database of a server has an index; does not create one. `None` if it does not respond.
    ///
    /// # Errors
    /// If another program uses the database.
    pub async fn is_prepared(options: impl Into<DatabaseOptions>) -> Result<Option<bool>, OpenError> {
        let options = options.into();
        let Ok(mut connection) = Connector::new(&options).connect(Purpose::Read).await else {
            return Ok(None);
        };
        let prepared = migrations::is_prepared(&mut connection).await;
        connection.close().await;
        prepared.map_err(|error| error.at(&options.place()))
    }

    async fn open_inner(options: &DatabaseOptions) -> Result<Self, OpenError> {
        let connector = Connector::new(options);
        let mut connection = match options {
            DatabaseOptions::Sqlite(options) => {
                sqlite::connect_patiently(&connector, options.busy_timeout).await?
            }
            DatabaseOptions::Server(_) => connector.connect(Purpose::Migrate).await?,
        };
        let dialect = connection.dialect();
        if connector.shares_sessions(&mut connection).await? {
            return Err(OpenError::SharedSessions);
        }
        let process = connector.process(&mut connection).await?;
        let prepared = async {
            migrations::migrate(&mut connection).await?;
            migrations::cluster_id(&mut connection).await
        };
        let cluster_id = tokio::select! {
            prepared = prepared => prepared?,
            error = connector.loss(process) => return Err(error.into()),
        };
        sqlite::refresh_statistics(&mut connection).await;
        let texts = Arc::<Texts>::default();
        let connection = if dialect.is_server() {
            connection.close().await;
            None
        } else {
            Some(connection)
        };
        let space = match options {
            DatabaseOptions::Sqlite(options) => options.space.clone(),
            DatabaseOptions::Server(_) => None,
        };
        let readers = Arc::new(Pool::open(options).await?);
        let damage = Arc::<Damage>::default();
        let context = Context::new(texts.clone(), damage.clone(), readers.clone(), space);
        let writer = Writer::start(connector, connection, context);
        Ok(SqlIndexer {
            readers,
            writer,
            texts,
            types: TypeCache::default(),
            damage,
            rows_rare_max: options.rows_rare_max(),
            cluster_id,
        })
    }

    /// Copies the `SQLite` index `from`, which a server may have open, to the new file `to`, and syncs it: a consistent
    /// snapshot.
    pub async fn copy_file(from: &Path, to: &Path) -> Result<(), OpenError> {
        let failed = |reason: String| OpenError::Database { path: from.display().to_string(), reason };
        sqlite::copy(from, to).await.map_err(|error| failed(reason(&error)))?;
        std::fs::File::open(to).and_then(|file| file.sync_all()).map_err(|error| failed(error.to_string()))
    }

    /// Must be called before the `SQLite` index `path` is opened, by its only process: makes durable what a commit
    /// whose sync failed has left in the page cache.
    pub fn write_log_again(path: &Path) -> std::io::Result<()> {
        sqlite::write_log_again(path)
    }

    /// Whether an index file that was complete once has the wrong length; `None` if it is correct.
    pub fn file_fault(path: &Path) -> std::io::Result<Option<String>> {
        sqlite::file_fault(path)
    }

    /// The cluster id: created at random with the index, and the same for all processes.
    pub fn cluster_id(&self) -> Uuid {
        self.cluster_id
    }

    /// The resource types as they are now.
    async fn types(&self) -> Result<Arc<Types>> {
        let row = self.readers.fetch_one(self.readers.statement(types::SELECT_VERSION)).await?;
        self.types_at(row.try_get(0)?).await
    }

    /// The resource types at this version or a later one.
    async fn types_at(&self, version: i64) -> Result<Arc<Types>> {
        if let Some(types) = self.types.at(version) {
            return Ok(types);
        }
        let types = types::decode(&self.readers.fetch_all(self.readers.statement(types::SELECT_ALL)).await?)?;
        self.types.keep(&types);
        Ok(types)
    }

    /// Completes accepted writes and closes the file or the connections; later calls fail.
    pub async fn close(&self) {
        self.readers.close().await;
        // Last, so that no reader blocks the checkpoint of SQLite's log.
        self.writer.close().await;
    }
}

impl Indexer for SqlIndexer {
    fn fault(&self) -> Option<Fault> {
        self.writer.fault()
    }

    fn damaged(&self) -> u64 {
        self.damage.count()
    }

    fn left_out(&self) -> u64 {
        self.damage.left_out()
    }
}

impl From<gnudi_sql::Error> for OpenError {
    fn from(error: gnudi_sql::Error) -> Self {
        OpenError::Database { path: String::new(), reason: reason(&error) }
    }
}

/// A statement that ends with a test whether an expression is one of the ids.
fn among(
    dialect: Dialect,
    statement: impl Into<String>,
    ids: impl ExactSizeIterator<Item = Uuid> + Clone,
) -> Statement {
    let mut query = Statement::new(dialect, statement);
    query.push_among(ids);
    query
}

/// The values, padded to a power of two by repetition, so that there are few different statements.
fn filled_up<T>(values: &[T]) -> impl Iterator<Item = &T> {
    values.iter().chain(values.last().into_iter().cycle()).take(values.len().next_power_of_two())
}

/// The id in a column.
fn id_at(row: &Row, column: usize) -> Result<Uuid, gnudi_sql::Error> {
    id_of(row.try_get(column)?)
}

/// The id in a column; `None` for NULL.
fn optional_id_at(row: &Row, column: usize) -> Result<Option<Uuid>, gnudi_sql::Error> {
    row.try_get::<Option<&[u8]>>(column)?.map(id_of).transpose()
}

fn id_of(bytes: &[u8]) -> Result<Uuid, gnudi_sql::Error> {
    Uuid::from_slice(bytes).map_err(|error| gnudi_sql::Error::Decode(error.into()))
}

/// The query plan of a statement in `SQLite`.
#[cfg(test)]
async fn plan(indexer: &SqlIndexer, statement: &Statement) -> Vec<String> {
    let explained = format!("EXPLAIN QUERY PLAN {}", statement.sql());
    let rows = indexer.readers.fetch_all(Statement::new(Dialect::Sqlite, explained)).await.unwrap();
    rows.iter().map(|row| row.try_get(3).unwrap()).collect()
}
