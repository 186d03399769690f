//! The revisions of resources, current and former ones.

use std::collections::{BTreeMap, HashMap};

use gnudi_model::{AttributeKind, AttributeValue, python};
use gnudi_sql::{Row, Statement};
use uuid::Uuid;

use super::{
    Form, IDS_AT_ONCE, Index, IndexError, SourceResource, SourceRevision, SourceType, id_at, parse_id, time,
};
use crate::groups::groups;

/// Revisions that are read together, of about a kilobyte each, unless one resource has more.
const REVISIONS_AT_ONCE: u64 = 20_000;
/// The ends of the names of the tables with current and with earlier revisions.
const CURRENT: &str = "";
const EARLIER: &str = "_history";
/// The times up to this number of microseconds, before and after 1970, fit into a timestamp.
const MICROSECONDS_MAX: i64 = i64::MAX / 1000;

impl Index {
    /// Resources of the type with these ids, sorted by id. At most [`IDS_AT_ONCE`] ids.
    pub async fn resources(
        &mut self,
        of: &SourceType,
        ids: &[Uuid],
    ) -> Result<Vec<SourceResource>, IndexError> {
        let mut revisions = Vec::new();
        for (suffix, order) in [(CURRENT, "r.id"), (EARLIER, "r.id, r.revision DESC")] {
            let mut select = self.revision_select(of, suffix);
            self.push_among(&mut select, "r.id", ids);
            select.push(format_args!(" ORDER BY {order}"));
            revisions.push(self.read(select, |row| FoundRevision::of(of, row)).await?);
        }
        let (earlier, current) = (revisions.pop().unwrap_or_default(), revisions.pop().unwrap_or_default());
        Ok(with_revisions(current, earlier))
    }

    /// The ids of the next resources of a type (not of types that share its attributes) after an id, in groups whose
    /// revisions fit into memory; empty at the end.
    pub async fn groups_behind(
        &mut self,
        of: &SourceType,
        behind: Option<Uuid>,
    ) -> Result<Vec<Vec<Uuid>>, IndexError> {
        let mut select =
            self.once(format!("SELECT {} FROM resource WHERE type = ", self.column("id", Form::Id)));
        self.push_text(&mut select, &of.resource_type.name);
        let ids = self.ids_behind(select, behind).await?;
        Ok(self.groups_of_resources(&ids).await?.into_iter().map(<[_]>::to_vec).collect())
    }

