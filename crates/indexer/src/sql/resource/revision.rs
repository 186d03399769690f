//! Removes old former revisions.

use async_trait::async_trait;
use gnudi_model::Timestamp;

use super::delete::{delete_values, push_among, values_of};
use crate::{
    Touched,
    sql::{
        Connection, Dialect, Statement,
        failure::Failure,
        writer::{Applied, Change, Context},
    },
};

/// Removes former revisions that ended before a time, the earliest first, up to a limit; the answer is their number.
pub(super) struct RemoveRevisions {
    pub before: Timestamp,
    pub limit: usize,
}

#[async_trait]
impl Change for RemoveRevisions {
    type Answer = usize;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<usize> {
        let dialect = connection.dialect();
        let rows = connection.fetch_all(select(dialect, self.before, self.limit)).await?;
        if rows.is_empty() {
            return Ok((0, Touched::default()));
        }
        let types = context.types(connection).await.map_err(Failure::Broken)?;
        let values = values_of(&rows, &types)?;
        delete_values(connection, "resource_history_value", "revision", values).await?;
        let revisions = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<i64>, _>>()?;
        connection.execute(delete(dialect, &revisions)).await?;
        // Former revisions are not cached.
        Ok((rows.len(), Touched::default()))
    }
}

fn select(dialect: Dialect, before: Timestamp, limit: usize) -> Statement {
    let mut query = Statement::new(
        dialect,
        "SELECT id, revision, type_number, attributes FROM resource_history WHERE revision_end < ",
    );
    query.push_bind(before.0).push(" ORDER BY revision_end, revision LIMIT ");
    query.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query
}

pub(super) fn delete(dialect: Dialect, revisions: &[i64]) -> Statement {
    let mut query = Statement::new(dialect, "DELETE FROM resource_history WHERE revision");
    push_among(&mut query, revisions);
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlIndexer, SqliteOptions};

    #[tokio::test]
    async fn removal_scans_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let indexer = SqlIndexer::open(&SqliteOptions::new(folder.path().join("index"))).await.unwrap();
        for (query, search) in [
            (select(Dialect::Sqlite, Timestamp::EPOCH, 10), "ix_resource_history_end (revision_end<?)"),
            (delete(Dialect::Sqlite, &[1, 2, 3]), "INTEGER PRIMARY KEY (rowid=?)"),
        ] {
            let plan = crate::sql::plan(&indexer, &query).await;
            assert!(plan.len() == 1 && plan[0].ends_with(search), "{plan:?}");
        }
    }
}
