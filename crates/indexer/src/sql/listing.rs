//! Statements for pages of metrics.

use std::sync::Arc;

use gnudi_model::{Metric, MetricId, MetricStatus};

use gnudi_sql::Value;

use super::{
    Dialect, SqlIndexer, Statement,
    damage::full_page,
    metric::{COLUMNS, decode_listed, status_code},
    pattern::push_matches,
    pieces::Piece,
    scope::push_scope,
};
use crate::{
    MetricFilter, MetricListing, MetricMarker, Page, Result, SortKey,
    metric::{MetricSort, invalid_marker, order_of},
};

pub(super) async fn list(indexer: &SqlIndexer, listing: &MetricListing) -> Result<Vec<Arc<Metric>>> {
    let MetricListing { filter, page: Page { limit, marker: last, sorts } } = listing;
    let sorts = order_of(sorts);
    let pieces = match last {
        None => vec![Piece::default()],
        Some(MetricMarker::Id(id)) => pieces_behind(&*marker(indexer, *id, filter).await?, &sorts),
        Some(MetricMarker::Listed(metric)) => pieces_behind(metric, &sorts),
    };
    let mut page = Vec::new();
    for piece in &pieces {
        let missing = limit - page.len();
        if missing == 0 {
            break;
        }
        let dialect = indexer.readers.dialect();
        let fetch = |rows_max| fetch(indexer, statement(filter, piece, &sorts, rows_max, dialect));
        page.append(&mut full_page(missing, fetch).await?);
    }
    Ok(page)
}

/// The metrics, and how many damaged rows are left out.
async fn fetch(indexer: &SqlIndexer, query: Statement) -> Result<(Vec<Arc<Metric>>, usize)> {
    let rows = indexer.readers.fetch_all(query.for_search()).await?;
    let metrics = decode_listed(&rows, &indexer.texts, &indexer.damage)?;
    let left_out = rows.len() - metrics.len();
    Ok((metrics, left_out))
}

/// Any active metric of the filter's scope, even one that does not match the rest of the filter, or one with the listing's
/// status.
async fn marker(indexer: &SqlIndexer, id: MetricId, filter: &MetricFilter) -> Result<Arc<Metric>> {
    let found = indexer.find(&[id], filter.status.unwrap_or(MetricStatus::Active)).await?.pop().flatten();
    let metric = found.ok_or_else(|| invalid_marker(id))?;
    if filter.scope.is_some() {
        let (status, scope) = (Some(metric.status), filter.scope.clone());
        let itself = MetricFilter { id: Some(id), status, scope, ..MetricFilter::default() };
        let query = statement(&itself, &Piece::default(), &order_of(&[]), 1, indexer.readers.dialect());
        if fetch(indexer, query).await?.0.is_empty() {
            return Err(invalid_marker(id));
        }
    }
    Ok(metric)
}

fn pieces_behind(marker: &Metric, sorts: &[MetricSort]) -> Vec<Piece<Value>> {
    let key = |sort: &MetricSort| (value_of(marker, sort.key), sort.direction, is_nullable(sort.key));
    Piece::behind(&sorts.iter().map(key).collect::<Vec<_>>())
}

fn statement(
    filter: &MetricFilter,
    piece: &Piece<Value>,
    sorts: &[MetricSort],
    limit: usize,
    dialect: Dialect,
) -> Statement {
    let MetricFilter { id, creator, name, name_like, unit, archive_policy_name, resource_id, status, scope } =
        filter;
    // Statuses are literals, so that the planner can use partial indexes.
    let status = status_code(status.unwrap_or(MetricStatus::Active));
    let mut query = Statement::new(dialect, format!("SELECT {COLUMNS} FROM metric WHERE status = {status}"));
    let texts =
        [("creator", creator), ("name", name), ("unit", unit), ("archive_policy_name", archive_policy_name)];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            query.push(format_args!(" AND {column} = ")).push_bind(wanted);
        }
    }
    if let Some(pattern) = name_like {
        query.push(" AND ");
        push_matches(&mut query, "name", true, pattern);
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
    let push_key = |query: &mut Statement, at: usize| {
        query.push(sorts[at].key.name());
    };
    piece.push(&mut query, push_key, |query, _, value| {
        query.push_bind(value.clone());
    });
    let order: Vec<String> = sorts[piece.from()..].iter().map(|sort| order_term(*sort, dialect)).collect();
    query.push(format_args!(" ORDER BY {} LIMIT ", order.join(", ")));
    query.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query
}

fn order_term(sort: MetricSort, dialect: Dialect) -> String {
    let MetricSort { key, direction } = sort;
    dialect.order_term(key.name(), direction.is_ascending(), is_nullable(key), direction.nulls_first())
}

const fn is_nullable(key: SortKey) -> bool {
    matches!(key, SortKey::Name | SortKey::Unit | SortKey::ResourceId)
}

/// `None` is NULL.
fn value_of(metric: &Metric, key: SortKey) -> Option<Value> {
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
    use crate::{ArchivePolicies, Metrics, NewMetric, Pattern, SqliteOptions};

    async fn populated() -> (tempfile::TempDir, SqlIndexer) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let indexer = SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap();
        let low = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).swap_remove(1);
        indexer.create_archive_policy(low).await.unwrap();
        let metrics = (0..2000u128)
            .map(|number| {
                let id = MetricId(Uuid::from_u128(number << 100 | number));
                let creator = format!("creator{}", number % 4);
                let name = Some(format!("name{}", number % 50));
                NewMetric { name, ..NewMetric::new(id, &creator, "low", Timestamp::EPOCH) }
            })
            .collect();
        assert!(indexer.create_metrics(metrics).await.iter().all(Result::is_ok));
        indexer.close().await;
        // Opened again, the planner has statistics.
        (folder, SqlIndexer::open(&SqliteOptions::new(&path)).await.unwrap())
    }

    /// Every piece of the common listings is an index search without a sort.
    #[tokio::test]
    async fn an_index_serves_every_piece() {
        let (_folder, indexer) = populated().await;
        let marker =
            indexer.find(&[MetricId(Uuid::from_u128(7 << 100 | 7))], MetricStatus::Active).await.unwrap();
        let marker = marker[0].as_ref().unwrap();
        let none = MetricFilter::default();
        let creator = MetricFilter { creator: Some("creator1".to_owned()), ..none.clone() };
        let name = MetricFilter { name: Some("name7".to_owned()), ..none.clone() };
        let like = MetricFilter { name_like: Pattern::read("%ame7%"), ..none.clone() };
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
            (&like, &["name"], "ix_metric_name"),
            (&none, &["name"], "ix_metric_name"),
            (&none, &["name:desc", "id:desc"], "ix_metric_name"),
            (&none, &["creator"], "ix_metric_creator"),
            (&deleted, &[], "ix_metric_deleted"),
        ] {
            let sorts: Vec<MetricSort> = sorts.iter().map(|sort| sort.parse().unwrap()).collect();
            let sorts = order_of(&sorts);
            let mut pieces = pieces_behind(marker, &sorts);
            pieces.push(Piece::default());
            for piece in &pieces {
                let query = statement(filter, piece, &sorts, 10, Dialect::Sqlite);
                let plan = crate::sql::plan(&indexer, &query).await.join("; ");
                assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{}: {plan}", query.sql());
            }
        }
    }
}
