//! The statements that create resources: multi-row, and of few shapes, so that the database prepares each once.
//!
//! A run of resources that have nothing to do with each other is inserted as one. Where that fails, its halves are tried,
//! down to the one to blame. Those that depend on what comes before them (they attach metrics, or repeat an id) are created
//! on their own, in their place.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    sync::Arc,
};

use gnudi_model::{AttributeValue, Metric, MetricStatus, Resource, Text};
use sqlx::{AssertSqlSafe, Executor, QueryBuilder, Row};
use uuid::Uuid;

use super::{
    row::{IDS_NAMED_MAX, sort_by_name},
    set_metrics,
    value::sortable,
};
use crate::{
    IndexerError, MetricsChange, NewNamedMetric, NewResource,
    resource::check_attributes,
    sql::{
        Connection, Database, attribute,
        failure::{Failure, indexer_error, is_foreign_key_violation, is_unique_violation},
        interner::Texts,
        metric,
        metric::push_uuids,
        types::{StoredType, Types},
        writer::Context,
    },
};

/// How many resources are inserted as one at most.
const RUN_MAX: usize = 512;
/// How many rows one INSERT has at most, a power of two; fewer are split into powers of two.
const RESOURCES_INSERTED_MAX: usize = 64;
const VALUES_INSERTED_MAX: usize = 256;

/// A resource that is to be created, made ready with the types that were at hand.
#[derive(Debug)]
pub(in crate::sql) struct Draft {
    new: NewResource,
    types_version: i64,
    ready: Result<Ready, IndexerError>,
}

/// What is written.
#[derive(Debug)]
struct Ready {
    /// With the metrics that are created; the answer, once it is written.
    resource: Arc<Resource>,
    type_number: i64,
    attributes: String,
    values: Vec<(i64, Vec<u8>)>,
}

impl Draft {
    pub(super) fn new(new: NewResource, types: &Types, texts: &Texts) -> Self {
        let ready = Ready::new(&new, types, texts);
        Draft { new, types_version: types.version, ready }
    }

    /// Whether it depends on what was created before it.
    fn attaches(&self) -> bool {
        self.new.metrics.iter().any(|(_, change)| matches!(change, MetricsChange::Attach(_)))
    }
}

impl Ready {
    fn new(new: &NewResource, types: &Types, texts: &Texts) -> Result<Self, IndexerError> {
        let stored = types.named(&new.resource_type)?;
        check_attributes(&stored.resource_type, new.attributes.keys())?;
        if new.ended_at.is_some_and(|ended_at| ended_at < new.started_at) {
            return Err(IndexerError::StartAfterEnd);
        }
        let label = |text: &Option<String>| text.as_deref().map(|text| texts.labels.intern(text));
        let creator = texts.labels.intern(&new.creator);
        let mut metrics: Vec<Arc<Metric>> = new
            .metrics
            .iter()
            .filter_map(|(name, change)| match change {
                MetricsChange::Create(metric) => Some(Arc::new(created(new, &creator, name, metric, texts))),
                MetricsChange::Attach(_) => None,
            })
            .collect();
        sort_by_name(&mut metrics);
        let (attributes, values) = encode(stored, &new.attributes);
        let resource = Resource {
            id: new.id,
            resource_type: stored.resource_type.name.clone(),
            original_resource_id: new.original_resource_id.as_str().into(),
            creator,
            user_id: label(&new.user_id),
            project_id: label(&new.project_id),
            started_at: new.started_at,
            ended_at: new.ended_at,
            revision_start: new.now,
            revision_end: None,
            revision: Resource::CURRENT,
            attributes: stored
                .attributes
                .keys()
                .map(|name| (name.clone(), new.attributes.get(name).cloned().unwrap_or(AttributeValue::Null)))
                .collect(),
            metrics,
        };
        Ok(Ready { resource: Arc::new(resource), type_number: stored.number, attributes, values })
    }
}

