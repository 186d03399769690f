//! Imports one resource with its revisions: creates it as it was at first, then repeats its changes.

use gnudi_indexer::{
    Indexer, IndexerError, MeasuredResources, NewResource, NewRevision, ResourceChange, revive_measured,
};
use gnudi_model::{MetricId, Timestamp, resource_type::GENERIC};
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
        id,
        resource_type: resource_type.to_owned(),
        original_resource_id: first.original_resource_id.clone(),
        creator: first.creator.clone(),
        user_id: first.user_id.clone(),
        project_id: first.project_id.clone(),
        started_at: first.started_at,
        ended_at: first.ended_at,
        attributes: first.attributes.clone(),
        metrics: Vec::new(),
        now: first.revision_start,
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
        metrics: None,
        append_metrics: true,
        revision: NewRevision::Always,
        of_revision: None,
        now: revision.revision_start,
    }
}

/// Revokes the ends of resources that get measures from the time of their end on, as a pass over these measures does.
/// A later import finds a revision that Gnocchi does not have, and imports the resource anew.
pub(crate) async fn revive(
    indexer: &dyn Indexer,
    measured: MeasuredResources,
    now: Timestamp,
) -> Result<(), IndexerError> {
    revive_measured(indexer, measured, now).await?;
    Ok(())
}
