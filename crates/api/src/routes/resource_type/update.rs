//! `PATCH /v1/resource_type/{name}`

use std::collections::HashSet;

use gnudi_app::json;
use gnudi_indexer::ResourceTypeChange;
use gnudi_model::ResourceType;

use super::{
    definition::{self, GivenAttribute, Purpose},
    patch,
};
use crate::routes::prelude::*;

const JSON_PATCH: &str = "application/json-patch+json";

/// Adds and removes attributes, and changes bounds of existing ones.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let current = super::find_past_cache(call).await?;
    call.enforce(Rule::UpdateResourceType, Target::Given(&[("name", Some(&current.name))]))?;
    request::expect(call.parts, JSON_PATCH)?;
    let patch = json::parse(&body.read_small().await?)?;
    let mut next = super::shown(&current);
    patch::apply(&patch, &mut next)?;
    if let json::Value::Object(entries) = &mut next {
        entries.retain(|(key, _)| key != "state");
    }
    let (_, attributes) = definition::check(&next, Purpose::Update)
        .map_err(|invalid| ApiError::bad_request(format!("Invalid input: {}", invalid.reason())))?;
    let change = change(call, &current, &attributes)?;
    if change == ResourceTypeChange::default() {
        return Ok(reply::ok(&super::shown(&current)));
    }
    let updated = call.indexer().update_resource_type(&current.name, change).await?;
    Ok(reply::ok(&super::shown(&updated)))
}

/// The change from the current attributes to these.
fn change(
    call: &Call<'_>,
    current: &ResourceType,
    attributes: &[(String, GivenAttribute)],
) -> Result<ResourceTypeChange> {
    let now = call.app.now();
    let (mut added, mut updated) = (Vec::new(), Vec::new());
    for (name, given) in attributes {
        let Some(attribute) = current.attributes.get(name.as_str()) else {
            added.push((name, given));
            continue;
        };
        let (old, new) = (attribute.kind, given.attribute_kind());
        if old.name() != new.name() {
            return Err(ApiError::bad_request(format!(
                "Type update is not available yet. Changing {} to {} for attribute {name} of resource {}",
                old.name(),
                new.name(),
                current.name
            )));
        }
        if old != new || attribute.required != given.required() {
            updated.push((name, given));
        }
    }
    let complete = |given: Vec<(&String, &GivenAttribute)>| {
        let complete = |(name, given): (&String, &GivenAttribute)| {
            Ok((name.as_str().into(), given.complete(name, now)?))
        };
        given.into_iter().map(complete).collect::<Result<Vec<_>>>()
    };
    let kept: HashSet<&str> = attributes.iter().map(|(name, _)| name.as_str()).collect();
    let is_kept = |name: &str| kept.contains(name);
    Ok(ResourceTypeChange {
        add: complete(added)?,
        update: complete(updated)?,
        delete: current.attributes.keys().filter(|name| !is_kept(name)).cloned().collect(),
    })
}
