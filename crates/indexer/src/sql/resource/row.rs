//! Rows of resources and of their history.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    sync::{Arc, OnceLock},
};

use futures_util::stream::{self, StreamExt as _};
use gnudi_model::{AttributeValue, Metric, Resource, Text, Timestamp};
use gnudi_sql::reason;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::{
    IndexerError, Result,
    metric::sort_by_name,
    sql::{
        Dialect, IDS_NAMED_MAX, Row, SqlIndexer, Statement, among, id_at,
        interner::Texts,
        metric,
        types::{StoredType, Types},
    },
};

/// The columns of `resource` for [`decode`], in order.
pub(in crate::sql) fn columns(dialect: Dialect) -> String {
    let (no_integer, current) = (dialect.no_integer(), dialect.current());
    format!("{KEPT}, {no_integer} AS revision_end, {current} AS revision")
}

/// The same columns, for [`Attributes::None`]: the database hands out no texts that nobody looks at.
pub(super) fn without_attributes(columns: &str) -> String {
    columns.replacen(" attributes,", " NULL AS attributes,", 1)
}

/// The columns that `resource` and its history share.
pub(super) const KEPT: &str = "id, type_number, original_resource_id, creator, user_id, project_id, started_at, \
    ended_at, revision_start, attributes, type_version";
/// The row with an id; [`NUMBER`] and [`VERSION`] follow [`columns`].
pub(super) fn select_one(dialect: Dialect, id: Uuid) -> Statement {
    /// One per dialect.
    static SELECT: [OnceLock<Arc<str>>; 3] = [const { OnceLock::new() }; 3];
    let text = SELECT[dialect as usize].get_or_init(|| {
        let columns = columns(dialect);
        format!(
            "SELECT {columns}, number, (SELECT version FROM resource_type_version) FROM resource WHERE id = ?"
        )
        .into()
    });
    Statement::shared(dialect, text.clone()).bind(id)
}
/// The column of [`select_one`] with the resource's number.
pub(super) const NUMBER: usize = 13;
/// The column with the version of the types.
pub(super) const VERSION: usize = 14;
/// The columns of `resource_history`.
pub(in crate::sql) const HISTORY_COLUMNS: &str = "id, type_number, original_resource_id, creator, user_id, project_id, \
    started_at, ended_at, revision_start, attributes, type_version, revision_end, revision";

/// Concurrent statements of a listing.
const STATEMENTS_AT_ONCE: usize = 4;

/// Which attributes a resource shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Attributes {
    /// Those of its own type.
    All,
    /// None, as a generic resource.
    None,
}

impl SqlIndexer {
    /// The active metrics of resources, by name; with `names` only those with one of these names.
    async fn metrics_of(
        &self,
        resources: &[Uuid],
        names: Option<&[String]>,
    ) -> Result<HashMap<Uuid, Arc<[Arc<Metric>]>>> {
        let mut found: HashMap<Uuid, Vec<Arc<Metric>>> = HashMap::new();
        let statements: Vec<Statement> = resources
            .chunks(IDS_NAMED_MAX)
            .map(|resources| metrics_of_statement(self.readers.dialect(), resources, names))
            .collect();
        let (readers, texts, damage) = (&self.readers, &self.texts, &self.damage);
        let are_many = resources.len() > IDS_NAMED_MAX;
        let read = statements.into_iter().map(|statement| async move {
            let statement = if are_many { statement.for_search() } else { statement };
            let rows = readers.fetch_all(statement).await?;
            let (texts, damage) = (texts.clone(), damage.clone());
            let decode = move || metric::decode_listed(&rows, &texts, &damage);
            if are_many {
                spawn_blocking(decode).await.unwrap_or_else(|error| Err(IndexerError::stopping(error)))
            } else {
                decode()
            }
        });
        let mut read = stream::iter(read).buffer_unordered(STATEMENTS_AT_ONCE);
        while let Some(metrics) = read.next().await {
            for metric in metrics? {
                let resource = metric.resource_id.expect("the statement asks for metrics of resources");
                found.entry(resource).or_default().push(metric);
            }
        }
        let sorted = found.into_iter().map(|(resource, mut metrics)| {
            sort_by_name(&mut metrics);
            (resource, metrics.into())
        });
        Ok(sorted.collect())
    }

    /// Adds their active metrics to new resources; with `names` only those with one of these names.
    pub(in crate::sql) async fn with_metrics(
        &self,
        mut resources: Vec<Arc<Resource>>,
        names: Option<&[String]>,
    ) -> Result<Vec<Arc<Resource>>> {
        let mut ids: Vec<_> = resources.iter().map(|resource| resource.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let metrics = self.metrics_of(&ids, names).await?;
        for resource in &mut resources {
            let resource = Arc::get_mut(resource).expect("nobody else has the resource yet");
            resource.metrics = metrics.get(&resource.id).cloned().unwrap_or_default();
        }
        Ok(resources)
    }
}

pub(super) fn metrics_of_statement(
    dialect: Dialect,
    resources: &[Uuid],
    names: Option<&[String]>,
) -> Statement {
    let select = format!("SELECT {} FROM metric WHERE status = 0 AND resource_id", metric::COLUMNS);
    let mut query = among(dialect, select, resources.iter().copied());
    let Some(names) = names else { return query };
    let mut before = " AND name IN (";
    for name in names {
        query.push(before).push_bind(name);
        before = ", ";
    }
    query.push(if names.is_empty() { " AND name IN (NULL)" } else { ")" });
    query
}

/// The error for a resource whose row cannot be read.
pub(super) fn damaged(id: Uuid, reason: &dyn Display) -> IndexerError {
    IndexerError::DamagedResource { id, reason: reason.to_string() }
}

/// Decodes a row of [`columns`] or [`HISTORY_COLUMNS`], without metrics; `None` if its type is newer than the types
/// read.
pub(super) fn decode(
    row: &Row,
    types: &Types,
    attributes: Attributes,
    texts: &Texts,
) -> Result<Option<Resource>> {
    let Some(stored) = types.numbered(row.try_get(1)?) else { return Ok(None) };
    let id = id_at(row, 0)?;
    let attributes = match attributes {
        Attributes::All => {
            let json: &str = row.try_get(9).map_err(|error| damaged(id, &error))?;
            stored.attributes_of(json, row.try_get(10)?).map_err(|error| damaged(id, &error))?
        }
        Attributes::None => BTreeMap::new(),
    };
    decode_fields(id, row, stored, attributes, texts).map(Some).map_err(|error| damaged(id, &reason(&error)))
}

fn decode_fields(
    id: Uuid,
    row: &Row,
    stored: &StoredType,
    attributes: BTreeMap<Text, AttributeValue>,
    texts: &Texts,
) -> Result<Resource, gnudi_sql::Error> {
    let label = |column: usize| -> Result<_, gnudi_sql::Error> {
        Ok(row.try_get::<Option<&str>>(column)?.map(|label| texts.labels.intern(label)))
    };
    Ok(Resource {
        id,
        resource_type: stored.resource_type.name.clone(),
        original_resource_id: row.try_get::<&str>(2)?.into(),
        creator: texts.labels.intern(row.try_get(3)?),
        user_id: label(4)?,
        project_id: label(5)?,
        started_at: Timestamp(row.try_get(6)?),
        ended_at: row.try_get::<Option<i64>>(7)?.map(Timestamp),
        revision_start: Timestamp(row.try_get(8)?),
        revision_end: row.try_get::<Option<i64>>(11)?.map(Timestamp),
        revision: row.try_get(12)?,
        attributes,
        metrics: Arc::default(),
    })
}
