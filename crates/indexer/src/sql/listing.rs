//! The statements that page through metrics.
//!
//! A page begins behind its marker. What lies behind it, in the order (k1, k2, ..., id), is cut into pieces that follow
//! each other: first what equals the marker in all keys but the last, then what equals it in all but the last two, and so
//! on. In each piece the leading keys are fixed and the next one has a bound, so an index serves it without sorting or
//! skipping; the pieces are read one after the other until the page is full. NULLs get pieces of their own, since no
//! comparison finds them.

use std::sync::Arc;

use gnudi_model::{Metric, MetricId, MetricStatus};

use gnudi_sql::Value;

use super::{
    Dialect, SqlIndexer, Statement,
    metric::{COLUMNS, status_code},
    scope::push_scope,
};
use crate::{
    MetricFilter, MetricListing, Page, Result, SortKey,
    metric::{MetricSort, invalid_marker, order_of},
};

pub(super) async fn list(indexer: &SqlIndexer, listing: &MetricListing) -> Result<Vec<Arc<Metric>>> {
    let MetricListing { filter, page: Page { limit, marker: last, sorts } } = listing;
    let sorts = order_of(sorts);
    let pieces = match *last {
        None => vec![Piece { equal: Vec::new(), bound: None, from: 0 }],
        Some(id) => pieces_behind(&*marker(indexer, id, filter).await?, &sorts),
    };
    let mut page = Vec::new();
    for piece in &pieces {
        let missing = limit - page.len();
        if missing == 0 {
            break;
        }
        let query = statement(filter, piece, &sorts, missing, indexer.readers.dialect());
        let rows = indexer.readers.fetch_all(query).await?;
        for row in &rows {
            page.push(Arc::new(indexer.decode(row)?));
        }
    }
    Ok(page)
}

/// Any active metric will do, also one that the filter leaves out; and any other that has the listing's status.
async fn marker(indexer: &SqlIndexer, id: MetricId, filter: &MetricFilter) -> Result<Arc<Metric>> {
    let found = indexer.find(&[id], filter.status.unwrap_or(MetricStatus::Active)).await?.pop().flatten();
    found.ok_or_else(|| invalid_marker(id))
}

/// A part of the order whose leading keys have the marker's values.
struct Piece {
    equal: Vec<(SortKey, Key)>,
    /// Where the key after those begins.
    bound: Option<(SortKey, Bound)>,
    /// The first key that still orders the piece.
    from: usize,
}

/// A value of a key; `None` is NULL.
type Key = Option<Value>;

enum Bound {
    Above(Value),
    Below(Value),
    IsNull,
    IsNotNull,
}

fn pieces_behind(marker: &Metric, sorts: &[MetricSort]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (from, sort) in sorts.iter().enumerate().rev() {
        let bounds = match (value_of(marker, sort.key), sort.direction.nulls_first()) {
            (None, true) => vec![Bound::IsNotNull],
            (None, false) => vec![],
            (Some(value), nulls_first) => {
                let behind =
                    if sort.direction.is_ascending() { Bound::Above(value) } else { Bound::Below(value) };
                if nulls_first || !is_nullable(sort.key) { vec![behind] } else { vec![behind, Bound::IsNull] }
            }
        };
        let equal: Vec<_> = sorts[..from].iter().map(|sort| (sort.key, value_of(marker, sort.key))).collect();
        for bound in bounds {
            pieces.push(Piece { equal: equal.clone(), bound: Some((sort.key, bound)), from });
        }
    }
    pieces
}

fn statement(
    filter: &MetricFilter,
    piece: &Piece,
    sorts: &[MetricSort],
    limit: usize,
    dialect: Dialect,
) -> Statement {
    let MetricFilter { id, creator, name, unit, archive_policy_name, resource_id, status, scope } = filter;
    // Statuses are written out, so that the planner may use an index made for one of them.
    let status = status_code(status.unwrap_or(MetricStatus::Active));
    let mut query = Statement::new(dialect, format!("SELECT {COLUMNS} FROM metric WHERE status = {status}"));
    let texts =
        [("creator", creator), ("name", name), ("unit", unit), ("archive_policy_name", archive_policy_name)];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            query.push(format_args!(" AND {column} = ")).push_bind(wanted);
        }
    }
    if let Some(id) = id {
        query.push(" AND id = ").push_bind(id.0);
    }
    if let Some(id) = resource_id {
        query.push(" AND resource_id = ").push_bind(*id);
    }
    if let Some(scope) = scope {
        query.push(" AND ");
        push_scope(&mut query, scope);
    }
    for (key, value) in &piece.equal {
        let column = column_of(*key);
        match value {
            None => query.push(format_args!(" AND {column} IS NULL")),
            Some(value) => query.push(format_args!(" AND {column} = ")).push_bind(value.clone()),
        };
    }
    if let Some((key, bound)) = &piece.bound {
        let column = column_of(*key);
        match bound {
            Bound::IsNull => query.push(format_args!(" AND {column} IS NULL")),
            Bound::IsNotNull => query.push(format_args!(" AND {column} IS NOT NULL")),
            Bound::Above(value) => query.push(format_args!(" AND {column} > ")).push_bind(value.clone()),
            Bound::Below(value) => query.push(format_args!(" AND {column} < ")).push_bind(value.clone()),
        };
    }
    let order: Vec<String> = sorts[piece.from..].iter().map(|sort| order_term(*sort, dialect)).collect();
    query.push(format_args!(" ORDER BY {} LIMIT ", order.join(", ")));
    query.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query
}

