//! Reads Gnocchi's index in `PostgreSQL`, `MySQL` or `MariaDB`, versions 4.3 to 4.7, in one consistent snapshot.

pub(crate) mod documents;
mod revisions;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use gnudi_indexer::NewMetric;
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, AttributeValue, MetricId, ResourceType, Text, Timestamp,
    resource_type::GENERIC,
};
use gnudi_sql::{Connection, Connector, DatabaseOptions, Dialect, Purpose, Row, ServerOptions, Statement};
use uuid::Uuid;

use self::documents::{AttributeDocument, archive_policy};

/// The schema versions of Gnocchi 4.3 to 4.7 by alembic's names, oldest first. The columns read here are the same in
/// all.
const SCHEMAS: [&str; 5] = ["1e1a63d3d186", "04eba72e4f90", "18fff4509e3e", "94544ca86c7e", "f89ed2e3c2ec"];

/// The first version that stores when a metric got measures.
const SCHEMA_WITH_LAST_MEASURES: &str = "f89ed2e3c2ec";

/// Rows per statement.
const PAGE_ROWS: usize = 100_000;
/// Ids per statement.
pub const IDS_AT_ONCE: usize = 1_000;

/// Why an index cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{place}: {reason}")]
    Database { place: String, reason: String },
    #[error("{place}: no index of Gnocchi: there is no table alembic_version")]
    NotGnocchis { place: String },
    #[error("{place}: the schema {found} is none that Gnocchi 4.3 to 4.7 has: upgrade Gnocchi first")]
    UnknownSchema { place: String, found: String },
    #[error("{place}: {what} cannot be understood: {reason}")]
    Invalid { place: String, what: String, reason: String },
}

/// One revision of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceRevision {
    pub original_resource_id: String,
    pub creator: String,
    pub user_id: Option<String>,
    pub project_id: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub revision_start: Timestamp,
    pub attributes: BTreeMap<Text, AttributeValue>,
}

/// A resource with its revisions, oldest first; the last one is current.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceResource {
    pub id: Uuid,
    pub revisions: Vec<SourceRevision>,
}

/// A resource type, and the table of its attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceType {
    pub resource_type: ResourceType,
    /// When it was created, or its attributes were changed.
    pub updated_at: Timestamp,
    table: String,
}

/// An entry of the list of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceState {
    pub id: Uuid,
    pub resource_type: Text,
    /// Every change starts a new revision.
    pub revision_start: Timestamp,
}

/// An entry of the list of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricState {
    pub id: MetricId,
    /// When gnocchi-metricd last began to process measures of it; `None` before 4.7, which does not store it. It is
    /// written before the measures are stored, in `MySQL` and `MariaDB` in whole seconds.
    pub last_measures: Option<Timestamp>,
    pub place: MetricPlace,
}

/// Identifies a metric's resource and name, which Gnocchi may change: a hash, since all metrics are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MetricPlace(u64);

impl MetricPlace {
    pub fn of(resource_id: Option<Uuid>, name: Option<&str>) -> Self {
        let mut hasher = DefaultHasher::new();
        (resource_id, name).hash(&mut hasher);
        MetricPlace(hasher.finish())
    }
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    place: String,
    has_last_measures: bool,
}

impl Index {
    /// Connects, and checks that the database is an index of a known version.
    pub async fn open(server: &ServerOptions) -> Result<Self, IndexError> {
        let place = server.place();
        let connector = Connector::new(&DatabaseOptions::from(server));
        let failed = |error| IndexError::Database { place: place.clone(), reason: gnudi_sql::reason(&error) };
        let mut connection = connector.connect(Purpose::Read).await.map_err(failed)?;
        // Of the transaction, in seconds for `MySQL` and `MariaDB`, and in milliseconds.
        let (idle_for_12_hours, begin) = match connection.dialect() {
            Dialect::Mysql => (
                "SET SESSION wait_timeout = 43200 /*M!, SESSION idle_transaction_timeout = 43200 */",
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                 START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            ),
            _ => (
                "SET idle_in_transaction_session_timeout = 43200000",
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            ),
        };
        connection.run(idle_for_12_hours).await.map_err(failed)?;
        connection.run(begin).await.map_err(failed)?;
        let mut index = Index { connection, place, has_last_measures: false };
        index.has_last_measures = index.schema().await? == SCHEMA_WITH_LAST_MEASURES;
        Ok(index)
    }

    /// Keeps the connection from being closed for idleness, as proxies do it, while others are read for long.
    pub async fn touch(&mut self) -> Result<(), IndexError> {
        let select = self.once("SELECT 1".to_owned());
        self.read(select, |_| Ok(())).await.map(drop)
    }

