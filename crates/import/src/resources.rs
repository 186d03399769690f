//! Imports one resource with its revisions: creates it as it was at first, then repeats its changes.

use std::collections::BTreeMap;

use gnudi_indexer::{IndexerError, NewResource, ResourceChange};
use gnudi_model::{AttributeValue, Text};
use uuid::Uuid;

use crate::{
    ImportError, Target,
    index::{SourceResource, SourceRevision},
};

/// Creates a resource, or adds its new revisions, or replaces one that was deleted and created again. Returns whether
/// it exists.
pub(crate) async fn import(
    target: Target<'_>,
    resource_type: &str,
    resource: SourceResource,
    skipped: &mut Vec<String>,
) -> Result<bool, ImportError> {
    let SourceResource { id, revisions } = resource;
    let [first, later @ ..] = revisions.as_slice() else { return Ok(false) };
    if let Some(there) = target.indexer.resource(resource_type, id).await? {
        let known = revisions.iter().position(|revision| revision.revision_start == there.revision_start);
        if let Some(known) = known {
            add_revisions(target, resource_type, id, &revisions[known + 1..]).await?;
            return Ok(true);
        }
        target.indexer.delete_resources(&[id]).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let new = NewResource {
        id,
        resource_type: resource_type.to_owned(),
        original_resource_id: first.original_resource_id.clone(),
        creator: first.creator.clone(),
        user_id: first.user_id.clone(),
        project_id: first.project_id.clone(),
        started_at: first.started_at,
        ended_at: first.ended_at,
        attributes: non_null(&first.attributes),
        metrics: Vec::new(),
        now: first.revision_start,
    };
    match target.indexer.create_resources(vec![new]).await.into_iter().next() {
        Some(Err(error @ IndexerError::ResourceAlreadyExists(_))) => {
            skipped.push(format!("resource {id}: {error}"));
            return Ok(false);
        }
        Some(created) => drop(created?),
        None => unreachable!("one answer each"),
    }
    add_revisions(target, resource_type, id, later).await?;
    Ok(true)
}

async fn add_revisions(
    target: Target<'_>,
    resource_type: &str,
    id: Uuid,
    revisions: &[SourceRevision],
) -> Result<(), ImportError> {
    for revision in revisions {
        target.indexer.update_resource(resource_type, id, change(revision)).await?;
    }
    Ok(())
}

fn change(revision: &SourceRevision) -> ResourceChange {
    ResourceChange {
        user_id: Some(revision.user_id.clone()),
        project_id: Some(revision.project_id.clone()),
        started_at: Some(revision.started_at),
        ended_at: Some(revision.ended_at),
        attributes: revision.attributes.clone(),
        metrics: None,
        append_metrics: true,
        create_revision: true,
        now: revision.revision_start,
    }
}

/// Non-null attributes.
fn non_null(attributes: &BTreeMap<Text, AttributeValue>) -> BTreeMap<Text, AttributeValue> {
    let has_value = |(_, value): &(&Text, &AttributeValue)| **value != AttributeValue::Null;
    attributes.iter().filter(has_value).map(|(name, value)| (name.clone(), value.clone())).collect()
}
