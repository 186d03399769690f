//! Statements that delete resources, and values left by deleted attributes.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use gnudi_model::{MetricId, Timestamp};
use gnudi_sql::Value;
use uuid::Uuid;

use super::{revision, value::sortable};
use crate::{
    IndexerError, Result, Touched,
    resource::check_revision,
    sql::{
        Connection, Dialect, IDS_NAMED_MAX, Row, Statement, among,
        failure::Failure,
        filled_up, id_at,
        types::Types,
        writer::{Applied, Change, Context},
    },
};

/// Maximum values in a statement; shorter lists are padded to a power of two by repetition.
const VALUES_NAMED_MAX: usize = 256;

/// Maximum former revisions in memory: a resource may have any number of them.
const REVISIONS_READ_MAX: usize = 8_192;

/// Deletes resources with their history, and marks their metrics as deleted; returns these metrics, per resource. Fails
/// only if the transaction is lost.
pub(in crate::sql) async fn delete(
    connection: &mut Connection,
    context: &Context,
    ids: &[Uuid],
) -> Result<Vec<Result<Vec<MetricId>>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let types = context.types(connection).await?;
    let mut outcomes = Vec::with_capacity(ids.len());
    for ids in ids.chunks(IDS_NAMED_MAX) {
        let mut deleted = delete_some(connection, &types, ids).await?;
        outcomes.extend(ids.iter().map(|id| deleted.remove(id).ok_or(IndexerError::NoSuchResource(*id))));
    }
    Ok(outcomes)
}

pub(super) async fn delete_some(
    connection: &mut Connection,
    types: &Types,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Vec<MetricId>>, gnudi_sql::Error> {
    let mut deleted = HashMap::new();
    let dialect = connection.dialect();
    let naming = |statement: &str| among(dialect, statement, ids.iter().copied());
    let rows = connection
        .fetch_all(naming("SELECT id, number, type_number, attributes FROM resource WHERE id"))
        .await?;
    for row in &rows {
        deleted.insert(id_at(row, 0)?, Vec::new());
    }
    if deleted.is_empty() {
        return Ok(deleted);
    }
    delete_values(connection, "resource_value", "resource_number", values_of(&rows, types)?).await?;
    delete_history(connection, types, ids, REVISIONS_READ_MAX).await?;
    connection.execute(naming("DELETE FROM resource_annotation WHERE resource_id")).await?;
    let metrics = "SELECT resource_id, id FROM metric WHERE status = 0 AND resource_id";
    for row in connection.fetch_all(naming(metrics)).await? {
        deleted.entry(id_at(&row, 0)?).or_default().push(MetricId(id_at(&row, 1)?));
    }
    for metrics in deleted.values_mut() {
        metrics.sort_unstable();
    }
    let mark = "UPDATE metric SET status = 1, resource_id = NULL WHERE status = 0 AND resource_id";
    connection.execute(naming(mark)).await?;
    connection.execute(naming("DELETE FROM resource WHERE id")).await?;
    Ok(deleted)
}

/// Deletes the former revisions of resources with their values, so many at a time.
async fn delete_history(
    connection: &mut Connection,
    types: &Types,
    ids: &[Uuid],
    read_max: usize,
) -> Result<(), gnudi_sql::Error> {
    let dialect = connection.dialect();
    let naming = |statement: &str| among(dialect, statement, ids.iter().copied());
    loop {
        let mut select =
            naming("SELECT id, revision, type_number, attributes FROM resource_history WHERE id");
        select.push(" LIMIT ").push_bind(read_max as i64);
        let rows = connection.fetch_all(select).await?;
        delete_values(connection, "resource_history_value", "revision", values_of(&rows, types)?).await?;
        if rows.len() < read_max {
            if !rows.is_empty() {
                connection.execute(naming("DELETE FROM resource_history WHERE id")).await?;
            }
            return Ok(());
        }
        let revisions = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<i64>, _>>()?;
        for revisions in revisions.chunks(IDS_NAMED_MAX) {
            connection.execute(revision::delete(dialect, revisions)).await?;
        }
    }
}

/// Attribute, value and owner of the stored values of rows (id, owner, type, attributes). Values of a damaged row stay:
/// their owner is gone, so they are invisible.
pub(super) fn values_of(
    rows: &[Row],
    types: &Types,
) -> Result<HashSet<(i64, Vec<u8>, i64)>, gnudi_sql::Error> {
    let mut values = HashSet::new();
    for row in rows {
        let (owner, type_number): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let Some(stored) = types.numbered(type_number) else { continue };
        let found = match row.try_get::<&str>(3) {
            Ok(json) => stored.values_in(json).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(found) => values.extend(
                found.iter().filter_map(|(attribute, value)| Some((*attribute, sortable(value)?, owner))),
            ),
            Err(error) => tracing::warn!(%error, "a deleted resource leaves its values behind"),
        }
    }
    Ok(values)
}

pub(super) async fn delete_values(
    connection: &mut Connection,
    table: &str,
    owner: &str,
    values: HashSet<(i64, Vec<u8>, i64)>,
) -> Result<(), gnudi_sql::Error> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable();
    for values in values.chunk_by(|a, b| a.0 == b.0) {
        for values in values.chunks(VALUES_NAMED_MAX) {
            let query = delete_values_statement(connection.dialect(), table, owner, values);
            connection.execute(query).await?;
        }
    }
    Ok(())
}

