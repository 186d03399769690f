//! Statements for metrics: multi-row, in few different shapes, so that the database prepares each once.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use gnudi_model::{ArchivePolicy, Metric, MetricId, MetricStatus, Resource, Text, Timestamp};
use gnudi_sql::{Value, is_foreign_key_violation, is_unique_violation, reason};
use uuid::Uuid;

use super::{
    Connection, Dialect, IDS_NAMED_MAX, Row, SqlIndexer, Statement, among,
    damage::Damage,
    execute::{Refusals, execute_checked},
    failure::Failure,
    filled_up, id_at,
    interner::Texts,
    listing, optional_id_at,
    scope::count_statement,
    writer::{Applied, Change, Context, Work},
};
use crate::{
    ArchivePolicies, Creators, IndexerError, MetricListing, MetricMove, Metrics, NewMetric, NewNamedMetric,
    Result, Touched, metric::named_metric_already_exists,
};

/// Maximum rows of an INSERT; each number of rows is a statement of its own.
const ROWS_INSERTED_MAX: usize = 64;
/// The same as [`IDS_NAMED_MAX`] for names of resources' metrics.
const NAMES_LOOKED_UP_MAX: usize = 512;
/// The same as [`ROWS_INSERTED_MAX`] for full names, which may be long.
const WHOLE_NAMES_INSERTED_MAX: usize = 16;
/// The same as [`ROWS_INSERTED_MAX`] where one statement takes any number of rows.
const COLUMNS_ROWS_MAX: usize = 2048;
/// How often a metric may get another policy while it is read with its policy.
const POLICY_READS_MAX: usize = 10;

/// The columns for [`decode`], in order.
pub(super) const COLUMNS: &str =
    "id, creator, name, unit, archive_policy_name, resource_id, status, created_at";

pub(super) const fn status_code(status: MetricStatus) -> i64 {
    match status {
        MetricStatus::Active => 0,
        MetricStatus::Delete => 1,
    }
}

/// A metric to create.
#[derive(Debug)]
pub(super) struct NewRow {
    pub(super) metric: Arc<Metric>,
    whole_name: Option<String>,
}

#[async_trait]
impl Metrics for SqlIndexer {
    async fn create_metrics(&self, mut metrics: Vec<NewMetric>) -> Vec<Result<Arc<Metric>>> {
        let whole_names = metrics.iter_mut().map(|new| new.whole_name.take()).collect::<Vec<_>>();
        let Texts { labels, names } = &*self.texts;
        let metric = |new: &NewMetric| new.metric(|text| labels.intern(text), |name| names.intern(name));
        let metrics: Vec<_> = metrics.iter().map(|new| Arc::new(metric(new))).collect();
        let rows = metrics.iter().zip(whole_names);
        let rows = rows.map(|(metric, whole_name)| NewRow { metric: metric.clone(), whole_name }).collect();
        let outcomes = self.writer.bulk(rows, Work::CreateMetrics).await;
        metrics.into_iter().zip(outcomes).map(|(metric, outcome)| outcome.map(|()| metric)).collect()
    }

    async fn metrics(&self, ids: &[MetricId]) -> Result<Vec<Option<Arc<Metric>>>> {
        self.find(ids, MetricStatus::Active).await
    }

    async fn named_metrics(&self, names: &[(Uuid, &str)]) -> Result<Vec<Option<Arc<Metric>>>> {
        let mut found = HashMap::with_capacity(names.len());
        for names in names.chunks(NAMES_LOOKED_UP_MAX) {
            for row in &self.readers.fetch_all(named_statement(self.readers.dialect(), names)).await? {
                let metric = Arc::new(decode(row, &self.texts)?);
                found.insert((metric.resource_id, metric.name.clone().unwrap_or_default()), metric);
            }
        }
        let find =
            |(resource, name): &(Uuid, &str)| found.get(&(Some(*resource), Text::from(*name))).cloned();
        Ok(names.iter().map(find).collect())
    }

