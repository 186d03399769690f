//! What a database error means to the index's callers.

use gnudi_sql::{Class, class, reason};

use crate::IndexerError;

/// Why a statement failed inside a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// One item asks for what cannot be; the transaction goes on without it.
    Refused(IndexerError),
    /// The database is in trouble; the transaction is lost, with all its items.
    Broken(IndexerError),
}

impl From<gnudi_sql::Error> for Failure {
    fn from(error: gnudi_sql::Error) -> Self {
        Failure::Broken(error.into())
    }
}

impl From<gnudi_sql::Error> for IndexerError {
    /// The text names neither the database's address nor a value of a row.
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
