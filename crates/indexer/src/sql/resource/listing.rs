//! The statements that search resources.
//!
//! Pages are cut as those of metrics are (`sql/listing.rs`): what lies behind the marker is read in pieces that follow each
//! other. Where the history is listed, each piece is the union of what is and what was, both in the order of the page.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, Timestamp, resource_type::GENERIC};
use sqlx::QueryBuilder;
use uuid::Uuid;

use super::{
    DELETED_AT_ONCE_MAX,
    delete::delete_some,
    row::{Attributes, COLUMNS, HISTORY_COLUMNS, decode, id_of},
};
use crate::{
    DeletedResources, Filter, IndexerError, ResourceListing, ResourceMarker, SortDirection,
    filter::{Condition, Field, FieldSort, Scalar, Scope, invalid_marker, order_of},
    sql::{
        Connection, Database, SqlIndexer,
        failure::{Failure, indexer_error},
        filter::{Columns, Rows, bind, bind_json, column_of, push_attribute, push_condition},
        interner::Texts,
        metric::push_uuids,
        types,
        types::{StoredType, Types},
        writer::Change,
    },
};

type Query = QueryBuilder<Database>;

pub(super) async fn list(
    indexer: &SqlIndexer,
    listing: &ResourceListing,
) -> Result<Vec<Arc<Resource>>, IndexerError> {
    let types = indexer.types().await?;
    let stored = types.named(&listing.resource_type)?;
    let scope = Scope { resource_type: &stored.resource_type, history: listing.history, now: listing.now };
    let condition = listing.filter.as_ref().map(|filter| Condition::read(filter, scope)).transpose()?;
    let order = order_of(&listing.page.sorts, scope)?;
    let search = Search { indexer, types: &types, stored, listing, order: &order };
    let pieces = match listing.page.marker {
        None => vec![Piece::default()],
        Some(marker) => pieces_behind(&search.marker(marker).await?, &order),
    };
    let limit = listing.page.limit.unwrap_or(usize::MAX);
    let mut page = Vec::new();
    for piece in &pieces {
        let missing = limit - page.len();
        if missing == 0 {
            break;
        }
        page.extend(search.read(condition.as_ref(), piece, missing).await?);
    }
    indexer.with_metrics(page).await
}

/// A listing, and what its statements must know.
struct Search<'a> {
    indexer: &'a SqlIndexer,
    types: &'a Types,
    stored: &'a StoredType,
    listing: &'a ResourceListing,
    order: &'a [FieldSort],
}

/// A part of the order whose leading fields have the marker's values.
#[derive(Debug, Default)]
struct Piece {
    equal: Vec<Option<Scalar>>,
    /// Where the field after those begins.
    bound: Option<Bound>,
}

#[derive(Debug)]
enum Bound {
    Above(Scalar),
    Below(Scalar),
    IsNull,
    IsNotNull,
}

fn pieces_behind(marker: &Resource, order: &[FieldSort]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let values: Vec<_> = order.iter().map(|sort| sort.field.value(marker)).collect();
    for (from, sort) in order.iter().enumerate().rev() {
        let bounds = match (values[from].clone(), sort.direction.nulls_first()) {
            (None, true) => vec![Bound::IsNotNull],
            (None, false) => vec![],
            (Some(value), nulls_first) => {
                let behind =
                    if sort.direction.is_ascending() { Bound::Above(value) } else { Bound::Below(value) };
                if nulls_first || !sort.field.is_nullable() {
                    vec![behind]
                } else {
                    vec![behind, Bound::IsNull]
                }
            }
        };
        for bound in bounds {
            pieces.push(Piece { equal: values[..from].to_vec(), bound: Some(bound) });
        }
    }
    pieces
}

