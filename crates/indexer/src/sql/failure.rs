//! Converts database errors for the index's callers.

use gnudi_sql::{Class, class, reason};

use crate::IndexerError;

/// Why a statement failed inside a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// One item is invalid; the transaction continues without it.
    Refused(IndexerError),
    /// The database failed; the transaction is lost, with all its items.
    Broken(IndexerError),
}

impl From<gnudi_sql::Error> for Failure {
    fn from(error: gnudi_sql::Error) -> Self {
        Failure::Broken(error.into())
    }
}

impl From<gnudi_sql::Error> for IndexerError {
    /// The text contains neither the database's address nor values of rows.
    fn from(error: gnudi_sql::Error) -> Self {
        let reason = reason(&error);
        match class(&error) {
            Class::NoSpace => IndexerError::NoSpace(reason),
            Class::Unavailable => IndexerError::Unavailable(reason),
            Class::Contended => IndexerError::Contended(reason),
            Class::Other => IndexerError::Database(reason),
        }
    }
}