fn created(new: &NewResource, creator: &Text, name: &str, metric: &NewNamedMetric, texts: &Texts) -> Metric {
    Metric {
        id: metric.id,
        creator: creator.clone(),
        name: Some(texts.names.intern(name)),
        unit: metric.unit.as_deref().map(|unit| texts.labels.intern(unit)),
        archive_policy_name: texts.labels.intern(&metric.archive_policy_name),
        resource_id: Some(new.id),
        status: MetricStatus::Active,
        created_at: new.now,
    }
}

/// Values as a row has them, and as they are found by.
pub(super) fn encode(
    stored: &StoredType,
    attributes: &BTreeMap<Text, AttributeValue>,
) -> (String, Vec<(i64, Vec<u8>)>) {
    let numbered: Vec<(i64, &AttributeValue)> =
        attributes.iter().map(|(name, value)| (stored.attributes[name].number, value)).collect();
    let values = numbered.iter().filter_map(|(number, value)| Some((*number, sortable(value)?))).collect();
    (attribute::encode_values(numbered), values)
}

/// Creates resources in order, one answer each. Fails only where the transaction is lost.
pub(in crate::sql) async fn insert(
    connection: &mut Connection,
    context: &Context,
    mut drafts: Vec<Draft>,
) -> Result<Vec<Result<Arc<Resource>, IndexerError>>, IndexerError> {
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    let types = context.types(connection).await?;
    for draft in &mut drafts {
        if draft.types_version != types.version {
            draft.ready = Ready::new(&draft.new, &types, &context.texts);
        }
    }
    let mut batch = Batch {
        context,
        types_version: types.version,
        numbers_used: numbers_used(connection).await?,
        outcomes: Vec::with_capacity(drafts.len()),
    };
    let mut from = 0;
    while from < drafts.len() {
        let length = independent(&drafts[from..]).min(RUN_MAX);
        if length > 0 {
            batch.insert_run(connection, &drafts[from..from + length]).await?;
            from += length;
        } else {
            batch.insert_alone(connection, &drafts[from]).await?;
            from += 1;
        }
    }
    Ok(batch.outcomes)
}

/// How many drafts at the front share neither ids nor metrics, and attach none.
fn independent(drafts: &[Draft]) -> usize {
    let mut ids = HashSet::new();
    let mut metrics = HashSet::new();
    let mut is_new = |draft: &Draft| {
        let mut names = HashSet::new();
        !draft.attaches()
            && ids.insert(draft.new.id)
            && draft.new.metrics.iter().all(|(name, change)| match change {
                MetricsChange::Create(metric) => names.insert(name) && metrics.insert(metric.id),
                MetricsChange::Attach(_) => false,
            })
    };
    // A draft that repeats its own metrics is alone, and so is refused.
    drafts.iter().take(RUN_MAX).position(|draft| !is_new(draft)).unwrap_or(drafts.len().min(RUN_MAX))
}

/// The last number that a resource got: numbers are given out here, so that values can be inserted with them.
async fn numbers_used(connection: &mut Connection) -> Result<i64, IndexerError> {
    let used = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'resource'");
    let used: Option<i64> = used.fetch_optional(connection).await.map_err(|error| indexer_error(&error))?;
    Ok(used.unwrap_or(0))
}

struct Batch<'a> {
    context: &'a Context,
    types_version: i64,
    numbers_used: i64,
    outcomes: Vec<Result<Arc<Resource>, IndexerError>>,
}

