//! Statements that create resources: multi-row, in few different shapes, so that the database prepares each once.
//!
//! A run of independent resources is inserted together. If that fails, it is bisected down to the one to blame.
//! Resources that depend on earlier ones (they attach metrics, or repeat an id) are created separately, in order.

use std::{
    collections::{BTreeMap, HashSet},
    mem,
    ops::Range,
    sync::Arc,
};

use gnudi_model::{AttributeValue, MetricId, Resource, Text};
use gnudi_sql::{Value, is_foreign_key_violation, is_unique_violation};
use uuid::Uuid;

use super::{
    name::is_named,
    set_metrics,
    value::{check_lengths, sortable},
};
use crate::{
    IndexerError, MetricsChange, NewNamedMetric, NewResource, Result,
    metric::sort_by_name,
    resource::{attached, created},
    sql::{
        Connection, Dialect, IDS_NAMED_MAX, Statement, among, attribute,
        failure::Failure,
        id_at,
        interner::Texts,
        metric,
        types::{StoredType, Types},
        writer::Context,
    },
};

/// Maximum resources inserted together.
const RUN_MAX: usize = 512;
/// Maximum rows of an INSERT, a power of two; smaller numbers are padded to a power of two.
const RESOURCES_INSERTED_MAX: usize = 64;
/// Maximum attributes of the rows of an INSERT, except of a single row: servers refuse long statements
/// (`max_allowed_packet`).
const ATTRIBUTES_BYTES_INSERTED_MAX: usize = 512 << 10;
const VALUES_INSERTED_MAX: usize = 256;

/// A resource to create, encoded with the cached types.
#[derive(Debug)]
pub(in crate::sql) struct Draft {
    new: NewResource,
    /// Of the types that it is encoded with; `None` once they may have been those of a lost transaction.
    types_version: Option<i64>,
    ready: Result<Ready>,
}

/// What is written.
#[derive(Debug)]
struct Ready {
    /// With the metrics to create; the result, once written.
    resource: Arc<Resource>,
    type_number: i64,
    attributes: String,
    values: Vec<(i64, Vec<u8>)>,
    /// Of its metrics.
    whole_names: Vec<(MetricId, String)>,
}

impl Draft {
    pub(in crate::sql) fn new(new: NewResource, types: &Types, texts: &Texts) -> Self {
        let ready = Ready::new(&new, types, texts);
        Draft { new, types_version: Some(types.version), ready }
    }

    /// Must be called when a transaction fails, which may have changed types.
    pub(in crate::sql) fn forget_types(&mut self) {
        self.types_version = None;
    }

    /// Metrics to attach.
    pub(in crate::sql) fn attached(&self) -> impl Iterator<Item = MetricId> {
        attached(self.new.metrics.iter())
    }

    /// Metrics to create.
    pub(in crate::sql) fn created(&self) -> impl Iterator<Item = &NewNamedMetric> {
        created(self.new.metrics.iter())
    }
}

impl Ready {
    fn new(new: &NewResource, types: &Types, texts: &Texts) -> Result<Self> {
        let stored = types.named(&new.resource_type)?;
        let mut resource = new.resource(&stored.resource_type, |text| texts.labels.intern(text))?;
        let metrics = new.metrics.iter().filter_map(|(name, change)| match change {
            MetricsChange::Create(metric) => {
                Some(Arc::new(metric::of_resource(&resource, name, metric, new.now, texts)))
            }
            MetricsChange::Attach(_) => None,
        });
        let mut metrics: Vec<_> = metrics.collect();
        sort_by_name(&mut metrics);
        resource.metrics = metrics.into();
        let (attributes, values) = encode(stored, &new.attributes);
        let whole_name = |metric: &NewNamedMetric| Some((metric.id, metric.whole_name.clone()?));
        let whole_names = created(new.metrics.iter()).filter_map(whole_name).collect();
        let resource = Arc::new(resource);
        Ok(Ready { resource, type_number: stored.number, attributes, values, whole_names })
    }
}