fn order_term(sort: MetricSort, dialect: Dialect) -> String {
    let MetricSort { key, direction } = sort;
    dialect.order_term(column_of(key), direction.is_ascending(), is_nullable(key), direction.nulls_first())
}

const fn column_of(key: SortKey) -> &'static str {
    match key {
        SortKey::Id => "id",
        SortKey::Creator => "creator",
        SortKey::Name => "name",
        SortKey::Unit => "unit",
        SortKey::ArchivePolicyName => "archive_policy_name",
        SortKey::ResourceId => "resource_id",
        SortKey::Status => "status",
    }
}

const fn is_nullable(key: SortKey) -> bool {
    matches!(key, SortKey::Name | SortKey::Unit | SortKey::ResourceId)
}

fn value_of(metric: &Metric, key: SortKey) -> Key {
    match key {
        SortKey::Id => Some(metric.id.0.into()),
        SortKey::Creator => Some(metric.creator.as_str().into()),
        SortKey::Name => metric.name.as_deref().map(Into::into),
        SortKey::Unit => metric.unit.as_deref().map(Into::into),
        SortKey::ArchivePolicyName => Some(metric.archive_policy_name.as_str().into()),
        SortKey::ResourceId => metric.resource_id.map(Into::into),
        SortKey::Status => Some(status_code(metric.status).into()),
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{ArchivePolicy, Timestamp};
    use uuid::Uuid;

    use super::*;
    use crate::{ArchivePolicies, Metrics, NewMetric, SqliteOptions};

    async fn populated() -> (tempfile::TempDir, SqlIndexer) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
        let low = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).swap_remove(1);
        indexer.create_archive_policy(low).await.unwrap();
        let metrics = (0..2000u128)
            .map(|number| NewMetric {
                id: MetricId(Uuid::from_u128(number << 100 | number)),
                creator: format!("creator{}", number % 4),
                name: Some(format!("name{}", number % 50)),
                unit: None,
                archive_policy_name: "low".to_owned(),
                resource_id: None,
                created_at: Timestamp::EPOCH,
            })
            .collect();
        assert!(indexer.create_metrics(metrics).await.iter().all(Result::is_ok));
        indexer.close().await;
        // Opened anew, the planner knows the tables.
        (folder, SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap())
    }

    /// Every piece of the common listings is a search in an index, without a sort.
    #[tokio::test]
    async fn an_index_serves_every_piece() {
        let (_folder, indexer) = populated().await;
        let marker =
            indexer.find(&[MetricId(Uuid::from_u128(7 << 100 | 7))], MetricStatus::Active).await.unwrap();
        let marker = marker[0].as_ref().unwrap();
        let none = MetricFilter::default();
        let creator = MetricFilter { creator: Some("creator1".to_owned()), ..none.clone() };
        let name = MetricFilter { name: Some("name7".to_owned()), ..none.clone() };
        let both = MetricFilter { name: name.name.clone(), ..creator.clone() };
        let policy = MetricFilter { archive_policy_name: Some("low".to_owned()), ..none.clone() };
        let deleted = MetricFilter { status: Some(MetricStatus::Delete), ..none.clone() };
        for (filter, sorts, index) in [
            (&none, &[][..], "sqlite_autoindex_metric_1"),
            (&none, &["id:desc"], "sqlite_autoindex_metric_1"),
            (&creator, &[], "ix_metric_creator"),
            (&name, &[], "ix_metric_name"),
            (&both, &[], "ix_metric_name"),
            (&policy, &[], "ix_metric_policy"),
            (&none, &["name"], "ix_metric_name"),
            (&none, &["name:desc", "id:desc"], "ix_metric_name"),
            (&none, &["creator"], "ix_metric_creator"),
            (&deleted, &[], "ix_metric_deleted"),
        ] {
            let sorts: Vec<MetricSort> = sorts.iter().map(|sort| sort.parse().unwrap()).collect();
            let sorts = order_of(&sorts);
            let mut pieces = pieces_behind(marker, &sorts);
            pieces.push(Piece { equal: Vec::new(), bound: None, from: 0 });
            for piece in &pieces {
                let query = statement(filter, piece, &sorts, 10, Dialect::Sqlite);
                let plan = crate::sql::plan(&indexer, &query).await.join("; ");
                assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{}: {plan}", query.sql());
            }
        }
    }
}