    /// Rejects unknown versions.
    async fn schema(&mut self) -> Result<String, IndexError> {
        let schema = self.column("version_num", Form::Text);
        let select = self.once(format!("SELECT {schema} FROM alembic_version"));
        let versions = match self.connection.fetch_all(select).await {
            Err(error) if gnudi_sql::is_missing_table(&error) => {
                return Err(IndexError::NotGnocchis { place: self.place.clone() });
            }
            versions => versions.map_err(|error| self.error(&error))?,
        };
        let found: Vec<String> = self.decode(&versions, |row| row.try_get(0))?;
        match found.as_slice() {
            [version] if SCHEMAS.contains(&version.as_str()) => Ok(version.clone()),
            _ => Err(IndexError::UnknownSchema { place: self.place.clone(), found: found.join(", ") }),
        }
    }

    pub async fn archive_policies(&mut self) -> Result<Vec<ArchivePolicy>, IndexError> {
        let columns = self.columns(&[
            ("name", Form::Text),
            ("back_window", Form::Integer),
            ("definition", Form::Text),
            ("aggregation_methods", Form::Text),
        ]);
        let select = self.once(format!("SELECT {columns} FROM archive_policy ORDER BY name"));
        let texts = self
            .read(select, |row| {
                let (name, definition, methods): (String, String, String) =
                    (row.try_get(0)?, row.try_get(2)?, row.try_get(3)?);
                Ok((name, row.try_get::<i64>(1)?, definition, methods))
            })
            .await?;
        let policy = |(name, back_window, definition, methods): (String, i64, String, String)| {
            let invalid = |reason| self.invalid(format!("archive policy {name}"), reason);
            archive_policy(&name, back_window, &definition, &methods).map_err(invalid)
        };
        texts.into_iter().map(policy).collect()
    }

    pub async fn archive_policy_rules(&mut self) -> Result<Vec<ArchivePolicyRule>, IndexError> {
        let columns =
            self.columns(&[("r.name", Form::Text), ("r.metric_pattern", Form::Text), ("p.name", Form::Text)]);
        let select = self.once(format!(
            "SELECT {columns} FROM archive_policy_rule r JOIN archive_policy p ON p.name = r.archive_policy_name \
             ORDER BY r.name"
        ));
        self.read(select, |row| {
            Ok(ArchivePolicyRule {
                name: row.try_get(0)?,
                metric_pattern: row.try_get(1)?,
                archive_policy_name: row.try_get(2)?,
            })
        })
        .await
    }

