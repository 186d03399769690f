//! Executes single statements. Where a violated constraint means that the caller's change is refused, as for a name
//! that exists, the database's error becomes that refusal.

use async_trait::async_trait;
use gnudi_sql::{is_foreign_key_violation, is_unique_violation};

use super::{
    Connection, Statement,
    failure::Failure,
    writer::{Applied, Change, Context},
};
use crate::{IndexerError, Touched};

/// What violations of constraints mean; `None` where the statement cannot violate that one.
#[derive(Clone, Default)]
pub(super) struct Refusals {
    pub(super) unique: Option<IndexerError>,
    pub(super) foreign_key: Option<IndexerError>,
}

/// Executes a statement that may violate constraints, and returns the number of matched rows.
pub(super) async fn execute_checked(
    connection: &mut Connection,
    statement: Statement,
    refusals: Refusals,
) -> Result<u64, Failure> {
    let error = match connection.try_execute(statement).await {
        Ok(rows) => return Ok(rows),
        Err(error) => error,
    };
    let refusal = if is_unique_violation(&error) {
        refusals.unique
    } else if is_foreign_key_violation(&error) {
        refusals.foreign_key
    } else {
        None
    };
    Err(refusal.map_or_else(|| error.into(), Failure::Refused))
}

/// A change that is one statement; the answer is the number of matched rows.
pub(super) struct Execute {
    pub(super) statement: Statement,
    pub(super) refusals: Refusals,
    /// The refusal if no row matches; `None` if that is not an error.
    pub(super) missing: Option<IndexerError>,
    /// What other processes must invalidate if a row matches.
    pub(super) touched: Touched,
}

impl Execute {
    /// A statement that is never refused, and invalidates nothing.
    pub(super) fn new(statement: Statement) -> Self {
        Execute { statement, refusals: Refusals::default(), missing: None, touched: Touched::default() }
    }
}

#[async_trait]
impl Change for Execute {
    type Answer = u64;

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<u64> {
        let statement = self.statement.clone();
        let rows = match &self.refusals {
            // Without a savepoint, which takes two round trips.
            Refusals { unique: None, foreign_key: None } => connection.execute(statement).await?,
            refusals => execute_checked(connection, statement, refusals.clone()).await?,
        };
        match &self.missing {
            _ if rows > 0 => Ok((rows, self.touched.clone())),
            Some(missing) => Err(Failure::Refused(missing.clone())),
            None => Ok((rows, Touched::default())),
        }
    }
}