impl Batch<'_> {
    async fn insert_run(
        &mut self,
        connection: &mut Connection,
        drafts: &[Draft],
    ) -> Result<(), IndexerError> {
        let lost = |error: sqlx::Error| indexer_error(&error);
        let taken = taken(connection, drafts).await.map_err(lost)?;
        let mut refused: Vec<Option<IndexerError>> = vec![None; drafts.len()];
        let mut ready: Vec<(usize, &Ready)> = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.iter().enumerate() {
            match &draft.ready {
                Err(error) => refused[index] = Some(error.clone()),
                Ok(_) if taken.contains(&draft.new.id) => {
                    refused[index] = Some(IndexerError::ResourceAlreadyExists(draft.new.id));
                }
                Ok(draft) => ready.push((index, draft)),
            }
        }
        let mut ranges: Vec<Range<usize>> = Vec::from([Range { start: 0, end: ready.len() }]);
        while let Some(range) = ranges.pop() {
            let part: Vec<&Ready> = ready[range.clone()].iter().map(|(_, ready)| *ready).collect();
            match self.insert_rows(connection, &part).await {
                Ok(()) => {}
                Err(error) if !is_constraint(&error) => return Err(indexer_error(&error)),
                Err(_) if range.len() == 1 => {
                    let index = ready[range.start].0;
                    refused[index] = self.try_alone(connection, &drafts[index]).await?.err();
                }
                Err(_) => {
                    let middle = range.start + range.len() / 2;
                    ranges.push(middle..range.end);
                    ranges.push(range.start..middle);
                }
            }
        }
        for (draft, refused) in drafts.iter().zip(refused) {
            self.outcomes.push(match (refused, &draft.ready) {
                (None, Ok(ready)) => Ok(ready.resource.clone()),
                (Some(error), _) => Err(error),
                (None, Err(error)) => Err(error.clone()),
            });
        }
        Ok(())
    }

    /// All or, where a constraint refuses one, none.
    async fn insert_rows(&mut self, connection: &mut Connection, rows: &[&Ready]) -> Result<(), sqlx::Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let first = self.numbers_used + 1;
        connection.execute("SAVEPOINT run").await?;
        let inserted = insert_all(connection, rows, first, self.types_version).await;
        if let Err(error) = &inserted
            && is_constraint(error)
        {
            connection.execute("ROLLBACK TO run").await?;
        }
        connection.execute("RELEASE run").await?;
        inserted?;
        self.numbers_used += i64::try_from(rows.len()).expect("a run is short");
        Ok(())
    }

    async fn insert_alone(&mut self, connection: &mut Connection, draft: &Draft) -> Result<(), IndexerError> {
        let outcome = self.try_alone(connection, draft).await?;
        self.outcomes.push(outcome);
        Ok(())
    }

    /// Statement by statement, so that it is known which is refused and why.
    async fn try_alone(
        &mut self,
        connection: &mut Connection,
        draft: &Draft,
    ) -> Result<Result<Arc<Resource>, IndexerError>, IndexerError> {
        let ready = match &draft.ready {
            Ok(ready) => ready,
            Err(error) => return Ok(Err(error.clone())),
        };
        let lost = |error: sqlx::Error| indexer_error(&error);
        if taken(connection, std::slice::from_ref(draft)).await.map_err(lost)?.contains(&draft.new.id) {
            return Ok(Err(IndexerError::ResourceAlreadyExists(draft.new.id)));
        }
        connection.execute("SAVEPOINT run").await.map_err(lost)?;
        let first = self.numbers_used + 1;
        insert_without_metrics(connection, &[ready], first, self.types_version).await.map_err(lost)?;
        let Draft { new, .. } = draft;
        let set = set_metrics(connection, &self.context.texts, &ready.resource, &new.metrics, new.now);
        let outcome = match set.await {
            Ok(metrics) => {
                self.numbers_used += 1;
                Ok(Arc::new(Resource { metrics, ..Resource::clone(&ready.resource) }))
            }
            Err(Failure::Refused(error)) => {
                connection.execute("ROLLBACK TO run").await.map_err(lost)?;
                Err(error)
            }
            Err(Failure::Broken(error)) => return Err(error),
        };
        connection.execute("RELEASE run").await.map_err(lost)?;
        Ok(outcome)
    }
}

fn is_constraint(error: &sqlx::Error) -> bool {
    is_unique_violation(error) || is_foreign_key_violation(error)
}