    /// All except the generic one, and those being created or deleted.
    pub async fn resource_types(&mut self) -> Result<Vec<SourceType>, IndexError> {
        type Found = (String, String, String, String, Timestamp);
        let columns = self.columns(&[
            ("name", Form::Text),
            ("tablename", Form::Text),
            ("attributes", Form::Text),
            ("state", Form::Text),
            ("updated_at", Form::Time),
        ]);
        let select = self.once(format!("SELECT {columns} FROM resource_type ORDER BY name"));
        let found = self
            .read(select, |row| {
                let (name, table, state): (String, String, String) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
                let attributes = row.try_get::<Option<&str>>(2)?.unwrap_or("{}").to_owned();
                Ok((name, table, attributes, state, time(row.try_get(4)?)))
            })
            .await?;
        let exists = |(name, .., state, _): &Found| {
            name != GENERIC && matches!(state.as_str(), "active" | "updating" | "updating_error")
        };
        let source = |(name, table, attributes, _, updated_at): Found| {
            let invalid = |reason: String| self.invalid(format!("resource type {name}"), reason);
            if !table.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(invalid(format!("its table is called {table}")));
            }
            let attributes: BTreeMap<String, AttributeDocument> =
                serde_json::from_str(&attributes).map_err(|error| invalid(error.to_string()))?;
            let attribute = |(name, document): (String, AttributeDocument)| {
                Ok((name.into(), document.attribute().map_err(invalid)?))
            };
            let attributes = attributes.into_iter().map(attribute).collect::<Result<_, IndexError>>()?;
            let resource_type = ResourceType { name: name.as_str().into(), attributes };
            Ok(SourceType { resource_type, updated_at, table })
        };
        found.into_iter().filter(exists).map(source).collect()
    }

    /// The generic type.
    pub fn generic() -> SourceType {
        let resource_type = ResourceType { name: GENERIC.into(), attributes: BTreeMap::new() };
        SourceType { resource_type, updated_at: Timestamp::EPOCH, table: String::new() }
    }

    pub async fn resource_states(&mut self) -> Result<Vec<ResourceState>, IndexError> {
        let columns =
            self.columns(&[("r.id", Form::Id), ("t.name", Form::Text), ("r.revision_start", Form::Time)]);
        let select =
            format!("SELECT {columns} FROM resource r JOIN resource_type t ON t.name = r.type WHERE 1 = 1");
        let state = |row: &Row| {
            let (resource_type, revision_start) = (row.try_get::<&str>(1)?.into(), time(row.try_get(2)?));
            Ok(ResourceState { id: id_at(row, 0)?, resource_type, revision_start })
        };
        self.all(&select, state, |state| state.id).await
    }

    /// Whether [`MetricState::last_measures`] has whole seconds: two passes may have the same.
    pub fn has_whole_seconds(&self) -> bool {
        self.connection.dialect() == Dialect::Mysql
    }

    /// All except those being deleted.
    pub async fn metric_states(&mut self) -> Result<Vec<MetricState>, IndexError> {
        let last_measures = if self.has_last_measures {
            self.column("last_measure_timestamp", Form::Time)
        } else {
            "NULL".to_owned()
        };
        let columns = self.columns(&[("id", Form::Id), ("resource_id", Form::Id), ("name", Form::Text)]);
        let select = format!("SELECT {columns}, {last_measures} FROM metric WHERE status = 'active'");
        let has_last_measures = self.has_last_measures;
        let state = |row: &Row| {
            let last_measures = if has_last_measures { Some(time(row.try_get(3)?)) } else { None };
            let resource_id = row.try_get::<Option<&str>>(1)?.map(parse_id).transpose()?;
            let place = MetricPlace::of(resource_id, row.try_get(2)?);
            Ok(MetricState { id: MetricId(id_at(row, 0)?), last_measures, place })
        };
        self.all(&select, state, |state| state.id.0).await
    }

    /// The metrics of an archive policy.
    pub async fn metrics_of_policy(&mut self, policy: &str) -> Result<Vec<MetricId>, IndexError> {
        let id = self.column("id", Form::Id);
        let select = format!("SELECT {id} FROM metric WHERE status = 'active' AND archive_policy_name = ");
        let mut select = self.once(select);
        self.push_text(&mut select, policy);
        self.read(select, |row| Ok(MetricId(id_at(row, 0)?))).await
    }

    /// Metrics with these ids, sorted by id. At most [`IDS_AT_ONCE`] ids. Gnocchi does not store when they were
    /// created. The policy has its own name: `MySQL` takes another spelling of it, with capitals, for the same.
    pub async fn metrics(
        &mut self,
        ids: &[MetricId],
        created_at: Timestamp,
    ) -> Result<Vec<NewMetric>, IndexError> {
        let columns = self.columns(&[
            ("m.id", Form::Id),
            ("m.creator", Form::Text),
            ("m.name", Form::Text),
            ("m.unit", Form::Text),
            ("p.name", Form::Text),
            ("m.resource_id", Form::Id),
        ]);
        let mut select = self.once(format!(
            "SELECT {columns} FROM metric m JOIN archive_policy p ON p.name = m.archive_policy_name \
             WHERE m.status = 'active'"
        ));
        self.push_among(&mut select, "m.id", &ids.iter().map(|id| id.0).collect::<Vec<_>>());
        select.push(" ORDER BY m.id");
        self.read(select, |row| {
            let creator = row.try_get::<Option<&str>>(1)?.unwrap_or_default();
            Ok(NewMetric {
                name: row.try_get::<Option<&str>>(2)?.map(str::to_owned),
                unit: row.try_get::<Option<&str>>(3)?.map(str::to_owned),
                resource_id: row.try_get::<Option<&str>>(5)?.map(parse_id).transpose()?,
                ..NewMetric::new(MetricId(id_at(row, 0)?), creator, row.try_get(4)?, created_at)
            })
        })
        .await
    }

    /// A page of the metrics after an id, sorted by id; empty at the end.
    pub async fn metrics_behind(
        &mut self,
        behind: Option<MetricId>,
        created_at: Timestamp,
    ) -> Result<Vec<NewMetric>, IndexError> {
        let id = self.column("id", Form::Id);
        let select = self.once(format!("SELECT {id} FROM metric WHERE status = 'active'"));
        let ids = self.ids_behind(select, behind.map(|behind| behind.0)).await?;
        let ids: Vec<MetricId> = ids.into_iter().map(MetricId).collect();
        if ids.is_empty() { Ok(Vec::new()) } else { self.metrics(&ids, created_at).await }
    }

    /// A page of ids of a statement that ends with a condition.
    async fn ids_behind(
        &mut self,
        mut select: Statement,
        behind: Option<Uuid>,
    ) -> Result<Vec<Uuid>, IndexError> {
        if let Some(behind) = behind {
            select.push(" AND id > ");
            self.push_id(&mut select, behind);
        }
        select.push(format_args!(" ORDER BY id LIMIT {IDS_AT_ONCE}"));
        self.read(select, |row| id_at(row, 0)).await
    }

    /// All rows of a statement that ends with a condition, sorted by id.
    async fn all<T>(
        &mut self,
        select: &str,
        one: impl Fn(&Row) -> Result<T, gnudi_sql::Error>,
        id: impl Fn(&T) -> Uuid,
    ) -> Result<Vec<T>, IndexError> {
        let mut all = Vec::new();
        loop {
            let mut page = self.once(select.to_owned());
            if let Some(last) = all.last() {
                page.push(" AND id > ");
                self.push_id(&mut page, id(last));
            }
            page.push(format_args!(" ORDER BY id LIMIT {PAGE_ROWS}"));
            let some = self.read(page, &one).await?;
            let is_last = some.len() < PAGE_ROWS;
            all.extend(some);
            if is_last {
                return Ok(all);
            }
        }
    }

    fn quoted(&self, name: &str) -> String {
        let quote = if self.connection.dialect() == Dialect::Mysql { "`" } else { "\"" };
        format!("{quote}{}{quote}", name.replace(quote, &quote.repeat(2)))
    }

    fn columns(&self, columns: &[(&str, Form)]) -> String {
        let columns: Vec<String> = columns.iter().map(|(column, form)| self.column(column, *form)).collect();
        columns.join(", ")
    }

    /// A column in the form that `gnudi_sql` reads.
    fn column(&self, column: &str, form: Form) -> String {
        match (self.connection.dialect(), form) {
            (Dialect::Mysql, Form::Text) => format!("CAST({column} AS BINARY)"),
            (Dialect::Mysql, Form::Id) => format!("CAST(LOWER(HEX({column})) AS BINARY)"),
            (_, Form::Text | Form::Id) => format!("convert_to(CAST({column} AS TEXT), 'UTF8')"),
            (Dialect::Mysql, Form::Integer | Form::Bool) => format!("CAST({column} AS SIGNED)"),
            (_, Form::Integer) => format!("CAST({column} AS BIGINT)"),
            (_, Form::Bool) => format!("CAST(CAST({column} AS INT) AS BIGINT)"),
            (Dialect::Mysql, Form::Time) => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})"),
            (_, Form::Time) => format!("CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS BIGINT)"),
        }
    }

    fn push_text(&self, statement: &mut Statement, text: &str) {
        match self.connection.dialect() {
            Dialect::Mysql => statement.push_bind(text),
            _ => statement.push("convert_from(").push_bind(text).push(", 'UTF8')"),
        };
    }

    fn push_id(&self, statement: &mut Statement, id: Uuid) {
        match self.connection.dialect() {
            Dialect::Mysql => statement.push_bind(id),
            _ => statement.push(format_args!("CAST('{id}' AS UUID)")),
        };
    }

    fn push_among(&self, statement: &mut Statement, column: &str, ids: &[Uuid]) {
        debug_assert!((1..=IDS_AT_ONCE).contains(&ids.len()));
        statement.push(format_args!(" AND {column} IN ("));
        for (number, id) in ids.iter().enumerate() {
            statement.push(if number == 0 { "" } else { ", " });
            match self.connection.dialect() {
                Dialect::Mysql => statement.push(format_args!("UNHEX('{}')", id.simple())),
                _ => statement.push(format_args!("'{id}'")),
            };
        }
        statement.push(")");
    }

    fn once(&self, sql: String) -> Statement {
        Statement::once(self.connection.dialect(), sql)
    }

    async fn read<T>(
        &mut self,
        statement: Statement,
        one: impl Fn(&Row) -> Result<T, gnudi_sql::Error>,
    ) -> Result<Vec<T>, IndexError> {
        let rows = self.connection.fetch_all(statement).await;
        self.decode(&rows.map_err(|error| self.error(&error))?, one)
    }

    fn decode<T>(
        &self,
        rows: &[Row],
        one: impl Fn(&Row) -> Result<T, gnudi_sql::Error>,
    ) -> Result<Vec<T>, IndexError> {
        let all: Result<Vec<T>, _> = rows.iter().map(one).collect();
        all.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &gnudi_sql::Error) -> IndexError {
        IndexError::Database { place: self.place.clone(), reason: gnudi_sql::reason(error) }
    }

    fn invalid(&self, what: String, reason: String) -> IndexError {
        IndexError::Invalid { place: self.place.clone(), what, reason }
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// A UUID: a text with or without dashes.
    Id,
    Integer,
    /// Microseconds since 1970.
    Time,
    Bool,
}

fn parse_id(text: &str) -> Result<Uuid, gnudi_sql::Error> {
    Uuid::try_parse(text).map_err(|error| gnudi_sql::Error::Decode(error.into()))
}

fn id_at(row: &Row, index: usize) -> Result<Uuid, gnudi_sql::Error> {
    parse_id(row.try_get(index)?)
}

fn time(microseconds: i64) -> Timestamp {
    Timestamp(microseconds.saturating_mul(1000))
}
