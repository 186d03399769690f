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
    Connection, Connector,
    error::{is_io_error, reason},
    sqlite,
};

/// The log is checkpointed at about this many pages: rarely, since random keys touch the same pages again.
pub(crate) const CHECKPOINT_PAGES: u32 = 8192;
/// Beyond this size the log is checkpointed at once, whatever the estimate.
const LOG_BYTES_MAX: u64 = 2 * CHECKPOINT_PAGES as u64 * sqlite::PAGE_BYTES as u64;

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
        let Some(log) = &self.log else { return };
        self.changes += changes as u64;
        let is_long = || std::fs::metadata(log).is_ok_and(|log| log.len() > LOG_BYTES_MAX);
        if self.changes < self.due && !is_long() {
            return;
        }
        // Does not wait for readers; what they block is left to the next checkpoint.
        if let Some(pages) = self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await {
            self.due =
                (self.changes * u64::from(CHECKPOINT_PAGES) / pages.max(1)).clamp(CHANGES_MIN, CHANGES_MAX);
            self.changes = 0;
        }
    }

    /// Checkpoints as far as readers allow: the next transaction writes the log from its start again.
    pub async fn now(&mut self, connection: &mut Connection) {
        self.fold(connection, "PRAGMA wal_checkpoint(PASSIVE)").await;
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
