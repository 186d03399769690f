//! Statements that search resources.
//!
//! In listings of the history, each piece is the union of current and former revisions, both in the order of the page.

use std::{borrow::Cow, sync::Arc};

use gnudi_model::{Resource, resource_type::GENERIC};
use uuid::Uuid;

use super::row::{self, Attributes, HISTORY_COLUMNS};
use crate::{
    ResourceListing, ResourceMarker, Result,
    filter::{Condition, Field, FieldSort, Scalar, Test, invalid_marker},
    sql::{
        Dialect, Row, SqlIndexer, Statement,
        damage::full_page,
        decoding::decode_all,
        filter::{
            Columns, Query, Rows, bind, bind_own, check_values, column_of, is_driven, measurable, measuring,
            push_attribute, push_condition,
        },
        pieces::Piece,
        types::{StoredType, Types},
    },
};

pub(super) async fn list(indexer: &SqlIndexer, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>> {
    // The cached types are mostly current: the statement that counts values returns their version, which saves a query.
    if let Some(types) = indexer.types.latest()
        && let Ok(plan) = Plan::read(&types, listing)
        && let (common, Some(version)) = plan.common(indexer).await?
        && version == types.version
    {
        return plan.search(indexer, &types, &common).await;
    }
    let types = indexer.types().await?;
    let plan = Plan::read(&types, listing)?;
    let (common, _) = plan.common(indexer).await?;
    plan.search(indexer, &types, &common).await
}

/// A listing resolved against the types.
struct Plan<'a> {
    listing: &'a ResourceListing,
    /// Whose attributes are shown.
    shown: Attributes,
    stored: &'a StoredType,
    condition: Option<Condition>,
    order: Vec<FieldSort>,
}

impl<'a> Plan<'a> {
    fn read(types: &'a Types, listing: &'a ResourceListing) -> Result<Self> {
        let stored = types.named(&listing.resource_type)?;
        let has_none = listing.omits_attributes || (is_generic(stored) && !listing.details);
        let shown = if has_none { Attributes::None } else { Attributes::All };
        let (condition, order) = listing.search(&stored.resource_type)?;
        Ok(Plan { listing, shown, stored, condition, order })
    }

    /// The common tests in current revisions, and in former ones if listed, and the version of the types if anything
    /// was counted.
    async fn common(&self, indexer: &SqlIndexer) -> Result<(Vec<Vec<&Test>>, Option<i64>)> {
        let rows: &[Rows] =
            if self.listing.history { &[Rows::Current, Rows::Past] } else { &[Rows::Current] };
        let (mut common, mut version) = (Vec::new(), None);
        for rows in rows {
            let found = common_tests(indexer, self.stored, *rows, self.condition.as_ref()).await?;
            common.push(found.tests);
            version = version.or(found.types_version);
        }
        Ok((common, version))
    }

    async fn search(
        &self,
        indexer: &SqlIndexer,
        types: &Arc<Types>,
        common: &[Vec<&Test>],
    ) -> Result<Vec<Arc<Resource>>> {
        let Plan { listing, shown, order, .. } = self;
        let search = Search { indexer, types, plan: self, common };
        let pieces = match &listing.page.marker {
            None => vec![Piece::default()],
            Some(ResourceMarker::Listed(resource)) => pieces_behind(resource, order),
            Some(ResourceMarker::Revision { id, revision }) => {
                pieces_behind(&*search.marker(*id, *revision).await?, order)
            }
        };
        let limit = listing.page.limit.unwrap_or(usize::MAX);
        let mut page = Vec::new();
        for piece in &pieces {
            let missing = limit - page.len();
            if missing == 0 {
                break;
            }
            let fetch = |rows_max| search.fetch(search.statement(piece, rows_max), *shown);
            page.append(&mut full_page(missing, fetch).await?);
        }
        indexer.with_metrics(page, listing.metric_names.as_deref()).await
    }
}

/// A listing, with the context of its statements.
struct Search<'a> {
    indexer: &'a SqlIndexer,
    types: &'a Arc<Types>,
    plan: &'a Plan<'a>,
    /// Common tests: for current revisions, and for former ones if listed.
    common: &'a [Vec<&'a Test>],
}