/// Which of the ids have a resource.
async fn taken(connection: &mut Connection, drafts: &[Draft]) -> Result<HashSet<Uuid>, sqlx::Error> {
    let ids: Vec<_> = drafts.iter().map(|draft| draft.new.id).collect();
    let mut taken = HashSet::new();
    for ids in ids.chunks(IDS_NAMED_MAX) {
        let mut query = QueryBuilder::<Database>::new("SELECT id FROM resource WHERE id IN (");
        push_uuids(&mut query, ids);
        for row in query.build().fetch_all(&mut *connection).await? {
            taken.extend(Uuid::from_slice(row.try_get(0)?));
        }
    }
    Ok(taken)
}

async fn insert_all(
    connection: &mut Connection,
    rows: &[&Ready],
    first_number: i64,
    types_version: i64,
) -> Result<(), sqlx::Error> {
    insert_without_metrics(connection, rows, first_number, types_version).await?;
    let metrics: Vec<_> = rows.iter().flat_map(|ready| ready.resource.metrics.iter().cloned()).collect();
    metric::insert_active(connection, &metrics).await
}

async fn insert_without_metrics(
    connection: &mut Connection,
    rows: &[&Ready],
    first_number: i64,
    types_version: i64,
) -> Result<(), sqlx::Error> {
    let numbered: Vec<(i64, &Ready)> = (first_number..).zip(rows.iter().copied()).collect();
    for part in parts(&numbered, RESOURCES_INSERTED_MAX) {
        insert_resources(connection, part, types_version).await?;
    }
    let mut values: Vec<(i64, &[u8], i64)> = numbered
        .iter()
        .flat_map(|(number, ready)| {
            ready.values.iter().map(|(attribute, value)| (*attribute, &**value, *number))
        })
        .collect();
    insert_values(connection, "resource_value", "resource_number", &mut values).await
}

async fn insert_resources(
    connection: &mut Connection,
    rows: &[(i64, &Ready)],
    types_version: i64,
) -> Result<(), sqlx::Error> {
    let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows.len()].join(", ");
    let mut query = sqlx::query(AssertSqlSafe(format!(
        "INSERT INTO resource (number, id, type_number, original_resource_id, creator, user_id, project_id, started_at, \
         ended_at, revision_start, attributes, type_version) VALUES {values}"
    )));
    let text = |text: &Text| Arc::<str>::from(text.as_str());
    for (number, Ready { resource, type_number, attributes, .. }) in rows {
        query = query
            .bind(number)
            .bind(resource.id.as_bytes().to_vec())
            .bind(type_number)
            .bind(text(&resource.original_resource_id))
            .bind(text(&resource.creator))
            .bind(resource.user_id.as_ref().map(text))
            .bind(resource.project_id.as_ref().map(text))
            .bind(resource.started_at.0)
            .bind(resource.ended_at.map(|time| time.0))
            .bind(resource.revision_start.0)
            .bind(attributes.as_str())
            .bind(types_version);
    }
    query.execute(connection).await.map(|_| ())
}

/// Inserts into `resource_value` or `resource_history_value`, in the order of the table, since neighbours share pages.
pub(super) async fn insert_values(
    connection: &mut Connection,
    table: &str,
    owner: &str,
    values: &mut [(i64, &[u8], i64)],
) -> Result<(), sqlx::Error> {
    values.sort_unstable();
    for part in parts(values, VALUES_INSERTED_MAX) {
        let rows = vec!["(?, ?, ?)"; part.len()].join(", ");
        let mut query = sqlx::query(AssertSqlSafe(format!(
            "INSERT INTO {table} (attribute_number, value, {owner}) VALUES {rows}"
        )));
        for (attribute, value, owner) in part {
            query = query.bind(attribute).bind(value.to_vec()).bind(owner);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Cuts into parts whose lengths are powers of two, `length_max` at most.
fn parts<T>(mut items: &[T], length_max: usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = items.len().checked_ilog2().map(|log| (1 << log).min(length_max))?;
        let (part, rest) = items.split_at(length);
        items = rest;
        Some(part)
    })
}
