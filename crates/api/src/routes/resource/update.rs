//! `PATCH /v1/resource/{type}/{id}`

use gnudi_indexer::{IndexerError, NewRevision, ResourceChange};
use gnudi_model::Resource;
use hyper::StatusCode;

use super::definition::{self, ResourceFields, Writer};
use crate::{
    conditions::Version,
    routes::{
        metric::definition::{admit_named, complete_named, first_reported_fault},
        prelude::*,
    },
};

/// Applies the changes in the body; the former state becomes a revision in the history.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let resource_type = call.resource_type();
    super::find_on_conditions(call, Rule::UpdateResource).await?;
    let document = request::json(call.parts, body).await?;
    // While the client sent the body, another one may have deleted the resource and created it anew.
    let (mut resource, _) = super::find_on_conditions(call, Rule::UpdateResource).await?;
    let now = call.resource_now();
    let checked =
        definition::check_change(&document, resource_type, Writer { creator: &call.caller.user, now });
    let checked = match checked {
        Ok(checked) => checked,
        Err(fault) => return Err(first_reported_fault(call, document.get("metrics"), fault).await),
    };
    let Some(mut given) = checked else {
        return Ok(super::versioned_answer(StatusCode::OK, &resource));
    };
    enforce_move(call, &resource, &given)?;
    let metrics = match given.metrics.take() {
        Some(metrics) => Some(complete_named(call, metrics).await?),
        None => None,
    };
    if metrics.is_none() && !differs(&resource, &given) {
        // Another process may just have changed what is cached here: a change back must not be taken for none.
        (resource, _) = super::find_past_cache(call, Rule::UpdateResource).await?;
        enforce_move(call, &resource, &given)?;
        if !differs(&resource, &given) {
            return Ok(super::answer(StatusCode::OK, &resource));
        }
    }
    let mut change = ResourceChange {
        user_id: given.user_id.clone(),
        project_id: given.project_id.clone(),
        started_at: given.started_at,
        ended_at: given.ended_at.map(Some),
        attributes: given.attributes.clone(),
        metrics,
        append_metrics: false,
        // Only if a value changes: the index knows.
        revision: NewRevision::IfChanged,
        of_revision: Version::of(&resource).required_by(call.parts),
        now,
    };
    admit_named(call, change.metrics.as_deref().unwrap_or_default()).await?;
    let mut updated = call.update_resource(&resource_type.name, resource.id, change.clone()).await;
    if let Err(IndexerError::ResourceChanged(_)) = updated {
        // What was cached is outdated. The conditions may hold all the same.
        let (current, _) = super::find_past_cache(call, Rule::UpdateResource).await?;
        enforce_move(call, &current, &given)?;
        change.of_revision = Some(current.revision_start);
        updated = call.update_resource(&resource_type.name, current.id, change).await;
    }
    call.metrics_are_settled(&updated);
    Ok(super::versioned_answer(StatusCode::OK, &updated.map_err(super::refusal)?.resource))
}

/// Refuses (403) moving a resource to a project in which the caller may not create one. Otherwise an
/// operator's rule on creation could be bypassed. Gnocchi's rules allow it to everybody.
fn enforce_move(call: &Call<'_>, resource: &Resource, given: &ResourceFields) -> Result<()> {
    let own = resource.project_id.as_ref().map(gnudi_model::Text::as_str);
    let Some(project_id) = given.project_id.as_ref().map(Option::as_deref).filter(|given| *given != own)
    else {
        return Ok(());
    };
    let id = resource.id.to_string();
    let own_user = resource.user_id.as_ref().map(gnudi_model::Text::as_str);
    let target = [
        ("resource_type", Some(resource.resource_type.as_str())),
        ("id", Some(id.as_str())),
        ("original_resource_id", Some(resource.original_resource_id.as_str())),
        ("user_id", given.user_id.as_ref().map_or(own_user, Option::as_deref)),
        ("project_id", project_id),
    ];
    let mut attributes = resource.attributes.clone();
    attributes.extend(given.attributes.clone());
    call.enforce(Rule::CreateResource, Target::NewResource(&target, &attributes))
}

/// Whether any of these values differs from the resource's; metrics are ignored.
fn differs(resource: &Resource, given: &ResourceFields) -> bool {
    let text_differs = |given: &Option<Option<String>>, text: Option<&gnudi_model::Text>| {
        given.as_ref().is_some_and(|given| given.as_deref() != text.map(gnudi_model::Text::as_str))
    };
    text_differs(&given.user_id, resource.user_id.as_ref())
        || text_differs(&given.project_id, resource.project_id.as_ref())
        || given.started_at.is_some_and(|time| time != resource.started_at)
        || given.ended_at.is_some_and(|time| Some(time) != resource.ended_at)
        || given.attributes.iter().any(|(name, value)| resource.attributes.get(name) != Some(value))
}
