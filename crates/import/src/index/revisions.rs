//! The revisions of resources, current and former ones.

use std::collections::BTreeMap;

use gnudi_model::{AttributeKind, AttributeValue, python};
use gnudi_sql::Row;
use uuid::Uuid;

use super::{SourceResource, SourceRevision, SourceType, id_at, parse_id, time};

/// A revision in a row of `revision_select`.
pub struct FoundRevision {
    id: Uuid,
    revision: SourceRevision,
    /// Whether its attributes were stored.
    has_attributes: bool,
}

impl FoundRevision {
    pub fn of(of: &SourceType, row: &Row) -> Result<Self, gnudi_sql::Error> {
        let has_attributes = row.try_get::<Option<i64>>(ATTRIBUTES_AT - 1)?.is_some();
        Ok(Self { id: id_at(row, 0)?, revision: revision(of, row)?, has_attributes })
    }
}

/// Resources of their current revisions, sorted by id, and of the earlier ones, of each resource newest first.
pub fn with_revisions(current: Vec<FoundRevision>, earlier: Vec<FoundRevision>) -> Vec<SourceResource> {
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
            original_resource_id: String::new(),
            creator: String::new(),
            user_id: None,
            project_id: None,
            started_at: Timestamp::EPOCH,
            ended_at: None,
            revision_start: Timestamp(start),
            attributes: BTreeMap::from([("host".into(), value)]),
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
