//! Converts filters to SQL.
//!
//! Negations are pushed down to the comparisons. The remaining tree has only AND and OR, in which unknown is equivalent
//! to false: so each comparison is written to find the rows for which it is true, and attribute values are found
//! through their index, as sets of resources.

use std::collections::BTreeMap;

use gnudi_model::Text;

use super::{
    Dialect, Statement, attribute,
    pattern::push_matches,
    resource::{push_name, sortable},
    types::{SELECT_VERSION, StoredAttribute},
};
use crate::{
    IndexerError, Result,
    filter::{Comparison, Condition, Field, Pattern, Scalar, Test},
};

/// The table that a statement reads, as `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Current revisions: `resource`.
    Current,
    /// Former revisions: `resource_history`.
    Past,
}

impl Rows {
    pub(super) const fn table(self) -> &'static str {
        match self {
            Rows::Current => "resource",
            Rows::Past => "resource_history",
        }
    }

    /// The index of values, its column that refers to a row, and that row's own column.
    const fn values(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Rows::Current => ("resource_value", "resource_number", "r.number"),
            Rows::Past => ("resource_history_value", "revision", "r.revision"),
        }
    }
}

/// Context for field names in statements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    pub(super) rows: Rows,
    /// All attributes used in conditions and orders.
    pub(super) attributes: &'a BTreeMap<Text, StoredAttribute>,
    /// Comparisons that match so many values that testing row by row is better.
    pub(super) common: &'a [&'a Test],
}

impl Columns<'_> {
    fn is_common(&self, test: &Test) -> bool {
        self.common.iter().any(|common| std::ptr::eq(*common, test))
    }
}

/// How many comparisons of a filter are measured.
const TESTS_MEASURED_MAX: usize = 16;

/// A comparison with an attribute's values, its negation, or a pattern for creators.
pub(super) struct Measured<'c> {
    attribute: Option<&'c Text>,
    pub(super) test: &'c Test,
    negate: bool,
}

/// The comparisons whose matches an index can count quickly.
pub(super) fn measurable<'c>(condition: &'c Condition, negate: bool, found: &mut Vec<Measured<'c>>) {
    match condition {
        Condition::Not(condition) => measurable(condition, !negate, found),
        Condition::All(conditions) | Condition::Any(conditions) => {
            for condition in conditions {
                measurable(condition, negate, found);
            }
        }
        Condition::Test(Field::Attribute { name, .. }, test) => {
            let is_quick = match Leaf::new(test, negate).found() {
                Leaf::Like(pattern) => !pattern.prefix().is_empty(),
                Leaf::Compare(..) | Leaf::In(_) => true,
                _ => false,
            };
            if is_quick && found.len() < TESTS_MEASURED_MAX {
                found.push(Measured { attribute: Some(name), test, negate });
            }
        }
        Condition::Test(Field::Creator, test) => {
            let is_set =
                matches!(Leaf::new(test, negate), Leaf::Like(pattern) if pattern.prefix().is_empty());
            if is_set && found.len() < TESTS_MEASURED_MAX {
                found.push(Measured { attribute: None, test, negate });
            }
        }
        Condition::Test(..) => {}
    }
}

/// Whether the condition is true only for a set of few rows, found through the index of values.
pub(super) fn is_driven(columns: Columns<'_>, condition: &Condition, negate: bool) -> bool {
    match (condition, negate) {
        (Condition::Not(condition), _) => is_driven(columns, condition, !negate),
        (Condition::All(conditions), false) | (Condition::Any(conditions), true) => {
            conditions.iter().any(|condition| is_driven(columns, condition, negate))
        }
        (Condition::All(conditions), true) | (Condition::Any(conditions), false) => {
            !conditions.is_empty() && conditions.iter().all(|condition| is_driven(columns, condition, negate))
        }
        (Condition::Test(Field::Attribute { name, .. }, test), _) => {
            let leaf = Leaf::new(test, negate);
            let is_set = match leaf {
                Leaf::Like(pattern) => !pattern.prefix().is_empty(),
                Leaf::Compare(..) | Leaf::In(_) => !leaf.excludes(),
                _ => false,
            };
            let holds = |value: Option<Scalar>| test.evaluate(value.as_ref()) == Some(!negate);
            is_set && !columns.is_common(test) && Fills::new(&columns.attributes[name], holds) == Fills::None
        }
        (Condition::Test(..), _) => false,
    }
}