/// Values in the form of the row, and in the form of the index.
pub(super) fn encode(
    stored: &StoredType,
    attributes: &BTreeMap<Text, AttributeValue>,
) -> (String, Vec<(i64, Vec<u8>)>) {
    let numbered: Vec<(i64, &AttributeValue)> =
        attributes.iter().map(|(name, value)| (stored.attributes[name].number, value)).collect();
    let values = numbered.iter().filter_map(|(number, value)| Some((*number, sortable(value)?))).collect();
    (attribute::encode_values(numbered), values)
}

/// Whether a transaction does something besides creating resources.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) struct Bounds {
    /// Nothing before: the first statement begins it.
    pub(in crate::sql) begins: bool,
    /// Nothing after: the last statement may commit it.
    pub(in crate::sql) ends: bool,
}

/// The results.
#[derive(Debug, Default)]
pub(in crate::sql) struct Created {
    pub(in crate::sql) outcomes: Vec<Result<Arc<Resource>>>,
    /// Whether the transaction was committed.
    pub(in crate::sql) committed: bool,
}

/// Creates resources in order, one result each. Fails only if the transaction is lost.
pub(in crate::sql) async fn insert(
    connection: &mut Connection,
    context: &Context,
    drafts: &mut [Draft],
    bounds: Bounds,
) -> Result<Created> {
    if drafts.is_empty() {
        return Ok(Created::default());
    }
    let known = IndexState::ask(connection, drafts, bounds).await?;
    let types = context.types_at(connection, known.types_version).await?;
    for draft in &mut *drafts {
        if draft.types_version != Some(types.version) {
            draft.ready = Ready::new(&draft.new, &types, &context.texts);
            // A second attempt may find other types.
            draft.types_version = Some(types.version);
        }
        let Draft { new, ready, .. } = draft;
        if ready.is_ok()
            && let Err(error) = check_lengths(connection.dialect(), &new.resource_type, &new.attributes)
        {
            *ready = Err(error);
        }
    }
    let mut batch = Batch { context, known, outcomes: Vec::with_capacity(drafts.len()), committed: false };
    let mut from = 0;
    while from < drafts.len() {
        let length = independent(&drafts[from..]);
        if length > 0 {
            let run = &drafts[from..from + length];
            from += length;
            batch.insert_run(connection, run, bounds.ends && from == drafts.len()).await?;
        } else {
            let outcome = batch.try_alone(connection, &drafts[from]).await?;
            batch.outcomes.push(outcome);
            from += 1;
        }
    }
    Ok(Created { outcomes: batch.outcomes, committed: batch.committed })
}

/// Number of leading drafts that share no ids or metrics, and attach none.
fn independent(drafts: &[Draft]) -> usize {
    let mut ids = HashSet::new();
    let mut metrics = HashSet::new();
    let mut is_new = |draft: &Draft| {
        let mut names = HashSet::new();
        ids.insert(draft.new.id)
            && draft.new.metrics.iter().all(|(name, change)| match change {
                MetricsChange::Create(metric) => names.insert(name) && metrics.insert(metric.id),
                MetricsChange::Attach(_) => false,
            })
    };
    // A draft that repeats its own metrics is inserted alone, and rejected.
    drafts.iter().take(RUN_MAX).position(|draft| !is_new(draft)).unwrap_or(drafts.len().min(RUN_MAX))
}

/// State of the index before resources are created.
struct IndexState {
    types_version: i64,
    /// The last number given to a resource: assigned here, so that values can be inserted with them.
    numbers_used: i64,
    /// Those of the drafts' ids that exist.
    taken: HashSet<Uuid>,
}