    async fn whole_names(&self, ids: &[MetricId]) -> Result<Vec<Option<String>>> {
        let mut found = HashMap::new();
        for ids in ids.chunks(IDS_NAMED_MAX) {
            let select = "SELECT metric_id, whole_name FROM metric_whole_name WHERE metric_id";
            let query = among(self.readers.dialect(), select, ids.iter().map(|id| id.0));
            for row in &self.readers.fetch_all(query).await? {
                found.insert(MetricId(id_at(row, 0)?), row.try_get::<&str>(1)?.to_owned());
            }
        }
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    async fn list_metrics(&self, listing: &MetricListing) -> Result<Vec<Arc<Metric>>> {
        listing::list(self, listing).await
    }

    async fn count_metrics(&self, creators: Option<&Creators>) -> Result<u64> {
        let count = count_statement(self.readers.dialect(), creators).for_search();
        let counted = self.readers.fetch_all(count).await?;
        Ok(counted.first().map_or(Ok(0), |row| row.try_get::<i64>(0))?.cast_unsigned())
    }

    async fn current_metric(&self, id: MetricId) -> Result<Option<(Arc<Metric>, Arc<ArchivePolicy>)>> {
        for _ in 0..POLICY_READS_MAX {
            let found = self.find(&[id], MetricStatus::Active).await?.pop().flatten();
            let Some(metric) = found else { return Ok(None) };
            // Between both reads the metric may get another policy, and the old one may be deleted.
            if let Some(policy) = self.archive_policy(&metric.archive_policy_name).await? {
                return Ok(Some((metric, policy)));
            }
        }
        let reason = "its archive policy does not exist".to_owned();
        Err(IndexerError::DamagedMetric { id, reason })
    }

    async fn move_metric(&self, id: MetricId, archive_policy_name: &str) -> Result<Arc<Metric>> {
        self.writer.change(MoveMetric(id, archive_policy_name.to_owned())).await
    }

    async fn metric_moves(&self, limit: usize) -> Result<Vec<MetricMove>> {
        let text = "SELECT id, metric_id FROM metric_move ORDER BY id LIMIT ";
        let mut select = Statement::new(self.readers.dialect(), text);
        select.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.readers.fetch_all(select).await?;
        let decode = |row: &Row| Ok(MetricMove { id: id_at(row, 0)?, metric: MetricId(id_at(row, 1)?) });
        rows.iter().map(decode).collect()
    }

    async fn forget_moves(&self, moves: &[MetricMove]) -> Result<()> {
        self.writer.change(ForgetMoves(moves.iter().map(|moved| moved.id).collect())).await
    }

    async fn delete_metrics(&self, ids: &[MetricId]) -> Vec<Result<()>> {
        self.writer.bulk(ids.to_vec(), Work::DeleteMetrics).await
    }

    async fn deleted_metrics(&self, after: Option<MetricId>, limit: usize) -> Result<Vec<MetricId>> {
        let marked = Statement::new(self.readers.dialect(), "SELECT id FROM metric WHERE status = 1");
        self.ids_behind(marked, after, limit).await
    }

    async fn expunge_metrics(&self, ids: &[MetricId]) -> Result<()> {
        self.writer.change(ExpungeMetrics(ids.to_vec())).await
    }
}

impl SqlIndexer {
    /// Metrics by id that are active or have the status, one result each, in order.
    pub(super) async fn find(
        &self,
        ids: &[MetricId],
        status: MetricStatus,
    ) -> Result<Vec<Option<Arc<Metric>>>> {
        let mut found = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(IDS_NAMED_MAX) {
            let status = status_code(status);
            let select =
                format!("SELECT {COLUMNS} FROM metric WHERE (status = 0 OR status = {status}) AND id");
            let query = among(self.readers.dialect(), select, ids.iter().map(|id| id.0));
            for row in &self.readers.fetch_all(query).await? {
                let metric = decode(row, &self.texts)?;
                found.insert(metric.id, Arc::new(metric));
            }
        }
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    /// Up to `limit` of the metrics that a condition selects, by id, behind `after`.
    pub(super) async fn ids_behind(
        &self,
        mut select: Statement,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>> {
        if let Some(after) = after {
            select.push(" AND id > ").push_bind(after.0);
        }
        select.push(" ORDER BY id LIMIT ").push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.readers.fetch_all(select).await?;
        rows.iter().map(|row| Ok(MetricId(id_at(row, 0)?))).collect()
    }
}

/// A new metric of a resource, with the same creator.
pub(super) fn of_resource(
    resource: &Resource,
    name: &str,
    new: &NewNamedMetric,
    now: Timestamp,
    texts: &Texts,
) -> Metric {
    let NewNamedMetric { id, unit, archive_policy_name, whole_name: _ } = new;
    Metric {
        id: *id,
        creator: resource.creator.clone(),
        name: Some(texts.names.intern(name)),
        unit: unit.as_deref().map(|unit| texts.labels.intern(unit)),
        archive_policy_name: texts.labels.intern(archive_policy_name),
        resource_id: Some(resource.id),
        status: MetricStatus::Active,
        created_at: now,
    }
}

/// Decodes a row of [`COLUMNS`].
pub(super) fn decode(row: &Row, texts: &Texts) -> Result<Metric> {
    let id = MetricId(id_at(row, 0)?);
    decode_rest(id, row, texts).map_err(|error| IndexerError::DamagedMetric { id, reason: reason(&error) })
}

/// Decodes rows of [`COLUMNS`]; damaged ones are left out.
pub(super) fn decode_listed(rows: &[Row], texts: &Texts, damage: &Damage) -> Result<Vec<Arc<Metric>>> {
    let listed = |row: &Row| damage.leave_out(decode(row, texts).map(|metric| Some(Arc::new(metric))));
    rows.iter().filter_map(|row| listed(row).transpose()).collect()
}

fn decode_rest(id: MetricId, row: &Row, texts: &Texts) -> Result<Metric, gnudi_sql::Error> {
    let Texts { labels, names } = texts;
    Ok(Metric {
        id,
        creator: labels.intern(row.try_get(1)?),
        name: row.try_get::<Option<&str>>(2)?.map(|name| names.intern(name)),
        unit: row.try_get::<Option<&str>>(3)?.map(|unit| labels.intern(unit)),
        archive_policy_name: labels.intern(row.try_get(4)?),
        resource_id: optional_id_at(row, 5)?,
        status: match row.try_get::<i64>(6)? {
            0 => MetricStatus::Active,
            _ => MetricStatus::Delete,
        },
        created_at: Timestamp(row.try_get(7)?),
    })
}

pub(super) fn named_statement(dialect: Dialect, names: &[(Uuid, &str)]) -> Statement {
    let mut query = Statement::new(dialect, "");
    match dialect {
        Dialect::Postgres => {
            let resources = names.iter().map(|(resource, _)| Some(resource.as_bytes().to_vec())).collect();
            let called = names.iter().map(|(_, name)| Some(name.as_bytes().to_vec())).collect();
            query
                .push(format_args!("SELECT {COLUMNS} FROM UNNEST("))
                .push_bind(Value::BytesColumn(resources));
            query.push(", ").push_bind(Value::BytesColumn(called));
            query.push(
                ") AS wanted (resource, called) JOIN metric ON resource_id = resource AND name = called",
            );
        }
        Dialect::Sqlite => {
            let mut before = "WITH wanted (resource, called) AS (VALUES (";
            for (resource, name) in filled_up(names) {
                query.push(before).push_bind(*resource).push(", ").push_bind(*name);
                before = "), (";
            }
            // CROSS JOIN forces the order: names first, then each by the index.
            query.push(format_args!(
                ")) SELECT {COLUMNS} FROM wanted CROSS JOIN metric ON resource_id = resource AND name = called"
            ));
        }
        Dialect::Mysql => {
            query.push(format_args!("SELECT {COLUMNS} FROM metric WHERE (resource_id, name) IN ("));
            let mut before = "(";
            for (resource, name) in filled_up(names) {
                query.push(before).push_bind(*resource).push(", ").push_bind(*name);
                before = "), (";
            }
            query.push(")) AND status = 0");
            return query;
        }
    }
    query.push(" WHERE status = 0");
    query
}

/// Inserts metrics, one result each; of conflicting ones the first wins.
pub(super) async fn insert(
    connection: &mut Connection,
    rows: &[NewRow],
) -> Result<Vec<Result<()>>, gnudi_sql::Error> {
    let metrics: Vec<_> = rows.iter().map(|row| row.metric.clone()).collect();
    let outcomes = insert_metrics(connection, &metrics).await?;
    let created = rows.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
    let whole_names: Vec<_> =
        created.filter_map(|(row, _)| Some((row.metric.id, row.whole_name.as_deref()?))).collect();
    insert_whole_names(connection, &whole_names).await?;
    Ok(outcomes)
}

/// Inserts the full names of new metrics.
pub(super) async fn insert_whole_names(
    connection: &mut Connection,
    whole_names: &[(MetricId, &str)],
) -> Result<(), gnudi_sql::Error> {
    for rows in whole_names.chunks(WHOLE_NAMES_INSERTED_MAX) {
        let mut insert = Statement::new(connection.dialect(), "");
        insert.push_insert(
            "metric_whole_name",
            &["metric_id", "whole_name"],
            rows,
            |values, (id, whole_name)| {
                values.extend([id.0.into(), (*whole_name).into()]);
            },
        );
        connection.execute(insert).await?;
    }
    Ok(())
}

async fn insert_metrics(
    connection: &mut Connection,
    metrics: &[Arc<Metric>],
) -> Result<Vec<Result<()>>, gnudi_sql::Error> {
    let missing = resources_missing(connection, metrics).await?;
    if missing.is_empty() {
        return insert_into_resources(connection, metrics).await;
    }
    let refusal = |metric: &Metric| metric.resource_id.filter(|resource| missing.contains(resource));
    let others: Vec<_> = metrics.iter().filter(|metric| refusal(metric).is_none()).cloned().collect();
    let mut outcomes = insert_into_resources(connection, &others).await?.into_iter();
    let mut next = || outcomes.next().expect("each metric has an answer");
    Ok(metrics
        .iter()
        .map(|metric| match refusal(metric) {
            Some(resource) => Err(IndexerError::NoSuchResource(resource)),
            None => next(),
        })
        .collect())
}

/// Inserts metrics whose resources exist.
async fn insert_into_resources(
    connection: &mut Connection,
    metrics: &[Arc<Metric>],
) -> Result<Vec<Result<()>>, gnudi_sql::Error> {
    let mut outcomes = vec![Ok(()); metrics.len()];
    let rows_max = rows_inserted_max(connection.dialect());
    let mut ranges: Vec<Range<usize>> = (0..metrics.len())
        .step_by(rows_max)
        .map(|start| start..(start + rows_max).min(metrics.len()))
        .rev()
        .collect();
    // A failed statement changes nothing and the transaction continues, so bisection finds the row to blame.
    while let Some(range) = ranges.pop() {
        let insert = insert_statement(connection.dialect(), &metrics[range.clone()]);
        let Err(error) = connection.try_execute(insert).await else { continue };
        let metric = &metrics[range.start];
        let refusal = refusal(error, metric)?;
        if range.len() == 1 {
            outcomes[range.start] = Err(refusal);
        } else {
            let middle = range.start + range.len() / 2;
            ranges.push(middle..range.end);
            ranges.push(range.start..middle);
        }
    }
    Ok(outcomes)
}

/// The constraint that the metric violates.
///
/// # Errors
/// Errors other than those of constraints.
pub(super) fn refusal(error: gnudi_sql::Error, metric: &Metric) -> Result<IndexerError, gnudi_sql::Error> {
    if is_unique_violation(&error) {
        Ok(named_metric_already_exists(metric.name.as_deref()))
    } else if is_foreign_key_violation(&error) {
        Ok(IndexerError::NoSuchArchivePolicy(metric.archive_policy_name.to_string()))
    } else {
        Err(error)
    }
}

/// The resources of the metrics that do not exist.
async fn resources_missing(
    connection: &mut Connection,
    metrics: &[Arc<Metric>],
) -> Result<HashSet<Uuid>, gnudi_sql::Error> {
    let mut missing: HashSet<Uuid> = metrics.iter().filter_map(|metric| metric.resource_id).collect();
    let wanted: Vec<Uuid> = missing.iter().copied().collect();
    for ids in wanted.chunks(IDS_NAMED_MAX) {
        let query = among(connection.dialect(), "SELECT id FROM resource WHERE id", ids.iter().copied());
        for row in connection.fetch_all(query).await? {
            missing.remove(&id_at(&row, 0)?);
        }
    }
    Ok(missing)
}

/// Inserts all, or fails.
pub(super) async fn insert_active(
    connection: &mut Connection,
    metrics: &[Arc<Metric>],
) -> Result<(), gnudi_sql::Error> {
    for metrics in metrics.chunks(rows_inserted_max(connection.dialect())) {
        connection.execute(insert_statement(connection.dialect(), metrics)).await?;
    }
    Ok(())
}

const fn rows_inserted_max(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Postgres => COLUMNS_ROWS_MAX,
        Dialect::Sqlite | Dialect::Mysql => ROWS_INSERTED_MAX,
    }
}

fn insert_statement(dialect: Dialect, metrics: &[Arc<Metric>]) -> Statement {
    if dialect == Dialect::Postgres {
        let mut insert = Statement::new(dialect, "");
        insert.push_insert("metric", &COLUMNS.split(", ").collect::<Vec<_>>(), metrics, |values, metric| {
            push_values(values, metric, Some(status_code(MetricStatus::Active)));
        });
        return insert;
    }
    let mut insert = Statement::shared(dialect, insert_text(metrics.len()));
    insert.values.reserve_exact(metrics.len() * 7);
    for metric in metrics {
        push_values(&mut insert.values, metric, None);
    }
    insert
}

/// The values of [`COLUMNS`], with or without the status.
fn push_values(values: &mut Vec<Value>, metric: &Metric, status: Option<i64>) {
    let text = |text: &Text| Some(Arc::<str>::from(text.as_str()));
    values.extend([
        metric.id.0.into(),
        Value::Text(text(&metric.creator)),
        Value::Text(metric.name.as_ref().and_then(text)),
        Value::Text(metric.unit.as_ref().and_then(text)),
        Value::Text(text(&metric.archive_policy_name)),
        metric.resource_id.into(),
    ]);
    values.extend(status.map(Value::from));
    values.push(metric.created_at.0.into());
}

/// The INSERT for this number of active metrics, up to [`ROWS_INSERTED_MAX`].
fn insert_text(rows: usize) -> Arc<str> {
    static STATEMENTS: OnceLock<Vec<Arc<str>>> = OnceLock::new();
    let statements = STATEMENTS.get_or_init(|| {
        (1..=ROWS_INSERTED_MAX)
            .map(|rows| {
                let values = vec!["(?, ?, ?, ?, ?, ?, 0, ?)"; rows].join(", ");
                format!("INSERT INTO metric ({COLUMNS}) VALUES {values}").into()
            })
            .collect()
    });
    statements[rows - 1].clone()
}

/// Marks active metrics as deleted, one result each; a repeated id is not found.
pub(super) async fn mark_deleted(
    connection: &mut Connection,
    ids: &[MetricId],
) -> Result<Vec<Result<()>>, gnudi_sql::Error> {
    let dialect = connection.dialect();
    let mut active = HashSet::new();
    for ids in ids.chunks(IDS_NAMED_MAX) {
        let naming = |statement: &str| among(dialect, statement, ids.iter().map(|id| id.0));
        for row in connection.fetch_all(naming("SELECT id FROM metric WHERE status = 0 AND id")).await? {
            active.insert(MetricId(id_at(&row, 0)?));
        }
        let mark = naming("UPDATE metric SET status = 1, resource_id = NULL WHERE status = 0 AND id");
        connection.execute(mark).await?;
    }
    Ok(ids
        .iter()
        .map(|id| if active.remove(id) { Ok(()) } else { Err(IndexerError::NoSuchMetric(*id)) })
        .collect())
}

struct MoveMetric(MetricId, String);

#[async_trait]
impl Change for MoveMetric {
    type Answer = Arc<Metric>;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<Arc<Metric>> {
        let MoveMetric(id, policy) = self;
        let text = format!("SELECT {COLUMNS} FROM metric WHERE status = 0 AND id = ?");
        let select = Statement::new(connection.dialect(), text).bind(id.0);
        let Some(row) = connection.fetch_optional(select).await? else {
            return Err(Failure::Refused(IndexerError::NoSuchMetric(*id)));
        };
        let metric = decode(&row, &context.texts).map_err(Failure::Refused)?;
        let update = connection
            .statement("UPDATE metric SET archive_policy_name = ? WHERE id = ?")
            .bind(policy)
            .bind(id.0);
        let unknown = IndexerError::NoSuchArchivePolicy(policy.clone());
        let refusals = Refusals { foreign_key: Some(unknown), ..Refusals::default() };
        execute_checked(connection, update, refusals).await?;
        let record = connection
            .statement("INSERT INTO metric_move (id, metric_id) VALUES (?, ?)")
            .bind(Uuid::new_v4())
            .bind(id.0);
        connection.execute(record).await?;
        let archive_policy_name = context.texts.labels.intern(policy);
        let touched = Touched::default().with_metrics([*id]).with_resources(metric.resource_id);
        Ok((Arc::new(Metric { archive_policy_name, ..metric }), touched))
    }
}

/// The ids of moves.
struct ForgetMoves(Vec<Uuid>);

#[async_trait]
impl Change for ForgetMoves {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        for ids in self.0.chunks(IDS_NAMED_MAX) {
            let delete = "DELETE FROM metric_move WHERE id";
            connection.execute(among(connection.dialect(), delete, ids.iter().copied())).await?;
        }
        Ok(((), Touched::default()))
    }
}

struct ExpungeMetrics(Vec<MetricId>);

#[async_trait]
impl Change for ExpungeMetrics {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        for ids in self.0.chunks(IDS_NAMED_MAX) {
            for delete in [
                "DELETE FROM metric WHERE status = 1 AND id",
                "DELETE FROM metric_whole_name \
                 WHERE NOT EXISTS (SELECT 1 FROM metric WHERE id = metric_id) AND metric_id",
            ] {
                let query = among(connection.dialect(), delete, ids.iter().map(|id| id.0));
                connection.execute(query).await?;
            }
        }
        // They were invalidated when they were deleted.
        Ok(((), Touched::default()))
    }
}
