//! Statements of the feed of changes: a row per transaction that changed something others may have cached.
//!
//! Write transactions are serialised across processes. A number is one more than the highest so far, so numbers are in
//! the order of commits, and a reader that has seen a number has seen all before it.

use uuid::Uuid;

use super::{Connection, Dialect, Row, SqlIndexer, Statement};
use crate::{Result, Touched};

/// Rows kept. A process that is further behind clears its caches.
const ROWS_KEPT: i64 = 10_000;
/// Older rows are removed only if they are more than this.
const ROWS_REMOVED_MIN: i64 = 500;
/// Rows per read.
const ROWS_READ_MAX: usize = 1000;

/// The changes of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Contiguous in the order of commits.
    pub number: i64,
    /// Random: another primary may give the number to another transaction with the same changes.
    pub transaction: i64,
    pub touched: Touched,
}

/// The column is called `process` since it had one id for all transactions of a process.
const SELECT: &str = "SELECT number, process, touched FROM index_change";

fn decode(row: &Row) -> Result<FeedEntry> {
    let (number, transaction) = (row.try_get(0)?, row.try_get(1)?);
    Ok(FeedEntry { number, transaction, touched: Touched::from_text(row.try_get(2)?) })
}

/// Appends a row, within the transaction that it describes.
pub(super) async fn append(connection: &mut Connection, touched: &Touched) -> Result<(), gnudi_sql::Error> {
    let transaction = Uuid::new_v4().as_u64_pair().0 as i64;
    let values = match connection.dialect() {
        Dialect::Postgres => "CAST(? AS BIGINT), CAST(? AS BYTEA)",
        _ => "?, ?",
    };
    let insert = format!(
        "INSERT INTO index_change (number, process, touched) \
         SELECT COALESCE(MAX(number), 0) + 1, {values} FROM index_change"
    );
    let insert = Statement::new(connection.dialect(), insert).bind(transaction);
    let insert = insert.bind(touched.to_text().into_bytes());
    connection.execute(insert).await.map(|_| ())
}

/// Removes old rows if there are enough of them.
pub(super) async fn prune(connection: &mut Connection) -> Result<(), gnudi_sql::Error> {
    let select = connection.statement("SELECT MIN(number), MAX(number) FROM index_change");
    let row = connection.fetch_one(select).await?;
    let (first, last): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
    if last - first >= ROWS_KEPT + ROWS_REMOVED_MIN {
        let delete =
            connection.statement("DELETE FROM index_change WHERE number <= ?").bind(last - ROWS_KEPT);
        connection.execute(delete).await?;
    }
    Ok(())
}

impl SqlIndexer {
    /// Whether other processes can write to the index.
    pub fn is_shared(&self) -> bool {
        self.readers.dialect().is_server()
    }

    /// The latest entry in the feed.
    pub async fn latest(&self) -> Result<FeedEntry> {
        let select = format!("{SELECT} ORDER BY number DESC LIMIT 1");
        let row = self.readers.fetch_optional(Statement::new(self.readers.dialect(), select)).await?;
        let none = || Ok(FeedEntry { number: 0, transaction: 0, touched: Touched::default() });
        row.map_or_else(none, |row| decode(&row))
    }

    /// Entries of the feed from this number on, in order, up to a limit. Missing entries were removed, or were
    /// lost when the database was restored.
    pub async fn entries_from(&self, number: i64) -> Result<Vec<FeedEntry>> {
        let select = format!("{SELECT} WHERE number >= ? ORDER BY number LIMIT {ROWS_READ_MAX}");
        let select = Statement::new(self.readers.dialect(), select).bind(number);
        self.readers.fetch_all(select).await?.iter().map(decode).collect()
    }

    /// Must be called if committed changes may have been lost: later ones use the same versions for other types.
    pub(crate) fn forget_types(&self) {
        self.types.forget();
        self.writer.forget_types();
    }
}