impl IndexState {
    /// Several statements in one trip to the database's thread.
    async fn ask(
        connection: &mut Connection,
        drafts: &[Draft],
        bounds: Bounds,
    ) -> Result<Self, gnudi_sql::Error> {
        let ids: Vec<_> = drafts.iter().map(|draft| draft.new.id).collect();
        let dialect = connection.dialect();
        let (first, rest) = match dialect {
            Dialect::Sqlite => ids.split_at(ids.len().min(IDS_NAMED_MAX)),
            Dialect::Postgres | Dialect::Mysql => (&[][..], &ids[..]),
        };
        let mut known = if dialect.is_server() {
            IndexState::take_numbers(connection, drafts.len()).await?
        } else {
            let mut query = Statement::new(dialect, if bounds.begins { "BEGIN IMMEDIATE; " } else { "" });
            query.push("SELECT version, (SELECT seq FROM sqlite_sequence WHERE name = 'resource') FROM resource_type_version; ");
            query.push(TAKEN).push_among(first.iter().copied());
            let rows = connection.fetch_all(query).await?;
            let (known, taken) = rows.split_first().ok_or(gnudi_sql::Error::RowNotFound)?;
            let numbers_used: Option<i64> = known.try_get(1)?;
            IndexState {
                types_version: known.try_get(0)?,
                numbers_used: numbers_used.unwrap_or(0),
                taken: taken.iter().map(|row| id_at(row, 0)).collect::<Result<_, _>>()?,
            }
        };
        for ids in rest.chunks(IDS_NAMED_MAX) {
            for row in connection.fetch_all(among(dialect, TAKEN, ids.iter().copied())).await? {
                known.taken.insert(id_at(&row, 0)?);
            }
        }
        Ok(known)
    }

    /// A server counts the numbers itself; unused ones are lost.
    async fn take_numbers(connection: &mut Connection, count: usize) -> Result<Self, gnudi_sql::Error> {
        let count = i64::try_from(count).expect("drafts fit into memory");
        let take = connection.statement("UPDATE resource_number SET used = used + ?").bind(count);
        connection.execute(take).await?;
        let known = connection
            .fetch_one(
                connection
                    .statement("SELECT version, used FROM resource_type_version CROSS JOIN resource_number"),
            )
            .await?;
        let used: i64 = known.try_get(1)?;
        Ok(IndexState { types_version: known.try_get(0)?, numbers_used: used - count, taken: HashSet::new() })
    }
}

const SAVEPOINT: &str = "SAVEPOINT run";
const COMMIT: &str = "COMMIT";
const TAKEN: &str = "SELECT id FROM resource WHERE id";

struct Batch<'a> {
    context: &'a Context,
    known: IndexState,
    outcomes: Vec<Result<Arc<Resource>>>,
    committed: bool,
}