/// For values of the first one's attribute, so that the whole key is used in the search.
fn delete_values_statement(
    dialect: Dialect,
    table: &str,
    owner: &str,
    values: &[(i64, Vec<u8>, i64)],
) -> Statement {
    let mut query = Statement::new(dialect, format!("DELETE FROM {table} WHERE attribute_number = "));
    query.push_bind(values[0].0).push(" AND ");
    if dialect != Dialect::Sqlite {
        query.push(owner);
        push_among(&mut query, &values.iter().map(|(.., owner)| *owner).collect::<Vec<_>>());
        return query;
    }
    query.push(format_args!("(value, {owner}) IN (SELECT * FROM (VALUES "));
    let mut before = "(";
    for (_, value, owner) in filled_up(values) {
        query.push(before).push_bind(value.clone()).push(", ").push_bind(*owner).push(")");
        before = ", (";
    }
    query.push("))");
    query
}

/// Appends a test whether an expression is one of the numbers.
pub(super) fn push_among(query: &mut Statement, numbers: &[i64]) {
    if query.dialect == Dialect::Postgres {
        let numbers = numbers.iter().copied().map(Some).collect();
        query.push(" = ANY(").push_bind(Value::IntegerColumn(numbers)).push(")");
        return;
    }
    let mut before = " IN (";
    for number in filled_up(numbers) {
        query.push(before).push_bind(*number);
        before = ", ";
    }
    query.push(")");
}

/// Deletes a resource, if its current revision started then.
pub(super) struct DeleteOfRevision {
    pub(super) id: Uuid,
    pub(super) start: Timestamp,
}

#[async_trait]
impl Change for DeleteOfRevision {
    type Answer = Vec<MetricId>;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<Vec<MetricId>> {
        let select = connection.statement("SELECT revision_start FROM resource WHERE id = ?").bind(self.id);
        let Some(row) = connection.fetch_optional(select).await? else {
            return Err(Failure::Refused(IndexerError::NoSuchResource(self.id)));
        };
        let current: i64 = row.try_get(0)?;
        check_revision(self.id, Timestamp(current), Some(self.start)).map_err(Failure::Refused)?;
        let mut deleted = delete(connection, context, &[self.id]).await.map_err(Failure::Broken)?;
        let metrics = deleted.pop().expect("one result for each resource").map_err(Failure::Refused)?;
        let touched = Touched::default().with_resources([self.id]).with_metrics(metrics.iter().copied());
        Ok((metrics, touched))
    }
}

/// Removes values of deleted attributes.
pub(super) struct SweepValues {
    pub(super) limit: usize,
}

#[async_trait]
impl Change for SweepValues {
    type Answer = usize;

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<usize> {
        let mut left = self.limit;
        while left > 0 {
            let next =
                connection.statement("SELECT attribute_number FROM resource_attribute_deleted LIMIT 1");
            let Some(next) = connection.fetch_optional(next).await? else { break };
            let attribute: i64 = next.try_get(0)?;
            for (table, owner) in
                [("resource_value", "resource_number"), ("resource_history_value", "revision")]
            {
                left -= sweep(connection, table, owner, attribute, left).await?;
            }
            if left > 0 {
                let swept = connection
                    .statement("DELETE FROM resource_attribute_deleted WHERE attribute_number = ?")
                    .bind(attribute);
                connection.execute(swept).await?;
            }
        }
        Ok((self.limit - left, Touched::default()))
    }
}

