//! Checkpoints `SQLite`'s write-ahead log into its file.
//!
//! `SQLite`'s automatic checkpoint at a commit does not report failures. Here the writer checkpoints between
//! transactions. After an I/O error no more changes are accepted: it is unknown what the disk has kept, and the next
//! sync may report success.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use crate::{
    Connection, Connector, Dialect, Statement,
    error::{is_io_error, reason},
    sqlite,
};

/// The log is checkpointed at about this many pages: rarely, since random keys touch the same pages again.
pub(crate) const CHECKPOINT_PAGES: u32 = 8192;
/// Beyond this size the log is checkpointed at once, whatever the estimate.
const LOG_BYTES_MAX: u64 = 2 * CHECKPOINT_PAGES as u64 * sqlite::PAGE_BYTES as u64;
/// Each time that the log grows by this size it is emptied, for which the writer waits for readers.
const LOG_GROWTH_BYTES: u64 = 4 * LOG_BYTES_MAX;
/// How long it waits for them.
const READERS_WAIT_MAX_MS: i64 = 1000;

/// Changes before the first checkpoint, which shows how many pages a change takes.
const CHANGES_FIRST: u64 = 1000;
const CHANGES_MIN: u64 = 100;
const CHANGES_MAX: u64 = 100_000;

/// Decides when to checkpoint; never for servers.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// `SQLite`'s log file.
    log: Option<PathBuf>,
    /// Changes since the last checkpoint.
    changes: u64,
    /// Changes after which the next one is due.
    due: u64,
    /// The log is emptied beyond this size.
    empty_at: u64,
    failed: CheckpointFailure,
}

/// Why a checkpoint has failed; empty while none has.
pub type CheckpointFailure = Arc<OnceLock<String>>;

impl Checkpoints {
    pub fn new(connector: &Connector) -> Self {
        let Connector::Sqlite(options) = connector else { return Self::default() };
        Self {
            log: Some(sqlite::log_path(options.get_filename())),
            changes: 0,
            due: CHANGES_FIRST,
            empty_at: LOG_GROWTH_BYTES,
            failed: CheckpointFailure::default(),
        }
    }

    /// Rejects changes after a failed checkpoint.
    pub fn check(&self) -> Result<(), String> {
        self.failed.get().cloned().map_or(Ok(()), Err)
    }

    /// What [`Checkpoints::check`] tells, for others.
    pub fn failure(&self) -> CheckpointFailure {
        self.failed.clone()
    }

    /// Call after a transaction with this many changes.
    pub async fn after(&mut self, connection: &mut Connection, changes: usize) {
        if self.log.is_none() {
            return;
        }
        self.changes += changes as u64;
        if self.changes < self.due && self.log_bytes() <= LOG_BYTES_MAX {
            return;
        }
        // Does not wait for readers; what they block is left to the next checkpoint.
        if let Some(pages) = self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await {
            self.due =
                (self.changes * u64::from(CHECKPOINT_PAGES) / pages.max(1)).clamp(CHANGES_MIN, CHANGES_MAX);
            self.changes = 0;
        }
        self.empty_if_grown(connection).await;
    }

    /// Checkpoints as far as readers allow: the next transaction writes the log from its start again.
    pub async fn now(&mut self, connection: &mut Connection) {
        self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await;
        self.empty_if_grown(connection).await;
    }