impl Batch<'_> {
    async fn insert_run(
        &mut self,
        connection: &mut Connection,
        drafts: &[Draft],
        is_last: bool,
    ) -> Result<()> {
        let mut refused: Vec<Option<IndexerError>> = vec![None; drafts.len()];
        let mut ready: Vec<(usize, &Ready)> = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.iter().enumerate() {
            match &draft.ready {
                Err(error) => refused[index] = Some(error.clone()),
                Ok(_) if self.known.taken.contains(&draft.new.id) => {
                    refused[index] = Some(IndexerError::ResourceAlreadyExists(draft.new.id));
                }
                Ok(draft) => ready.push((index, draft)),
            }
        }
        if ready.iter().all(|(_, ready)| ready.resource.metrics.is_empty()) {
            // Nothing can reject them any more.
            let rows: Vec<&Ready> = ready.iter().map(|(_, ready)| *ready).collect();
            let closing = if is_last { COMMIT } else { "" };
            self.insert_resources(connection, "", &rows, closing).await?;
        } else {
            self.insert_with_metrics(connection, drafts, &ready, &mut refused).await?;
        }
        for (draft, refused) in drafts.iter().zip(refused) {
            self.outcomes.push(match (refused, &draft.ready) {
                (None, Ok(ready)) => {
                    self.known.taken.insert(draft.new.id);
                    Ok(ready.resource.clone())
                }
                (Some(error), _) => Err(error),
                (None, Err(error)) => Err(error.clone()),
            });
        }
        Ok(())
    }

    /// Inserts ready drafts; reports the rejected ones.
    async fn insert_with_metrics(
        &mut self,
        connection: &mut Connection,
        drafts: &[Draft],
        ready: &[(usize, &Ready)],
        refused: &mut [Option<IndexerError>],
    ) -> Result<()> {
        let mut ranges: Vec<Range<usize>> = Vec::from([Range { start: 0, end: ready.len() }]);
        while let Some(range) = ranges.pop() {
            let part: Vec<&Ready> = ready[range.clone()].iter().map(|(_, ready)| *ready).collect();
            match self.try_rows(connection, &part).await {
                Ok(()) => {}
                Err(error) if !is_constraint(&error) => return Err(error.into()),
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
        Ok(())
    }

    /// Inserts all, or none if a constraint rejects one.
    async fn try_rows(
        &mut self,
        connection: &mut Connection,
        rows: &[&Ready],
    ) -> Result<(), gnudi_sql::Error> {
        let used = self.known.numbers_used;
        let metrics: Vec<_> = rows.iter().flat_map(|ready| ready.resource.metrics.iter().cloned()).collect();
        let whole_names = rows.iter().flat_map(|ready| &ready.whole_names);
        let whole_names: Vec<_> = whole_names.map(|(id, whole_name)| (*id, whole_name.as_str())).collect();
        let mut inserted = self.insert_resources(connection, SAVEPOINT, rows, "").await;
        if inserted.is_ok() {
            inserted = metric::insert_active(connection, &metrics).await;
        }
        if inserted.is_ok() {
            inserted = metric::insert_whole_names(connection, &whole_names).await;
        }
        match &inserted {
            Ok(()) => connection.run("RELEASE SAVEPOINT run").await?,
            Err(error) if is_constraint(error) => {
                self.known.numbers_used = used;
                connection.run("ROLLBACK TO SAVEPOINT run; RELEASE SAVEPOINT run").await?;
            }
            Err(_) => {}
        }
        inserted
    }

    /// Without their metrics, between statements that open and may close the transaction; a few rows take a single trip
    /// to the database's thread.
    async fn insert_resources(
        &mut self,
        connection: &mut Connection,
        opening: &'static str,
        rows: &[&Ready],
        closing: &'static str,
    ) -> Result<(), gnudi_sql::Error> {
        let numbered: Vec<(i64, &Ready)> =
            (self.known.numbers_used + 1..).zip(rows.iter().copied()).collect();
        let mut values: Vec<(i64, &[u8], i64)> = numbered
            .iter()
            .flat_map(|(number, ready)| {
                ready.values.iter().map(|(attribute, value)| (*attribute, &**value, *number))
            })
            .collect();
        values.sort_unstable();
        let dialect = connection.dialect();
        let (rows_max, values_max) = match dialect {
            // One statement for any number of rows that are not too long together.
            Dialect::Postgres => (usize::MAX, usize::MAX),
            Dialect::Sqlite | Dialect::Mysql => (RESOURCES_INSERTED_MAX, VALUES_INSERTED_MAX),
        };
        let is_one_trip = !dialect.is_server() && rows.len() <= rows_max && values.len() <= values_max;
        let mut query = Statement::new(dialect, opening);
        if !opening.is_empty() {
            query.push("; ");
            if !is_one_trip {
                connection.run(opening).await?;
                query = Statement::new(dialect, "");
            }
        }
        for part in parts(&numbered, rows_max, |(_, ready)| ready.attributes.len()) {
            push_resources(&mut query, part, self.known.types_version);
            if !is_one_trip {
                connection.execute(mem::replace(&mut query, Statement::new(dialect, ""))).await?;
            }
        }
        for part in values.chunks(values_max) {
            push_values(&mut query, "resource_value", "resource_number", part);
            if !is_one_trip {
                connection.execute(mem::replace(&mut query, Statement::new(dialect, ""))).await?;
            }
        }
        if is_one_trip && !rows.is_empty() {
            query.push(closing);
            connection.execute(query).await?;
            self.committed = closing == COMMIT;
        }
        self.known.numbers_used += i64::try_from(rows.len()).expect("a run is short");
        Ok(())
    }

    /// Statement by statement, to find out which one is rejected and why.
    async fn try_alone(
        &mut self,
        connection: &mut Connection,
        draft: &Draft,
    ) -> Result<Result<Arc<Resource>>> {
        let ready = match &draft.ready {
            Ok(ready) => ready,
            Err(error) => return Ok(Err(error.clone())),
        };
        if self.known.taken.contains(&draft.new.id) {
            return Ok(Err(IndexerError::ResourceAlreadyExists(draft.new.id)));
        }
        let used = self.known.numbers_used;
        self.insert_resources(connection, SAVEPOINT, &[ready], "").await?;
        let Draft { new, .. } = draft;
        let set = set_metrics(connection, self.context, &ready.resource, &new.metrics, new.now);
        let outcome = match set.await {
            Ok(metrics) => {
                self.known.taken.insert(new.id);
                Ok(Arc::new(Resource { metrics, ..Resource::clone(&ready.resource) }))
            }
            Err(Failure::Refused(error)) => {
                self.known.numbers_used = used;
                connection.run("ROLLBACK TO SAVEPOINT run").await?;
                Err(error)
            }
            Err(Failure::Broken(error)) => return Err(error),
        };
        connection.run("RELEASE SAVEPOINT run").await?;
        Ok(outcome)
    }
}

/// The rows in parts of at most so many rows and [`ATTRIBUTES_BYTES_INSERTED_MAX`].
fn parts<T>(rows: &[T], rows_max: usize, bytes_of: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut count, mut bytes) = (1, rows.first().map_or(0, &bytes_of));
    let fits = |_: &T, next: &T| {
        count += 1;
        bytes += bytes_of(next);
        let fits = count <= rows_max && bytes <= ATTRIBUTES_BYTES_INSERTED_MAX;
        if !fits {
            (count, bytes) = (1, bytes_of(next));
        }
        fits
    };
    rows.chunk_by(fits).collect()
}

