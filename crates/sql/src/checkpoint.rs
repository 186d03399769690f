//! Folding `SQLite`'s log into its file.
//!
//! `SQLite` would do so by itself at a commit, and tell nobody whether it could. Here the writer does it between two
//! transactions, and one that meets an I/O error is the last: what the disk has kept is not known then, and it may report
//! success the next time.

use std::path::PathBuf;

use crate::{
    Connection, Connector,
    error::{is_io_error, reason},
    sqlite,
};

/// The log is folded into the file when it has about so many pages: rarely, since random keys touch the same pages again.
pub(crate) const CHECKPOINT_PAGES: u32 = 8192;
/// Beyond it the log is folded at once, whatever is expected of the changes.
const LOG_BYTES_MAX: u64 = 2 * CHECKPOINT_PAGES as u64 * sqlite::PAGE_BYTES as u64;

/// How many changes precede the first checkpoint, which tells how many pages a change takes.
const CHANGES_FIRST: u64 = 1000;
const CHANGES_MIN: u64 = 100;
const CHANGES_MAX: u64 = 100_000;

/// When the log is folded; for servers never.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// `SQLite`'s log.
    log: Option<PathBuf>,
    /// Since the last checkpoint.
    changes: u64,
    /// After how many changes the next one is due.
    due: u64,
    failed: Option<String>,
}

impl Checkpoints {
    pub fn new(connector: &Connector) -> Self {
        let Connector::Sqlite(options) = connector else { return Self::default() };
        Self {
            log: Some(sqlite::log_path(options.get_filename())),
            changes: 0,
            due: CHANGES_FIRST,
            failed: None,
        }
    }

    /// Refuses changes once a checkpoint has failed.
    pub fn check(&self) -> Result<(), String> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// To be called after a transaction with so many changes.
    pub async fn after(&mut self, connection: &mut Connection, changes: usize) {
        let Some(log) = &self.log else { return };
        self.changes += changes as u64;
        let is_long = || std::fs::metadata(log).is_ok_and(|log| log.len() > LOG_BYTES_MAX);
        if self.failed.is_some() || (self.changes < self.due && !is_long()) {
            return;
        }
        // Without waiting for readers; what they hold up is folded the next time.
        if let Some(pages) = self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await {
            self.due =
                (self.changes * u64::from(CHECKPOINT_PAGES) / pages.max(1)).clamp(CHANGES_MIN, CHANGES_MAX);
            self.changes = 0;
        }
    }

    /// Folds the log as far as readers allow: the next transaction writes it from its start again.
    pub async fn now(&mut self, connection: &mut Connection) {
        if self.log.is_some() && self.failed.is_none() {
            self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await;
        }
    }

    /// Folds all of the log, empties it and closes the connection.
    pub async fn finish(mut self, mut connection: Connection) {
        if self.log.is_some() && self.failed.is_none() {
            self.fold(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        }
        if self.failed.is_some() {
            // The last connection to be closed would fold the log once more, and remove it. It is left to the next start.
            std::mem::forget(connection);
        } else {
            connection.close().await;
        }
    }

    /// How many pages the log had; `None` where it could not be folded.
    async fn fold(&mut self, connection: &mut Connection, pragma: &'static str) -> Option<u64> {
        let folded = connection.fetch_one(connection.statement(pragma)).await;
        match folded.and_then(|row| row.try_get::<i64>(1)) {
            Ok(pages) => Some(pages.max(0) as u64),
            Err(error) if is_io_error(&error) => {
                let reason = format!(
                    "folding its log into its file failed, and no changes are taken any more until a restart: {}",
                    reason(&error)
                );
                tracing::error!("the index: {reason}");
                self.failed = Some(reason);
                None
            }
            Err(error) => {
                // No space, mostly: nothing is lost, and the next group tries again.
                tracing::warn!(error = reason(&error), "the index's log was not folded into its file");
                None
            }
        }
    }
}