fn pieces_behind(marker: &Resource, order: &[FieldSort]) -> Vec<Piece<Scalar>> {
    let key = |sort: &FieldSort| (sort.field.value(marker), sort.direction, sort.field.is_nullable());
    Piece::behind(&order.iter().map(key).collect::<Vec<_>>())
}

impl Search<'_> {
    async fn marker(&self, id: Uuid, revision: i64) -> Result<Arc<Resource>> {
        let history = self.plan.listing.history;
        let mut query = Statement::new(self.dialect(), "");
        let rows = if history && revision != Resource::CURRENT { Rows::Past } else { Rows::Current };
        // Whatever the listing shows, the order may use attributes.
        let has_attributes = self.plan.order.iter().any(|sort| matches!(sort.field, Field::Attribute { .. }));
        let shown = if has_attributes { Attributes::All } else { Attributes::None };
        self.push_select(&mut query, rows, shown, false, false);
        query.push(" AND r.id = ").push_bind(id);
        if rows == Rows::Past {
            query.push(" AND r.revision = ").push_bind(revision);
        }
        let (mut found, _) = self.fetch(query, shown).await?;
        found.pop().ok_or_else(|| invalid_marker(id, revision, history))
    }

    fn dialect(&self) -> Dialect {
        self.indexer.readers.dialect()
    }

    /// The resources, and how many rows are left out: damaged ones, and those of types created since `types` was read.
    async fn fetch(&self, query: Statement, shown: Attributes) -> Result<(Vec<Arc<Resource>>, usize)> {
        check_values(&query)?;
        let rows = self.indexer.readers.fetch_all(query.for_search()).await?;
        let count = rows.len();
        let (types, texts) = (self.types.clone(), self.indexer.texts.clone());
        let damage = self.indexer.damage.clone();
        let decode = move |row: &Row| {
            let decoded = damage.leave_out(row::decode(row, &types, shown, &texts))?;
            Ok(decoded.map(Arc::new))
        };
        let resources: Vec<_> = decode_all(rows, decode).await?.into_iter().flatten().collect();
        let left_out = count - resources.len();
        Ok((resources, left_out))
    }

    fn statement(&self, piece: &Piece<Scalar>, limit: usize) -> Query {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut query = Statement::new(self.dialect(), "");
        if !self.plan.listing.history {
            self.push_part(&mut query, Rows::Current, piece, limit);
            return query;
        }
        // MySQL orders a union by its columns only.
        let is_wrapped = self.dialect() == Dialect::Mysql;
        query.push(if is_wrapped { "SELECT * FROM (SELECT * FROM (" } else { "SELECT * FROM (" });
        self.push_part(&mut query, Rows::Current, piece, limit);
        query.push(") AS present UNION ALL SELECT * FROM (");
        self.push_part(&mut query, Rows::Past, piece, limit);
        query.push(if is_wrapped { ") AS past) AS both_times" } else { ") AS past" });
        let terms: Vec<_> = self
            .plan
            .order
            .iter()
            .enumerate()
            .map(|(at, sort)| order_term(self.dialect(), &format!("k{at}"), sort))
            .collect();
        query.push(format_args!(" ORDER BY {} LIMIT ", terms.join(", "))).push_bind(limit);
        query
    }

    /// Up to this many rows of the piece, in the order of the listing.
    fn push_part(&self, query: &mut Query, rows: Rows, piece: &Piece<Scalar>, limit: i64) {
        let Plan { listing, shown, stored, condition, order } = self.plan;
        let columns = columns(rows, stored, self.common.get(rows as usize).map_or(&[], Vec::as_slice));
        let driven = condition.as_ref().is_some_and(|condition| is_driven(columns, condition, false));
        self.push_select(query, rows, *shown, listing.history, driven);
        if let Some(condition) = condition {
            query.push(" AND ");
            push_condition(query, columns, condition, false);
        }
        let push_key = |query: &mut Query, at: usize| self.push_key(query, rows, &order[at].field);
        piece.push(query, push_key, |query, at, value| match order[at].field {
            Field::Attribute { .. } => bind_own(query, value),
            _ => bind(query, value),
        });
        self.push_order(query, rows, &order[piece.from()..]);
        query.push(" LIMIT ").push_bind(limit);
    }

    fn push_select(&self, query: &mut Query, rows: Rows, shown: Attributes, with_keys: bool, driven: bool) {
        let columns = match rows {
            Rows::Current => Cow::Owned(row::columns(self.dialect())),
            Rows::Past => Cow::Borrowed(HISTORY_COLUMNS),
        };
        query.push("SELECT ");
        match shown {
            Attributes::All => query.push(columns),
            Attributes::None => query.push(row::without_attributes(&columns)),
        };
        if with_keys {
            for (at, sort) in self.plan.order.iter().enumerate() {
                query.push(", ");
                self.push_key(query, rows, &sort.field);
                query.push(format_args!(" AS k{at}"));
            }
        }
        push_rows(query, rows, self.plan.stored, driven);
    }

    fn push_key(&self, query: &mut Query, rows: Rows, field: &Field) {
        match field {
            Field::Attribute { name, .. } => push_attribute(query, rows, &self.plan.stored.attributes[name]),
            field => drop(query.push(column_of(self.dialect(), field, rows))),
        }
    }

    fn push_order(&self, query: &mut Query, rows: Rows, order: &[FieldSort]) {
        let mut separator = " ORDER BY ";
        for sort in order {
            // A constant does not sort, and a number would mean a column.
            if rows == Rows::Current && matches!(sort.field, Field::Revision | Field::RevisionEnd) {
                continue;
            }
            let mut key = Statement::new(self.dialect(), "");
            self.push_key(&mut key, rows, &sort.field);
            let term = order_term(self.dialect(), key.sql(), sort);
            query.push(separator).push(&term);
            // A key that occurs twice binds its values twice.
            let times = if key.values.is_empty() { 0 } else { term.matches('?').count() / key.values.len() };
            for _ in 0..times {
                query.values.extend(key.values.iter().cloned());
            }
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

/// A filter's comparisons that are better tested row by row.
#[derive(Default)]
pub(super) struct Common<'c> {
    pub(super) tests: Vec<&'c Test>,
    /// The version when they were counted; `None` if nothing was counted.
    types_version: Option<i64>,
}

pub(super) async fn common_tests<'c>(
    indexer: &SqlIndexer,
    stored: &StoredType,
    rows: Rows,
    condition: Option<&'c Condition>,
) -> Result<Common<'c>> {
    let mut tests = Vec::new();
    if let Some(condition) = condition {
        measurable(condition, false, &mut tests);
    }
    if tests.is_empty() {
        return Ok(Common::default());
    }
    let rare_max = indexer.rows_rare_max;
    let dialect = indexer.readers.dialect();
    let query = measuring(dialect, columns(rows, stored, &[]), &tests, rare_max.saturating_add(1));
    let row = indexer.readers.fetch_one(query.for_search()).await?;
    let mut common = Common { types_version: Some(row.try_get(tests.len())?), ..Common::default() };
    for (at, measured) in tests.iter().enumerate() {
        if row.try_get::<i64>(at)? > i64::from(rare_max) {
            common.tests.push(measured.test);
        }
    }
    Ok(common)
}

/// What follows the columns: the table, and a condition on the type. The condition must not use an index if the rows
/// are found otherwise (`driven`): without statistics a planner assumes that every type is small.
pub(super) fn push_rows(query: &mut Query, rows: Rows, stored: &StoredType, driven: bool) {
    query.push(format_args!(" FROM {} r WHERE ", rows.table()));
    if is_generic(stored) {
        query.push("TRUE");
    } else {
        let hidden = if driven && query.dialect == Dialect::Sqlite { "+" } else { "" };
        query.push(format_args!("{hidden}r.type_number = {}", stored.number));
    }
}

fn order_term(dialect: Dialect, key: &str, sort: &FieldSort) -> String {
    let direction = sort.direction;
    dialect.order_term(key, direction.is_ascending(), sort.field.is_nullable(), direction.nulls_first())
}

#[cfg(test)]
mod tests;