impl Search<'_> {
    async fn marker(&self, marker: ResourceMarker) -> Result<Resource, IndexerError> {
        let history = self.listing.history;
        let mut query = QueryBuilder::new("");
        let rows = if history && marker.revision != Resource::CURRENT { Rows::Past } else { Rows::Current };
        self.push_select(&mut query, rows, false);
        query.push(" AND r.id = ").push_bind(marker.id.as_bytes().to_vec());
        if rows == Rows::Past {
            query.push(" AND r.revision = ").push_bind(marker.revision);
        }
        // Whatever the listing shows, the order may look at attributes.
        let found = self.fetch(&mut query, Attributes::All).await?.pop();
        found.ok_or_else(|| invalid_marker(marker, history))
    }

    async fn read(
        &self,
        condition: Option<&Condition>,
        piece: &Piece,
        limit: usize,
    ) -> Result<Vec<Resource>, IndexerError> {
        let shown =
            if is_generic(self.stored) && !self.listing.details { Attributes::None } else { Attributes::All };
        self.fetch(&mut self.statement(condition, piece, limit), shown).await
    }

    async fn fetch(&self, query: &mut Query, shown: Attributes) -> Result<Vec<Resource>, IndexerError> {
        let rows = query.build().fetch_all(&self.indexer.readers).await;
        let mut resources = Vec::new();
        for row in rows.map_err(|error| indexer_error(&error))? {
            resources.extend(self.indexer.decode_resource(&row, self.types, shown)?);
        }
        Ok(resources)
    }

    fn statement(&self, condition: Option<&Condition>, piece: &Piece, limit: usize) -> Query {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut query = QueryBuilder::new("");
        if !self.listing.history {
            self.push_part(&mut query, Rows::Current, condition, piece, limit);
            return query;
        }
        query.push("SELECT * FROM (");
        self.push_part(&mut query, Rows::Current, condition, piece, limit);
        query.push(") UNION ALL SELECT * FROM (");
        self.push_part(&mut query, Rows::Past, condition, piece, limit);
        let terms: Vec<_> =
            self.order.iter().enumerate().map(|(at, sort)| order_term(&format!("k{at}"), sort)).collect();
        query.push(format_args!(") ORDER BY {} LIMIT ", terms.join(", "))).push_bind(limit);
        query
    }

    /// Up to so many rows of the piece, in the order of the listing.
    fn push_part(
        &self,
        query: &mut Query,
        rows: Rows,
        condition: Option<&Condition>,
        piece: &Piece,
        limit: i64,
    ) {
        self.push_select(query, rows, self.listing.history);
        if let Some(condition) = condition {
            query.push(" AND ");
            push_condition(query, columns(rows, self.stored), condition, false);
        }
        for (sort, value) in self.order.iter().zip(&piece.equal) {
            query.push(" AND ");
            self.push_key(query, rows, &sort.field);
            match value {
                None => drop(query.push(" IS NULL")),
                Some(value) => bind_key(query.push(" = "), &sort.field, value),
            }
        }
        if let Some(bound) = &piece.bound {
            let field = &self.order[piece.equal.len()].field;
            query.push(" AND ");
            self.push_key(query, rows, field);
            match bound {
                Bound::IsNull => drop(query.push(" IS NULL")),
                Bound::IsNotNull => drop(query.push(" IS NOT NULL")),
                Bound::Above(value) => bind_key(query.push(" > "), field, value),
                Bound::Below(value) => bind_key(query.push(" < "), field, value),
            }
        }
        self.push_order(query, rows, &self.order[piece.equal.len()..]);
        query.push(" LIMIT ").push_bind(limit);
    }

    fn push_select(&self, query: &mut Query, rows: Rows, with_keys: bool) {
        let columns = match rows {
            Rows::Current => COLUMNS,
            Rows::Past => HISTORY_COLUMNS,
        };
        query.push(format_args!("SELECT {columns}"));
        if with_keys {
            for (at, sort) in self.order.iter().enumerate() {
                query.push(", ");
                self.push_key(query, rows, &sort.field);
                query.push(format_args!(" AS k{at}"));
            }
        }
        push_rows(query, rows, self.stored);
    }

    fn push_key(&self, query: &mut Query, rows: Rows, field: &Field) {
        match field {
            Field::Attribute { name, .. } => push_attribute(query, &self.stored.attributes[name]),
            field => drop(query.push(column_of(field, rows))),
        }
    }

    fn push_order(&self, query: &mut Query, rows: Rows, order: &[FieldSort]) {
        let mut separator = " ORDER BY ";
        for sort in order {
            // What all rows share does not order them, and a number would stand for a column.
            if rows == Rows::Current && matches!(sort.field, Field::Revision | Field::RevisionEnd) {
                continue;
            }
            query.push(separator);
            self.push_key(query, rows, &sort.field);
            query.push(order_term("", sort));
            separator = ", ";
        }
    }
}

