//! Converts database errors for the index's callers.

use std::fmt::Display;

use gnudi_sql::{Class, class, reason};

use super::Row;
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

/// The error for an item, given by its kind and name, whose row cannot be read.
pub(super) fn damaged(item: impl Display, error: &dyn Display) -> IndexerError {
    IndexerError::DamagedItem { item: item.to_string(), reason: error.to_string() }
}

/// The text in a column of an item, given by its kind and name.
pub(super) fn text_of(item: impl Display, row: &Row, column: usize) -> Result<String, IndexerError> {
    row.try_get(column).map_err(|error| damaged(item, &error))
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
