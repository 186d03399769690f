//! Deletes resources that match a filter.

use std::collections::HashMap;

use async_trait::async_trait;
use gnudi_model::{MetricId, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    DELETED_AT_ONCE_MAX,
    delete::delete_some,
    listing::{columns, common_tests, push_rows},
    row,
    row::{Attributes, decode},
};
use crate::{
    DeletedResources, Filter, Result, Touched,
    filter::{Condition, Scope},
    sql::{
        Connection, SqlIndexer, Statement,
        failure::Failure,
        filter::{Rows, check_values, is_driven, push_condition},
        id_at,
        writer::{Applied, Change, Context},
    },
};

/// Searches first, then deletes in small transactions, after checking that the filter still matches.
pub(super) async fn delete_matching(
    indexer: &SqlIndexer,
    resource_type: &str,
    filter: &Filter,
    now: Timestamp,
) -> Result<DeletedResources> {
    let types = indexer.types().await?;
    let stored = types.named(resource_type)?;
    let condition =
        Condition::read(filter, Scope { resource_type: &stored.resource_type, history: false, now })?;
    let mut query = Statement::new(indexer.readers.dialect(), "SELECT r.id");
    let common = common_tests(indexer, stored, Rows::Current, Some(&condition)).await?.tests;
    let columns = columns(Rows::Current, stored, &common);
    push_rows(&mut query, Rows::Current, stored, is_driven(columns, &condition, false));
    query.push(" AND ");
    push_condition(&mut query, columns, &condition, false);
    check_values(&query)?;
    let rows = indexer.readers.fetch_all(query.for_search()).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| id_at(row, 0)).collect::<Result<_, _>>()?;
    let mut deleted = DeletedResources::default();
    for ids in ids.chunks(DELETED_AT_ONCE_MAX) {
        let change = DeleteMatching {
            ids: ids.to_vec(),
            resource_type: resource_type.to_owned(),
            filter: filter.clone(),
            now,
        };
        for (id, metrics) in indexer.writer.change(change).await? {
            deleted.ids.push(id);
            deleted.metrics.extend(metrics);
        }
    }
    Ok(deleted)
}

struct DeleteMatching {
    ids: Vec<Uuid>,
    resource_type: String,
    filter: Filter,
    now: Timestamp,
}

#[async_trait]
impl Change for DeleteMatching {
    type Answer = HashMap<Uuid, Vec<MetricId>>;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<Self::Answer> {
        let types = context.types(connection).await.map_err(Failure::Broken)?;
        let stored = types.named(&self.resource_type).map_err(Failure::Refused)?;
        let scope = Scope { resource_type: &stored.resource_type, history: false, now: self.now };
        let condition = Condition::read(&self.filter, scope).map_err(Failure::Refused)?;
        let dialect = connection.dialect();
        let mut query = Statement::new(dialect, format!("SELECT {}", row::columns(dialect)));
        push_rows(&mut query, Rows::Current, stored, true);
        query.push(" AND r.id").push_among(self.ids.iter().copied());
        let mut ids = Vec::with_capacity(self.ids.len());
        // A filter of generic resources has no attributes: those of a damaged row do not matter.
        let read = if self.resource_type == GENERIC { Attributes::None } else { Attributes::All };
        for row in connection.fetch_all(query).await? {
            let found = context.damage.leave_out(decode(&row, &types, read, &context.texts));
            // Nothing is written yet.
            let found = found.map_err(Failure::Refused)?;
            ids.extend(found.filter(|found| condition.evaluate(found) == Some(true)).map(|found| found.id));
        }
        if ids.is_empty() {
            return Ok((HashMap::new(), Touched::default()));
        }
        let deleted = delete_some(connection, &types, &ids).await?;
        let metrics = deleted.values().flatten().copied();
        let touched = Touched::default().with_resources(deleted.keys().copied()).with_metrics(metrics);
        Ok((deleted, touched))
    }
}