async fn sweep(
    connection: &mut Connection,
    table: &str,
    owner: &str,
    attribute: i64,
    limit: usize,
) -> Result<usize, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut delete =
        Statement::new(connection.dialect(), format!("DELETE FROM {table} WHERE attribute_number = "));
    delete.push_bind(attribute);
    if connection.dialect() == Dialect::Mysql {
        delete.push(format_args!(" ORDER BY {owner} LIMIT ")).push_bind(limit);
    } else {
        delete.push(format_args!(
            " AND (value, {owner}) IN (SELECT value, {owner} FROM {table} WHERE attribute_number = "
        ));
        delete
            .push_bind(attribute)
            .push(format_args!(" ORDER BY value, {owner} LIMIT "))
            .push_bind(limit)
            .push(")");
    }
    let swept = connection.execute(delete).await?;
    Ok(usize::try_from(swept).expect("a statement was told its limit"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::{Attribute, AttributeKind, AttributeValue, ResourceType};
    use gnudi_sql::{Connector, DatabaseOptions, Purpose};

    use super::*;
    use crate::{
        NewResource, NewRevision, ResourceChange, ResourceTypes as _, Resources as _, SqlIndexer,
        SqliteOptions,
        sql::{metric::named_statement, resource::row},
    };

    #[tokio::test]
    async fn a_long_history_is_deleted_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("index"));
        let indexer = SqlIndexer::open(&options).await.unwrap();
        let kind = AttributeKind::String { min_length: 0, max_length: 255 };
        let attributes = BTreeMap::from([("host".into(), Attribute { kind, required: false, fill: None })]);
        indexer.create_resource_type(ResourceType { name: "instance".into(), attributes }).await.unwrap();
        let ids = [Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3)];
        for id in ids {
            let new = NewResource::new(id, "instance", "me", Timestamp::EPOCH);
            assert!(indexer.create_resources(vec![new]).await[0].is_ok());
            for second in 1..=4 {
                let host = AttributeValue::String(format!("h{second}").into());
                let change = ResourceChange {
                    attributes: BTreeMap::from([("host".into(), host)]),
                    revision: NewRevision::IfChanged,
                    now: Timestamp::from_secs(second),
                    ..ResourceChange::default()
                };
                indexer.update_resource("instance", id, change).await.unwrap();
            }
        }
        let connector = Connector::new(&DatabaseOptions::from(&options));
        let mut connection = connector.connect(Purpose::Write).await.unwrap();
        let types = indexer.types().await.unwrap();
        // Of the first two, parts that do and do not fill up the last one; the third one keeps what it has.
        for (ids, read_max, expected) in [(&ids[..1], 3, (8, 6)), (&ids[1..2], 2, (4, 3))] {
            delete_history(&mut connection, &types, ids, read_max).await.unwrap();
            let counts = "SELECT (SELECT COUNT(*) FROM resource_history), \
                (SELECT COUNT(*) FROM resource_history_value)";
            let counts = connection.fetch_one(connection.statement(counts)).await.unwrap();
            let counts: (i64, i64) = (counts.try_get(0).unwrap(), counts.try_get(1).unwrap());
            assert_eq!(counts, expected, "{read_max}");
        }
    }

    /// Each uses an index with all its key columns.
    #[tokio::test]
    async fn statements_that_name_many_scan_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let indexer = SqlIndexer::open(&SqliteOptions::new(folder.path().join("index"))).await.unwrap();
        let ids = [Uuid::nil(), Uuid::max()];
        let values = [(1, vec![0], 1), (1, vec![1], 2)];
        let naming = |statement: &str| among(Dialect::Sqlite, statement, ids.iter().copied());
        for (query, search) in [
            (
                named_statement(Dialect::Sqlite, &[(ids[0], "a"), (ids[1], "b")]),
                "uniq_metric_resource_name (resource_id=? AND name=?)",
            ),
            (
                row::metrics_of_statement(Dialect::Sqlite, &ids, None),
                "uniq_metric_resource_name (resource_id=?)",
            ),
            (
                delete_values_statement(Dialect::Sqlite, "resource_value", "resource_number", &values),
                "PRIMARY KEY (attribute_number=? AND value=? AND resource_number=?)",
            ),
            (
                delete_values_statement(Dialect::Sqlite, "resource_history_value", "revision", &values),
                "PRIMARY KEY (attribute_number=? AND value=? AND revision=?)",
            ),
            (
                naming("DELETE FROM resource_annotation WHERE resource_id"),
                "ix_resource_annotation (resource_id=?)",
            ),
            (naming("DELETE FROM resource_history WHERE id"), "ix_resource_history_id (id=?)"),
        ] {
            let plan = crate::sql::plan(&indexer, &query).await;
            assert!(plan.iter().any(|step| step.starts_with("SEARCH") && step.ends_with(search)), "{plan:?}");
        }
    }
}