    /// Empties a log far beyond its usual size. While readers overlap, each needs more of it than the checkpoint may copy,
    /// and it is never written from its start again. Here the writer waits for those that read; others may begin, and
    /// once all is copied they read the file alone. If one reads for longer, the next attempt follows when the log has
    /// grown as much again.
    async fn empty_if_grown(&mut self, connection: &mut Connection) {
        if self.log_bytes() <= self.empty_at {
            return;
        }
        let Ok(usual_ms) = wait_for_locks(connection, READERS_WAIT_MAX_MS).await else { return };
        self.fold(connection, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        if let Err(error) = wait_for_locks(connection, usual_ms).await {
            tracing::warn!(error = reason(&error), "the index waits only a second for locks");
        }
        self.empty_at = self.log_bytes() + LOG_GROWTH_BYTES;
    }

    fn log_bytes(&self) -> u64 {
        self.log.as_ref().and_then(|log| std::fs::metadata(log).ok()).map_or(0, |log| log.len())
    }

    /// Checkpoints all of the log, empties it and closes the connection.
    pub async fn finish(mut self, mut connection: Connection) {
        self.fold(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        if self.failed.get().is_some() {
            // Closing the last connection would checkpoint once more and delete the log; leave that to the next start.
            std::mem::forget(connection);
        } else {
            connection.close().await;
        }
    }

    /// The pages in the log; `None` without a log, and if this checkpoint or one before failed.
    async fn fold(&mut self, connection: &mut Connection, pragma: &'static str) -> Option<u64> {
        if self.log.is_none() || self.failed.get().is_some() {
            return None;
        }
        let folded = connection.fetch_one(connection.statement(pragma)).await;
        match folded.and_then(|row| row.try_get::<i64>(1)) {
            Ok(pages) => Some(pages.max(0) as u64),
            Err(error) if is_io_error(&error) => {
                let reason = format!(
                    "a checkpoint of its write-ahead log failed, and changes are refused until a restart: {}",
                    reason(&error)
                );
                tracing::error!("the index: {reason}");
                // Only the first failure comes here.
                self.failed.set(reason).ok();
                None
            }
            Err(error) => {
                // Mostly out of space: nothing is lost, and the next transaction tries again.
                tracing::warn!(error = reason(&error), "the index's write-ahead log was not checkpointed");
                None
            }
        }
    }
}

/// Sets how long a connection waits for locks; returns how long it did.
async fn wait_for_locks(connection: &mut Connection, limit_ms: i64) -> Result<i64, sqlx::Error> {
    let before =
        connection.fetch_one(connection.statement("PRAGMA busy_timeout")).await?.try_get::<i64>(0)?;
    let set = Statement::once(Dialect::Sqlite, format!("PRAGMA busy_timeout = {limit_ms}"));
    connection.fetch_one(set).await?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, thread, time::Duration};

    use tempfile::TempDir;

    use super::*;
    use crate::{Purpose, SqliteOptions};

    const LOG_BYTES: u64 = 1 << 20;

    fn reader(path: &Path) -> rusqlite::Connection {
        rusqlite::Connection::open(path).unwrap()
    }

    /// Reads the current state; later reads see the same until the end.
    fn begin(reader: &rusqlite::Connection) -> i64 {
        reader.execute_batch("BEGIN").unwrap();
        count(reader)
    }

    fn count(reader: &rusqlite::Connection) -> i64 {
        reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn end(reader: &rusqlite::Connection) {
        reader.execute_batch("COMMIT").unwrap();
    }

    async fn insert(connection: &mut Connection, checkpoints: &mut Checkpoints) {
        let insert = connection.statement("INSERT INTO t VALUES (randomblob(10000))");
        connection.execute(insert).await.unwrap();
        checkpoints.now(connection).await;
    }

    #[tokio::test]
    async fn a_log_that_overlapping_readers_have_kept_growing_is_emptied() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("index");
        let connector = Connector::Sqlite(Box::new(sqlite::connect_options(&SqliteOptions::new(&path))));
        let mut connection = connector.connect(Purpose::Write).await.unwrap();
        connection.execute(connection.statement("CREATE TABLE t (b BLOB)")).await.unwrap();
        let mut checkpoints = Checkpoints { empty_at: LOG_BYTES, ..Checkpoints::new(&connector) };

        let (mut old, mut new) = (reader(&path), reader(&path));
        begin(&old);
        while checkpoints.log_bytes() <= LOG_BYTES - 50_000 {
            insert(&mut connection, &mut checkpoints).await;
            begin(&new);
            end(&old);
            std::mem::swap(&mut old, &mut new);
        }

        // A reader that goes on keeps its state, and the log.
        let seen = count(&old);
        while checkpoints.empty_at == LOG_BYTES {
            insert(&mut connection, &mut checkpoints).await;
        }
        assert_eq!(count(&old), seen);
        assert!(checkpoints.log_bytes() > LOG_BYTES);

        checkpoints.empty_at = LOG_BYTES;
        let ending = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            end(&old);
        });
        insert(&mut connection, &mut checkpoints).await;
        assert_eq!(checkpoints.log_bytes(), 0);
        ending.join().unwrap();
        assert!(count(&new) > seen);
        assert_eq!(wait_for_locks(&mut connection, 0).await.unwrap(), 10_000, "the usual limit is back");
        checkpoints.finish(connection).await;
    }
}
