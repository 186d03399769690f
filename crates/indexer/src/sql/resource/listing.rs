//! The statements that search resources.
//!
//! Pages are cut as those of metrics are (`sql/listing.rs`): what lies behind the marker is read in pieces that follow each
//! other. Where the history is listed, each piece is the union of what is and what was, both in the order of the page.

use std::sync::Arc;

use gnudi_model::{Resource, resource_type::GENERIC};
use sqlx::{QueryBuilder, Row};

use super::row::{Attributes, COLUMNS, HISTORY_COLUMNS};
use crate::{
    IndexerError, ResourceListing, ResourceMarker, SortDirection,
    filter::{Condition, Field, FieldSort, Scalar, Scope, Test, invalid_marker, order_of},
    sql::{
        Database, SqlIndexer,
        failure::indexer_error,
        filter::{
            Columns, Rows, bind, bind_json, column_of, is_driven, measurable, measuring, push_attribute,
            push_condition,
        },
        types::{StoredType, Types},
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
    let rows: &[Rows] = if listing.history { &[Rows::Current, Rows::Past] } else { &[Rows::Current] };
    let mut common = Vec::new();
    for rows in rows {
        common.push(common_tests(indexer, stored, *rows, condition.as_ref()).await?);
    }
    let search = Search { indexer, types: &types, stored, listing, order: &order, common: &common };
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
    /// For what is, and for what was where that is listed: the tests that are common.
    common: &'a [Vec<&'a Test>],
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
        self.push_select(&mut query, rows, false, false);
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
        let columns = columns(rows, self.stored, self.common.get(rows as usize).map_or(&[], Vec::as_slice));
        let driven = condition.is_some_and(|condition| is_driven(columns, condition, false));
        self.push_select(query, rows, self.listing.history, driven);
        if let Some(condition) = condition {
            query.push(" AND ");
            push_condition(query, columns, condition, false);
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

    fn push_select(&self, query: &mut Query, rows: Rows, with_keys: bool, driven: bool) {
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
        push_rows(query, rows, self.stored, driven);
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

pub(super) fn columns<'a>(rows: Rows, stored: &'a StoredType, common: &'a [&'a Test]) -> Columns<'a> {
    Columns { rows, attributes: &stored.attributes, common }
}

/// Those of the filter's comparisons that are better not made by sets.
pub(super) async fn common_tests<'c>(
    indexer: &SqlIndexer,
    stored: &StoredType,
    rows: Rows,
    condition: Option<&'c Condition>,
) -> Result<Vec<&'c Test>, IndexerError> {
    let mut tests = Vec::new();
    if let Some(condition) = condition {
        measurable(condition, false, &mut tests);
    }
    if tests.is_empty() {
        return Ok(Vec::new());
    }
    let rare_max = indexer.rows_rare_max;
    let mut query = measuring(columns(rows, stored, &[]), &tests, rare_max.saturating_add(1));
    let broken = |error: sqlx::Error| indexer_error(&error);
    let row = query.build().fetch_one(&indexer.readers).await.map_err(broken)?;
    let mut common = Vec::new();
    for (at, measured) in tests.iter().enumerate() {
        if row.try_get::<i64, _>(at).map_err(broken)? > i64::from(rare_max) {
            common.push(measured.test);
        }
    }
    Ok(common)
}

/// What follows the columns: the table, and a condition that all rows of the type fulfil. No index serves it where the rows
/// are found otherwise (`driven`): a planner without statistics thinks every type small.
pub(super) fn push_rows(query: &mut Query, rows: Rows, stored: &StoredType, driven: bool) {
    query.push(format_args!(" FROM {} r WHERE ", rows.table()));
    if is_generic(stored) {
        query.push("TRUE");
    } else {
        query.push(format_args!("{}r.type_number = {}", if driven { "+" } else { "" }, stored.number));
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

#[cfg(test)]
mod tests;