    /// Splits ids of resources into groups whose revisions fit into memory, of at most [`IDS_AT_ONCE`] ids each.
    pub async fn groups_of_resources<'a>(&mut self, ids: &'a [Uuid]) -> Result<Vec<&'a [Uuid]>, IndexError> {
        let columns = self.columns(&[("id", Form::Id), ("COUNT(*)", Form::Integer)]);
        let mut earlier: HashMap<Uuid, u64> = HashMap::new();
        for some in ids.chunks(IDS_AT_ONCE) {
            let mut select = self.once(format!("SELECT {columns} FROM resource_history WHERE 1 = 1"));
            self.push_among(&mut select, "id", some);
            select.push(" GROUP BY id");
            let count = |row: &Row| Ok((id_at(row, 0)?, row.try_get::<i64>(1)?.unsigned_abs()));
            earlier.extend(self.read(select, count).await?);
        }
        let revisions = |id: &Uuid| 1 + earlier.get(id).copied().unwrap_or_default();
        Ok(groups(ids, IDS_AT_ONCE, REVISIONS_AT_ONCE, revisions))
    }

    /// The ids of resources of a type that have, in some revision, a time which does not fit into a timestamp.
    pub async fn resources_with_moved_times(&mut self, of: &SourceType) -> Result<Vec<Uuid>, IndexError> {
        let attributes = of.resource_type.attributes.iter();
        let own = attributes.filter(|(_, attribute)| attribute.kind == AttributeKind::Datetime);
        let own = own.map(|(name, _)| self.own_column(name));
        let columns = ["r.started_at", "r.ended_at"].map(str::to_owned).into_iter().chain(own);
        let beyond = columns.map(|column| {
            let time = self.column(&column, Form::Time);
            format!("{time} NOT BETWEEN -{MICROSECONDS_MAX} AND {MICROSECONDS_MAX}")
        });
        let beyond = beyond.collect::<Vec<_>>().join(" OR ");
        let mut found = Vec::new();
        for suffix in [CURRENT, EARLIER] {
            let mut select = self.select_of_revisions(of, suffix, &self.column("r.id", Form::Id));
            select.push(format_args!(" AND ({beyond})"));
            found.extend(self.read(select, |row| id_at(row, 0)).await?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Selects resources with the attributes of a type; `suffix` is the end of its table's name. The column before the
    /// attributes is NULL if a revision has no row of them.
    ///
    /// Gnocchi writes no such row when a resource of the type is changed through `/v1/resource/generic`. A current
    /// resource without one was deleted by a filter below its type (docs/compatibility.md).
    fn revision_select(&self, of: &SourceType, suffix: &str) -> Statement {
        let mut columns = self.columns(&[
            ("r.id", Form::Id),
            ("r.original_resource_id", Form::Text),
            ("r.creator", Form::Text),
            ("r.user_id", Form::Text),
            ("r.project_id", Form::Text),
            ("r.started_at", Form::Time),
            ("r.ended_at", Form::Time),
            ("r.revision_start", Form::Time),
        ]);
        let has_table = !of.resource_type.attributes.is_empty();
        let own_row = if suffix == CURRENT || !has_table { "1" } else { "a.revision" };
        columns += ", ";
        columns += &self.column(own_row, Form::Integer);
        for (name, attribute) in &of.resource_type.attributes {
            let form = match attribute.kind {
                AttributeKind::String { .. } | AttributeKind::Number { .. } => Form::Text,
                AttributeKind::Uuid => Form::Id,
                AttributeKind::Bool => Form::Bool,
                AttributeKind::Datetime => Form::Time,
            };
            columns += ", ";
            columns += &self.column(&self.own_column(name), form);
        }
        self.select_of_revisions(of, suffix, &columns)
    }

    /// The column of a type's own attribute.
    fn own_column(&self, attribute: &str) -> String {
        format!("a.{}", self.quoted(attribute))
    }

    /// Selects columns of the revisions `r` of a type's resources, with their attributes `a`.
    fn select_of_revisions(&self, of: &SourceType, suffix: &str, columns: &str) -> Statement {
        let join = if of.resource_type.attributes.is_empty() {
            String::new()
        } else {
            let (kind, key) = if suffix == CURRENT { ("JOIN", "id") } else { ("LEFT JOIN", "revision") };
            format!(" {kind} {}{suffix} a ON a.{key} = r.{key}", of.table)
        };
        let mut select = self.once(format!("SELECT {columns} FROM resource{suffix} r{join} WHERE r.type = "));
        self.push_text(&mut select, &of.resource_type.name);
        select
    }
}

/// A revision in a row of `revision_select`.
struct FoundRevision {
    id: Uuid,
    revision: SourceRevision,
    /// Whether its attributes were stored.
    has_attributes: bool,
}

impl FoundRevision {
    fn of(of: &SourceType, row: &Row) -> Result<Self, gnudi_sql::Error> {
        let has_attributes = row.try_get::<Option<i64>>(ATTRIBUTES_AT - 1)?.is_some();
        Ok(Self { id: id_at(row, 0)?, revision: revision(of, row)?, has_attributes })
    }
}

/// Resources of their current revisions, sorted by id, and of the earlier ones, of each resource newest first.
fn with_revisions(current: Vec<FoundRevision>, earlier: Vec<FoundRevision>) -> Vec<SourceResource> {
    let resource = |found: FoundRevision| SourceResource { id: found.id, revisions: vec![found.revision] };
    let mut resources: Vec<SourceResource> = current.into_iter().map(resource).collect();
    for FoundRevision { id, mut revision, has_attributes } in earlier {
        let Ok(at) = resources.binary_search_by_key(&id, |resource| resource.id) else { continue };
        let newer = &mut resources[at].revisions;
        // The change that ended it left the attributes as they were.
        if let Some(next) = newer.last().filter(|_| !has_attributes) {
            revision.attributes.clone_from(&next.attributes);
        }
        newer.push(revision);
    }
    // Newest first so far.
    for resource in &mut resources {
        resource.revisions.reverse();
    }
    resources
}

/// The first column of `revision_select` with an attribute.
const ATTRIBUTES_AT: usize = 9;

/// Reads the columns of `revision_select`.
fn revision(of: &SourceType, row: &Row) -> Result<SourceRevision, gnudi_sql::Error> {
    let text = |index| Ok::<_, gnudi_sql::Error>(row.try_get::<Option<&str>>(index)?.map(str::to_owned));
    let mut attributes = BTreeMap::new();
    for (index, (name, attribute)) in (ATTRIBUTES_AT..).zip(&of.resource_type.attributes) {
        let number = || row.try_get::<Option<i64>>(index);
        let value = match attribute.kind {
            AttributeKind::String { .. } => text(index)?.map(|text| AttributeValue::String(text.into())),
            AttributeKind::Uuid => {
                let id = row.try_get::<Option<&str>>(index)?.map(parse_id).transpose()?;
                id.map(AttributeValue::Uuid)
            }
            AttributeKind::Number { .. } => {
                let number = text(index)?.and_then(|text| python::float_of_text(&text));
                number.map(AttributeValue::Number)
            }
            AttributeKind::Bool => number()?.map(|flag| AttributeValue::Bool(flag != 0)),
            AttributeKind::Datetime => {
                number()?.map(|microseconds| AttributeValue::Datetime(time(microseconds)))
            }
        };
        attributes.insert(name.clone(), value.unwrap_or(AttributeValue::Null));
    }
    Ok(SourceRevision {
        original_resource_id: text(1)?.unwrap_or_default(),
        creator: text(2)?.unwrap_or_default(),
        user_id: text(3)?,
        project_id: text(4)?,
        started_at: time(row.try_get(5)?),
        ended_at: row.try_get::<Option<i64>>(6)?.map(time),
        revision_start: time(row.try_get(7)?),
        attributes,
    })
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;

    use super::*;

    fn found(id: u128, start: i64, host: Option<&str>) -> FoundRevision {
        let value = host.map_or(AttributeValue::Null, |host| AttributeValue::String(host.into()));
        let revision = SourceRevision {
            revision_start: Timestamp(start),
            attributes: BTreeMap::from([("host".into(), value)]),
            ..SourceRevision::default()
        };
        FoundRevision { id: Uuid::from_u128(id), revision, has_attributes: host.is_some() }
    }

    #[test]
    fn revisions_without_stored_attributes_have_those_of_the_next() {
        let current = vec![found(1, 9, Some("d")), found(2, 3, Some("x"))];
        let earlier = vec![
            found(1, 7, None),
            found(1, 5, None),
            found(1, 3, Some("b")),
            found(1, 1, None),
            // Without a current row.
            found(3, 1, Some("y")),
        ];
        let shown: Vec<Vec<(i64, String)>> = with_revisions(current, earlier)
            .into_iter()
            .map(|resource| {
                let revisions = resource.revisions.into_iter();
                let host = |revision: &SourceRevision| match &revision.attributes["host"] {
                    AttributeValue::String(host) => host.to_string(),
                    other => panic!("{other:?}"),
                };
                revisions.map(|revision| (revision.revision_start.0, host(&revision))).collect()
            })
            .collect();
        let expected = |rows: &[(i64, &str)]| -> Vec<(i64, String)> {
            rows.iter().map(|(start, host)| (*start, (*host).to_owned())).collect()
        };
        assert_eq!(
            shown,
            [expected(&[(1, "b"), (3, "b"), (5, "d"), (7, "d"), (9, "d")]), expected(&[(3, "x")])]
        );
    }
}
