//! What a database error means to the caller.

use sqlx::error::DatabaseError;

use crate::IndexerError;

/// `SQLITE_FULL`; also what a refused `write` for want of space becomes.
const SQLITE_FULL: &str = "13";
/// `SQLITE_IOERR_SHMSIZE`: no space to enlarge the WAL's index.
const SQLITE_IOERR_SHMSIZE: &str = "4874";

/// `SQLITE_BUSY`: another connection holds a lock.
const SQLITE_BUSY: &str = "5";

/// Why a statement failed inside a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// One item asks for what cannot be; the transaction goes on without it.
    Refused(IndexerError),
    /// The database is in trouble; the transaction is lost, with all its items.
    Broken(IndexerError),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Failure::Broken(indexer_error(&error))
    }
}

/// The text names neither the database's address nor a value of a row.
pub(super) fn indexer_error(error: &sqlx::Error) -> IndexerError {
    match error.as_database_error() {
        Some(database) if is_no_space(database) => IndexerError::NoSpace(database.message().to_owned()),
        Some(database) => IndexerError::Database(match database.code() {
            Some(code) => format!("{} (code {code})", database.message()),
            None => database.message().to_owned(),
        }),
        None => IndexerError::Database(error.to_string()),
    }
}

fn is_no_space(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some(SQLITE_FULL | SQLITE_IOERR_SHMSIZE))
}

pub(super) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

pub(super) fn is_foreign_key_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_foreign_key_violation)
}

pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(SQLITE_BUSY))
}