fn is_generic(stored: &StoredType) -> bool {
    stored.resource_type.name == GENERIC
}

fn columns(rows: Rows, stored: &StoredType) -> Columns<'_> {
    Columns { rows, attributes: &stored.attributes }
}

/// What follows the columns: the table, and a condition that all rows of the type fulfil.
fn push_rows(query: &mut Query, rows: Rows, stored: &StoredType) {
    query.push(format_args!(" FROM {} r WHERE ", rows.table()));
    if is_generic(stored) {
        query.push("TRUE");
    } else {
        query.push(format_args!("r.type_number = {}", stored.number));
    }
}

/// `SQLite` and `MySQL` take NULL for the least of values, and only a listing that wants it otherwise says so.
fn order_term(key: &str, sort: &FieldSort) -> String {
    let direction = if sort.direction.is_ascending() { "ASC" } else { "DESC" };
    let nulls = match sort.direction {
        SortDirection::AscendingNullsLast if sort.field.is_nullable() => " NULLS LAST",
        SortDirection::DescendingNullsFirst if sort.field.is_nullable() => " NULLS FIRST",
        _ => "",
    };
    format!("{key} {direction}{nulls}")
}

fn bind_key(query: &mut Query, field: &Field, value: &Scalar) {
    match field {
        Field::Attribute { .. } => bind_json(query, value),
        _ => bind(query, value),
    }
}

/// Searches first, then deletes some at a time, after looking whether the filter still takes them.
pub(super) async fn delete_matching(
    indexer: &SqlIndexer,
    resource_type: &str,
    filter: &Filter,
    now: Timestamp,
) -> Result<DeletedResources, IndexerError> {
    let types = indexer.types().await?;
    let stored = types.named(resource_type)?;
    let condition =
        Condition::read(filter, Scope { resource_type: &stored.resource_type, history: false, now })?;
    let mut query = QueryBuilder::new("SELECT r.id");
    push_rows(&mut query, Rows::Current, stored);
    query.push(" AND ");
    push_condition(&mut query, columns(Rows::Current, stored), &condition, false);
    let rows = query.build().fetch_all(&indexer.readers).await.map_err(|error| indexer_error(&error))?;
    let ids: Result<Vec<Uuid>, _> = rows.iter().map(id_of).collect();
    let ids = ids.map_err(|error| indexer_error(&error))?;
    let mut deleted = DeletedResources::default();
    for ids in ids.chunks(DELETED_AT_ONCE_MAX) {
        let change = DeleteMatching {
            ids: ids.to_vec(),
            resource_type: resource_type.to_owned(),
            filter: filter.clone(),
            now,
            texts: indexer.texts.clone(),
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
    texts: Arc<Texts>,
}

#[async_trait]
impl Change for DeleteMatching {
    type Answer = HashMap<Uuid, Vec<MetricId>>;

    async fn apply(self, connection: &mut Connection) -> Result<Self::Answer, Failure> {
        let types = types::load(&mut *connection).await.map_err(Failure::Broken)?;
        let stored = types.named(&self.resource_type).map_err(Failure::Refused)?;
        let scope = Scope { resource_type: &stored.resource_type, history: false, now: self.now };
        let condition = Condition::read(&self.filter, scope).map_err(Failure::Refused)?;
        let mut query = QueryBuilder::<Database>::new(format!("SELECT {COLUMNS}"));
        push_rows(&mut query, Rows::Current, stored);
        query.push(" AND r.id IN (");
        push_uuids(&mut query, &self.ids);
        let mut ids = Vec::with_capacity(self.ids.len());
        for row in query.build().fetch_all(&mut *connection).await? {
            let found = decode(&row, &types, Attributes::All, &self.texts);
            let found = found.map_err(Failure::Broken)?;
            ids.extend(found.filter(|found| condition.evaluate(found) == Some(true)).map(|found| found.id));
        }
        Ok(if ids.is_empty() { HashMap::new() } else { delete_some(connection, &types, &ids).await? })
    }
}