fn is_constraint(error: &gnudi_sql::Error) -> bool {
    is_unique_violation(error) || is_foreign_key_violation(error)
}

fn push_resources(query: &mut Statement, rows: &[(i64, &Ready)], types_version: i64) {
    const COLUMNS: [&str; 13] = [
        "number",
        "id",
        "type_number",
        "original_resource_id",
        "named",
        "creator",
        "user_id",
        "project_id",
        "started_at",
        "ended_at",
        "revision_start",
        "attributes",
        "type_version",
    ];
    query.push_insert("resource", &COLUMNS, rows, |values, (number, ready)| {
        let Ready { resource, type_number, attributes, .. } = ready;
        values.extend([
            Value::from(*number),
            resource.id.into(),
            Value::from(*type_number),
            resource.original_resource_id.as_str().into(),
            i64::from(is_named(&resource.original_resource_id, resource.id)).into(),
            resource.creator.as_str().into(),
            resource.user_id.as_deref().into(),
            resource.project_id.as_deref().into(),
            resource.started_at.0.into(),
            resource.ended_at.map(|time| time.0).into(),
            resource.revision_start.0.into(),
            attributes.into(),
            types_version.into(),
        ]);
    });
}

fn push_values(query: &mut Statement, table: &str, owner: &str, values: &[(i64, &[u8], i64)]) {
    let columns = ["attribute_number", "value", owner];
    query.push_insert(table, &columns, values, |list, (attribute, value, owner)| {
        list.extend([Value::from(*attribute), value.to_vec().into(), Value::from(*owner)]);
    });
}

/// Inserts into `resource_value` or `resource_history_value`, in table order, since neighbours share pages.
pub(super) async fn insert_values(
    connection: &mut Connection,
    table: &str,
    owner: &str,
    values: &mut [(i64, &[u8], i64)],
) -> Result<(), gnudi_sql::Error> {
    values.sort_unstable();
    for part in values.chunks(VALUES_INSERTED_MAX) {
        let mut query = Statement::new(connection.dialect(), "");
        push_values(&mut query, table, owner, part);
        connection.execute(query).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_limits_of_rows_and_bytes() {
        const MAX: usize = ATTRIBUTES_BYTES_INSERTED_MAX;
        let lengths = |rows: &[usize], rows_max| -> Vec<usize> {
            parts(rows, rows_max, |bytes| *bytes).iter().map(|part| part.len()).collect()
        };
        assert_eq!(lengths(&[], 2), [0; 0]);
        assert_eq!(lengths(&[1; 5], 2), [2, 2, 1]);
        assert_eq!(lengths(&[1; 5], usize::MAX), [5]);
        assert_eq!(lengths(&[MAX, 1, MAX - 1, 1, MAX + 1, MAX + 1, 1], 9), [1, 2, 1, 1, 1, 1]);
    }
}
