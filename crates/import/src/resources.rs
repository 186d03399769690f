//! Imports one resource with its revisions: creates it as it was at first, then repeats its changes.

use gnudi_indexer::{IndexerError, NewResource, NewRevision, ResourceChange};
use gnudi_model::{MetricId, resource_type::GENERIC};
use uuid::Uuid;

use crate::{
    ImportError, Target,
    index::{SourceResource, SourceRevision},
};

/// What the import of a resource did.
pub(crate) struct Imported {
    /// Whether the target has the resource now.
    pub is_there: bool,
    /// The metrics that were deleted with an older resource of the same id.
    pub deleted: Vec<MetricId>,
}

/// Creates a resource, or adds its new revisions, or replaces one that was deleted and created again.
pub(crate) async fn import(
    target: Target<'_>,
    resource_type: &str,
    resource: SourceResource,
    skipped: &mut Vec<String>,
) -> Result<Imported, ImportError> {
    let mut deleted = Vec::new();
    let SourceResource { id, revisions } = resource;
    let [first, later @ ..] = revisions.as_slice() else {
        return Ok(Imported { is_there: false, deleted });
    };
    // The older one may have had another type.
    if let Some(there) = target.indexer.resource(GENERIC, id).await? {
        let known = revisions.iter().position(|revision| revision.revision_start == there.revision_start);
        if let Some(known) = known.filter(|_| &*there.resource_type == resource_type) {
            add_revisions(target, resource_type, id, &revisions[known + 1..]).await?;
            return Ok(Imported { is_there: true, deleted });
        }
        for metrics in target.indexer.delete_resources(&[id]).await {
            deleted.extend(metrics?);
        }
    }
    let new = NewResource {
        original_resource_id: first.original_resource_id.clone(),
        user_id: first.user_id.clone(),
        project_id: first.project_id.clone(),
        started_at: first.started_at,
        ended_at: first.ended_at,
        attributes: first.attributes.clone(),
        ..NewResource::new(id, resource_type, &first.creator, first.revision_start)
    };
    match target.indexer.create_resources(vec![new]).await.into_iter().next() {
        Some(Err(error @ IndexerError::ResourceAlreadyExists(_))) => {
            skipped.push(format!("resource {id}: {error}"));
            return Ok(Imported { is_there: false, deleted });
        }
        Some(created) => drop(created?),
        None => unreachable!("one answer each"),
    }
    add_revisions(target, resource_type, id, later).await?;
    Ok(Imported { is_there: true, deleted })
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
        revision: NewRevision::Always,
        now: revision.revision_start,
        ..ResourceChange::default()
    }
}