/// A row with a column per comparison, the number of matches up to a limit, and the version of the types.
pub(super) fn measuring(
    dialect: Dialect,
    columns: Columns<'_>,
    measured: &[Measured<'_>],
    rows_max: u32,
) -> Query {
    let mut query = Statement::new(dialect, "SELECT ");
    let (table, ..) = columns.rows.values();
    for (at, Measured { attribute, test, negate }) in measured.iter().enumerate() {
        query.push(if at > 0 { ", " } else { "" }).push("(SELECT COUNT(*) FROM (SELECT 1 FROM ");
        match (attribute, Leaf::new(test, *negate).found()) {
            (Some(name), leaf) => {
                let number = columns.attributes[*name].number;
                query.push(format_args!("{table} WHERE attribute_number = {number} AND "));
                push_leaf(&mut query, VALUE, false, &leaf, bind_sortable);
            }
            (None, Leaf::Like(pattern)) => {
                query.push("resource WHERE creator IN (");
                push_creators(&mut query, "resource", pattern);
                query.push(")");
            }
            (None, _) => unreachable!("creators are measured by patterns"),
        }
        query.push(format_args!(" LIMIT {rows_max}) AS few)"));
    }
    query.push(", (").push(SELECT_VERSION).push(")");
    query
}

/// A comparison or its negation.
#[derive(Clone, Copy)]
pub(super) enum Leaf<'t> {
    IsNull,
    IsNotNull,
    Differs(&'t Scalar),
    Compare(Comparison, &'t Scalar),
    In(&'t [Scalar]),
    NotIn(&'t [Scalar]),
    Like(&'t Pattern),
    NotLike(&'t Pattern),
    Never,
}

impl<'t> Leaf<'t> {
    fn new(test: &'t Test, negate: bool) -> Self {
        match (test, negate) {
            (Test::IsNull, false) | (Test::IsNotNull, true) => Leaf::IsNull,
            (Test::IsNotNull, false) | (Test::IsNull, true) => Leaf::IsNotNull,
            (Test::Differs(value), false) => Leaf::Differs(value),
            (Test::Differs(value), true) => Leaf::Compare(Comparison::Equal, value),
            (Test::Compare(comparison, value), false) => Leaf::Compare(*comparison, value),
            (Test::Compare(comparison, value), true) => Leaf::Compare(comparison.inverse(), value),
            (Test::In { values, .. }, false) if values.is_empty() => Leaf::Never,
            (Test::In { values, .. }, false) => Leaf::In(values),
            // A value not in the list may still be null.
            (Test::In { null: true, .. }, true) => Leaf::Never,
            (Test::In { values, .. }, true) => Leaf::NotIn(values),
            (Test::Like(pattern), false) => Leaf::Like(pattern),
            (Test::Like(pattern), true) => Leaf::NotLike(pattern),
        }
    }

    /// The values to look up: those that match, or those to exclude.
    fn found(&self) -> Leaf<'t> {
        match *self {
            Leaf::Differs(value) | Leaf::Compare(Comparison::NotEqual, value) => equal(value),
            Leaf::NotIn(values) => Leaf::In(values),
            Leaf::NotLike(pattern) => Leaf::Like(pattern),
            leaf => leaf,
        }
    }

    fn excludes(&self) -> bool {
        matches!(
            self,
            Leaf::Differs(_) | Leaf::Compare(Comparison::NotEqual, _) | Leaf::NotIn(_) | Leaf::NotLike(_)
        )
    }
}

pub(super) type Query = Statement;

/// Lists are padded to a power of two only up to this length, and while the statement has no more values than this.
const VALUES_FILLED_UP_MAX: usize = 1024;

/// Refuses a search with more values than a statement takes. A filter within its own limits may exceed that, since some
/// values occur twice in the statement.
pub(super) fn check_values(query: &Query) -> Result<()> {
    let max = query.dialect.values_max();
    if query.values.len() > max {
        return Err(IndexerError::FilterTooLarge { max, of: "values in a statement" });
    }
    Ok(())
}

/// Appends an expression that is true where the condition, or its negation, is true.
pub(super) fn push_condition(query: &mut Query, columns: Columns<'_>, condition: &Condition, negate: bool) {
    match (condition, negate) {
        (Condition::Not(condition), _) => push_condition(query, columns, condition, !negate),
        (Condition::Test(field, test), _) => push_test(query, columns, field, test, negate),
        (Condition::All(conditions), false) | (Condition::Any(conditions), true) => {
            push_joined(query, columns, conditions, negate, "AND");
        }
        (Condition::All(conditions), true) | (Condition::Any(conditions), false) => {
            push_joined(query, columns, conditions, negate, "OR");
        }
    }
}

/// Appends a balanced tree, since databases limit the depth.
fn push_joined(query: &mut Query, columns: Columns<'_>, conditions: &[Condition], negate: bool, by: &str) {
    match conditions {
        [] => drop(query.push(if by == "AND" { "TRUE" } else { "FALSE" })),
        [condition] => push_condition(query, columns, condition, negate),
        _ => {
            let (left, right) = conditions.split_at(conditions.len() / 2);
            query.push("(");
            push_joined(query, columns, left, negate, by);
            query.push(format_args!(" {by} "));
            push_joined(query, columns, right, negate, by);
            query.push(")");
        }
    }
}

fn push_test(query: &mut Query, columns: Columns<'_>, field: &Field, test: &Test, negate: bool) {
    let leaf = Leaf::new(test, negate);
    match (field, columns.rows) {
        (Field::Attribute { name, .. }, rows) => {
            let stored = &columns.attributes[name];
            let holds = |value: Option<Scalar>| test.evaluate(value.as_ref()) == Some(!negate);
            let is_common = columns.is_common(test);
            Attribute { rows, stored, is_common, fills: Fills::new(stored, holds) }.push(query, &leaf);
        }
        (Field::Revision, Rows::Current) => push_truth(query, test.evaluate(Some(&CURRENT)), negate),
        (Field::RevisionEnd, Rows::Current) => push_truth(query, test.evaluate(None), negate),
        (Field::Type, _) => {
            query.push("r.type_number IN (SELECT number FROM resource_type WHERE ");
            push_leaf(query, "name", false, &leaf, bind);
            query.push(")");
        }
        (Field::Creator, rows) => match leaf {
            Leaf::Like(pattern) if pattern.prefix().is_empty() && !columns.is_common(test) => {
                push_created(query, rows, pattern);
            }
            leaf => push_leaf(query, "r.creator", false, &leaf, bind),
        },
        (Field::OriginalResourceId, Rows::Current) => push_name(query, &leaf),
        (field, rows) => {
            push_leaf(query, column_of(query.dialect, field, rows), field.is_nullable(), &leaf, bind);
        }
    }
}

const CURRENT: Scalar = Scalar::Integer(gnudi_model::Resource::CURRENT);

fn push_truth(query: &mut Query, truth: Option<bool>, negate: bool) {
    query.push(if truth == Some(!negate) { "TRUE" } else { "FALSE" });
}

/// The expression of a field that is a column.
pub(super) const fn column_of(dialect: Dialect, field: &Field, rows: Rows) -> &'static str {
    match (field, rows) {
        (Field::Id, _) => "r.id",
        (Field::Type, _) => "(SELECT name FROM resource_type WHERE number = r.type_number)",
        (Field::Creator, _) => "r.creator",
        (Field::UserId, _) => "r.user_id",
        (Field::ProjectId, _) => "r.project_id",
        (Field::OriginalResourceId, _) => "r.original_resource_id",
        (Field::StartedAt, _) => "r.started_at",
        (Field::EndedAt, _) => "r.ended_at",
        (Field::RevisionStart, _) => "r.revision_start",
        (Field::RevisionEnd, Rows::Current) => dialect.no_integer(),
        (Field::RevisionEnd, Rows::Past) => "r.revision_end",
        (Field::Revision, Rows::Current) => dialect.current(),
        (Field::Revision, Rows::Past) => "r.revision",
        (Field::Lifespan, _) => "(r.ended_at - r.started_at)",
        (Field::Attribute { .. }, _) => panic!("attributes are no columns"),
    }
}

/// Binds the value of a column.
pub(super) fn bind(query: &mut Query, value: &Scalar) {
    match value {
        Scalar::Text(text) => query.push_bind(text),
        Scalar::Uuid(id) => query.push_bind(*id),
        Scalar::Integer(number) | Scalar::Time(number) | Scalar::Span(number) => query.push_bind(*number),
        Scalar::Number(_) | Scalar::Bool(_) => unreachable!("no column has such values"),
    };
}

/// Binds an attribute value in the form of its index.
fn bind_sortable(query: &mut Query, value: &Scalar) {
    query.push_bind(sortable(&value.to_attribute_value()).expect("operands are not null"));
}

pub(super) type Bind = fn(&mut Query, &Scalar);

/// Appends a comparison of a non-null expression.
pub(super) fn push_leaf(query: &mut Query, expression: &str, is_nullable: bool, leaf: &Leaf<'_>, bind: Bind) {
    match leaf {
        Leaf::IsNull => drop(query.push(format_args!("{expression} IS NULL"))),
        Leaf::IsNotNull => drop(query.push(format_args!("{expression} IS NOT NULL"))),
        Leaf::Differs(value) if is_nullable && query.dialect == Dialect::Mysql => {
            bind(query.push(format_args!("NOT ({expression} <=> ")), value);
            query.push(")");
        }
        Leaf::Differs(value) => {
            let differs = if is_nullable { "IS DISTINCT FROM" } else { "<>" };
            bind(query.push(format_args!("{expression} {differs} ")), value);
        }
        Leaf::Compare(comparison, value) => {
            bind(query.push(format_args!("{expression} {} ", sign_of(*comparison))), value);
        }
        Leaf::In(values) => push_list(query.push(format_args!("{expression} IN (")), values, bind),
        Leaf::NotIn(values) => push_list(query.push(format_args!("{expression} NOT IN (")), values, bind),
        Leaf::Like(pattern) => push_like(query, expression, pattern, bind),
        Leaf::NotLike(pattern) => push_matches(query, expression, false, pattern),
        Leaf::Never => drop(query.push("FALSE")),
    }
}

const fn sign_of(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

/// Pads the list by repetition, so that there are few different statements.
fn push_list(query: &mut Query, values: &[Scalar], bind: Bind) {
    let is_long = values.len().max(query.values.len()) > VALUES_FILLED_UP_MAX;
    let count = if is_long { values.len() } else { values.len().next_power_of_two() };
    for (index, value) in values.iter().chain(values.last().into_iter().cycle()).take(count).enumerate() {
        if index > 0 {
            query.push(", ");
        }
        bind(query, value);
    }
    query.push(")");
}

/// An index serves the range of the pattern's prefix.
fn push_like(query: &mut Query, expression: &str, pattern: &Pattern, bind: Bind) {
    if let Some(text) = pattern.literal() {
        bind(query.push(format_args!("{expression} = ")), &Scalar::Text(text));
        return;
    }
    let prefix = pattern.prefix();
    query.push("(");
    if !prefix.is_empty() {
        let end = successor(&prefix);
        bind(query.push(format_args!("{expression} >= ")), &Scalar::Text(prefix));
        if let Some(end) = end {
            bind(query.push(format_args!(" AND {expression} < ")), &Scalar::Text(end));
        }
        query.push(" AND ");
    }
    push_matches(query, expression, true, pattern);
    query.push(")");
}

/// The column of the index of values.
pub(super) const VALUE: &str = "value";

/// Appends an expression that is true for rows with a matching creator.
fn push_created(query: &mut Query, rows: Rows, pattern: &Pattern) {
    let (before, behind) = match rows {
        Rows::Current => ("r.number IN (SELECT number FROM resource WHERE creator IN (", "))"),
        Rows::Past => ("r.creator IN (", ")"),
    };
    query.push(before);
    push_creators(query, "resource", pattern);
    query.push(behind);
}

/// Creators are few compared with what they created, so each is tested once, by skipping through their index. All
/// revisions of a resource have the same creator.
pub(super) fn push_creators(query: &mut Query, table: &str, pattern: &Pattern) {
    query.push(format_args!(
        "WITH RECURSIVE c (creator) AS (SELECT (SELECT creator FROM {table} ORDER BY creator LIMIT 1) UNION ALL \
         SELECT (SELECT o.creator FROM {table} o WHERE o.creator > c.creator ORDER BY o.creator LIMIT 1) FROM c \
         WHERE c.creator IS NOT NULL) SELECT creator FROM c WHERE ",
    ));
    push_matches(query, "creator", true, pattern);
}

/// The least text above all texts with the prefix.
pub(super) fn successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let above = (last..=char::MAX).nth(1);
        if let Some(above) = above {
            characters.push(above);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// A comparison of an attribute's values.
struct Attribute<'a> {
    rows: Rows,
    stored: &'a StoredAttribute,
    is_common: bool,
    fills: Fills,
}

/// The rows without a stored value for which the comparison is true.
#[derive(Debug, PartialEq)]
enum Fills {
    All,
    None,
    /// Rows whose version is in one of these ranges: at least the first, if given, and less than the second.
    Some(Vec<(Option<i64>, Option<i64>)>),
}

impl Fills {
    fn new(attribute: &StoredAttribute, holds: impl Fn(Option<Scalar>) -> bool) -> Self {
        let mut ranges: Vec<(Option<i64>, Option<i64>)> = Vec::new();
        let mut all = true;
        let mut start = None;
        let fills = attribute.fills.iter().map(|fill| (Some(fill.version), Scalar::of(&fill.value)));
        for (end, value) in fills.chain([(None, None)]) {
            if !holds(value) {
                all = false;
            } else if let Some(last) = ranges.last_mut().filter(|last| last.1 == start && start.is_some()) {
                last.1 = end;
            } else {
                ranges.push((start, end));
            }
            start = end;
        }
        match ranges {
            _ if all => Fills::All,
            ranges if ranges.is_empty() => Fills::None,
            ranges => Fills::Some(ranges),
        }
    }
}

impl Attribute<'_> {
    fn push(&self, query: &mut Query, leaf: &Leaf<'_>) {
        let own = own_type(query.dialect, self.rows, self.stored.number);
        match (leaf, &self.fills) {
            (Leaf::Never, _) => drop(query.push("FALSE")),
            // Comparisons that are true for null, and for almost all values.
            (Leaf::Differs(_), Fills::All) if !self.is_common => {
                self.push_set(query, "NOT IN", &leaf.found());
            }
            (leaf, Fills::None) => self.push_own(query, leaf, &own),
            (Leaf::IsNotNull, Fills::All) => drop(query.push("TRUE")),
            (leaf, fills) => {
                query.push("(");
                self.push_own(query, leaf, &own);
                query.push(format_args!(" OR ({own} IS NULL AND {}))", versions(fills)));
            }
        }
    }

    /// Appends an expression that is true for matching rows with a stored value.
    fn push_own(&self, query: &mut Query, leaf: &Leaf<'_>, own: &str) {
        match leaf {
            Leaf::IsNull | Leaf::Never => drop(query.push("FALSE")),
            Leaf::IsNotNull => drop(query.push(format_args!("{own} IS NOT NULL"))),
            leaf if self.is_common => {
                let own = own_value(query.dialect, self.rows, self.stored.number);
                push_leaf(query, &own, false, leaf, bind_own);
            }
            leaf if leaf.excludes() => {
                query.push(format_args!("({own} IS NOT NULL AND "));
                self.push_set(query, "NOT IN", &leaf.found());
                query.push(")");
            }
            leaf => self.push_set(query, "IN", leaf),
        }
    }

    /// Appends an expression that is true for rows in the set with such a stored value, or not in it.
    fn push_set(&self, query: &mut Query, is_in: &str, leaf: &Leaf<'_>) {
        let (table, row, own_row) = self.rows.values();
        let number = self.stored.number;
        query.push(format_args!(
            "{own_row} {is_in} (SELECT {row} FROM {table} WHERE attribute_number = {number} AND "
        ));
        push_leaf(query, VALUE, false, leaf, bind_sortable);
        query.push(")");
    }
}

fn equal(value: &Scalar) -> Leaf<'_> {
    Leaf::Compare(Comparison::Equal, value)
}

/// NULL if a row has no stored value.
fn own_type(dialect: Dialect, rows: Rows, number: i64) -> String {
    match dialect {
        Dialect::Sqlite => format!("json_type(r.attributes, '$.\"{number}\"')"),
        Dialect::Postgres | Dialect::Mysql => own_value(dialect, rows, number),
    }
}

/// A row's stored value; NULL without one. From the row's JSON in `SQLite`, from the index of values, in sortable form,
/// on servers.
fn own_value(dialect: Dialect, rows: Rows, number: i64) -> String {
    if dialect == Dialect::Sqlite {
        return format!("json_extract(r.attributes, '$.\"{number}\"')");
    }
    let (table, row, own_row) = rows.values();
    format!("(SELECT value FROM {table} WHERE attribute_number = {number} AND {row} = {own_row})")
}

fn versions(fills: &Fills) -> String {
    let ranges = match fills {
        Fills::All => return "TRUE".to_owned(),
        Fills::None => return "FALSE".to_owned(),
        Fills::Some(ranges) => ranges,
    };
    let range = |(start, end): &(Option<i64>, Option<i64>)| {
        let start = start.map(|start| format!("r.type_version >= {start}"));
        let end = end.map(|end| format!("r.type_version < {end}"));
        start.into_iter().chain(end).collect::<Vec<_>>().join(" AND ")
    };
    format!("({})", ranges.iter().map(range).collect::<Vec<_>>().join(" OR "))
}

/// The expression that sorts rows by an attribute.
pub(super) fn push_attribute(query: &mut Query, rows: Rows, attribute: &StoredAttribute) {
    let own = own_value(query.dialect, rows, attribute.number);
    if attribute.fills.is_empty() {
        query.push(own);
        return;
    }
    query.push(format_args!("COALESCE({own}, CASE"));
    for fill in &attribute.fills {
        query.push(format_args!(" WHEN r.type_version < {} THEN ", fill.version));
        match Scalar::of(&fill.value) {
            Some(value) => bind_own(query, &value),
            None => drop(query.push(query.dialect.no_bytes())),
        }
    }
    query.push(" END)");
}

/// Binds an attribute value in the form of [`push_attribute`].
pub(super) fn bind_own(query: &mut Query, value: &Scalar) {
    if query.dialect.is_server() {
        return bind_sortable(query, value);
    }
    match value {
        Scalar::Text(text) => query.push_bind(text),
        Scalar::Uuid(id) => query.push_bind(id.to_string()),
        // A text, which sorts above all numbers.
        Scalar::Number(number) if number.is_nan() => query.push_bind("NaN"),
        Scalar::Number(number) if !attribute::is_exact_in_json(*number) => {
            let json = attribute::encode_value(&value.to_attribute_value());
            query.push("json_extract(").push_bind(json).push(", '$')")
        }
        Scalar::Number(number) => query.push_bind(*number),
        Scalar::Bool(flag) => query.push_bind(i64::from(*flag)),
        Scalar::Integer(number) | Scalar::Time(number) | Scalar::Span(number) => query.push_bind(*number),
    };
}
