//! `POST /v1/resource/{type}`

use gnudi_indexer::NewResource;
use hyper::{StatusCode, header::LOCATION};

use super::definition::{self, Writer};
use crate::routes::metric::definition::{admit_named, complete_named, first_reported_fault};
use crate::routes::prelude::*;

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let resource_type = call.resource_type();
    let (creator, now) = (&call.caller.user, call.resource_now());
    let document = request::json(call.parts, body).await?;
    let checked = definition::check_new(&document, resource_type, Writer { creator, now });
    let (original_resource_id, id, given) = match checked {
        Ok(checked) => checked,
        Err(fault) => return Err(first_reported_fault(call, document.get("metrics"), fault).await),
    };
    let metrics = complete_named(call, given.metrics.unwrap_or_default()).await?;
    let id_text = id.to_string();
    let target = [
        ("resource_type", Some(resource_type.name.as_str())),
        ("id", Some(id_text.as_str())),
        ("original_resource_id", Some(original_resource_id.as_str())),
        ("user_id", given.user_id.as_ref().and_then(Option::as_deref)),
        ("project_id", given.project_id.as_ref().and_then(Option::as_deref)),
    ];
    // An absent field differs from null.
    let is_given = |(name, _): &&(&str, Option<&str>)| match *name {
        "user_id" => given.user_id.is_some(),
        "project_id" => given.project_id.is_some(),
        _ => true,
    };
    let target: Vec<_> = target.iter().filter(is_given).copied().collect();
    call.enforce(Rule::CreateResource, Target::NewResource(&target, &given.attributes))?;
    let started_at = given.started_at.unwrap_or(now);
    if given.ended_at.is_some_and(|ended_at| ended_at < started_at) {
        return Err(ApiError::bad_request("Start timestamp cannot be after end timestamp"));
    }
    admit_named(call, &metrics).await?;
    let resource = NewResource {
        id,
        resource_type: resource_type.name.to_string(),
        original_resource_id,
        creator: creator.clone(),
        user_id: given.user_id.flatten(),
        project_id: given.project_id.flatten(),
        started_at,
        ended_at: given.ended_at,
        attributes: given.attributes,
        metrics,
        now,
    };
    let created = call.create_resources(vec![resource]).await.pop();
    let created = created.expect("one answer per resource");
    call.metrics_are_settled(&created);
    let resource = created.map_err(super::refusal)?;
    let location = call.links().to(&format!("/v1/resource/{}/{}", resource.resource_type, resource.id));
    Ok(reply::with_header(super::versioned_answer(StatusCode::CREATED, &resource), LOCATION, &location))
}
