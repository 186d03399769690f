//! `/v1/resource`

mod annotation;
mod attribute;
mod create;
mod definition;
mod listing;
mod shown;
mod silent;
mod update;

pub use annotation::{annotate, delete_annotation, list_annotations, show_annotation};
pub use create::create;
pub use update::update;

pub(crate) use attribute::{bound, check as check_attribute, real};
pub(crate) use listing::Listing;
pub(crate) use shown::{field, shown_in_metric, write};

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use gnudi_indexer::{
    Filter, FilterValue, IndexerError, ResourceChange, ResourceListing, filter::FILTER_VALUES_MAX,
};
use gnudi_model::{Metric, Resource, resource_type::GENERIC};
use hyper::StatusCode;
use uuid::Uuid;

use super::{
    archive_policy,
    metric::{
        self,
        definition::{admit_named, check_named, complete_named, first_reported_fault},
    },
    prelude::*,
    search::filter_of,
};
use crate::conditions::{Verdict, Version};

/// The resource in the path.
///
/// # Errors
/// 404 if there is none of the type, 403 if the rule denies it.
pub(crate) async fn find(call: &Call<'_>, rule: Rule) -> Result<Arc<Resource>> {
    find_of(call, &call.resource_type().name, call.resource_id(), rule).await
}

/// [`find`] for a resource of any type.
pub(crate) async fn find_any(call: &Call<'_>, id: Uuid, rule: Rule) -> Result<Arc<Resource>> {
    find_of(call, GENERIC, id, rule).await
}

async fn find_of(call: &Call<'_>, resource_type: &str, id: Uuid, rule: Rule) -> Result<Arc<Resource>> {
    let found = call.indexer().resource(resource_type, id).await?;
    let resource = found.ok_or(IndexerError::NoSuchResource(id))?;
    call.enforce(rule, Target::Resource(&resource))?;
    Ok(resource)
}

/// The resource in the path, and what the request's conditions say of it. Another process may just have changed it: the
/// index decides before a cached version is refused.
///
/// # Errors
/// Those of [`find`], and 412 if a condition fails.
async fn find_on_conditions(call: &Call<'_>, rule: Rule) -> Result<(Arc<Resource>, Verdict)> {
    let cached = find(call, rule).await?;
    match Version::of(&cached).check(call.parts) {
        Ok(verdict) => Ok((cached, verdict)),
        Err(_) => find_past_cache(call, rule).await,
    }
}

/// [`find_on_conditions`] in the index itself.
async fn find_past_cache(call: &Call<'_>, rule: Rule) -> Result<(Arc<Resource>, Verdict)> {
    let id = call.resource_id();
    let found = call.indexer().current_resource(&call.resource_type().name, id).await?;
    let resource = found.ok_or(IndexerError::NoSuchResource(id))?;
    call.enforce(rule, Target::Resource(&resource))?;
    let verdict = Version::of(&resource).check(call.parts)?;
    Ok((resource, verdict))
}

/// The existing resources, without access checks, attributes and metrics.
pub(crate) async fn by_ids(call: &Call<'_>, mut ids: Vec<Uuid>) -> Result<BTreeMap<Uuid, Arc<Resource>>> {
    ids.sort_unstable();
    ids.dedup();
    let mut resources = BTreeMap::new();
    for ids in ids.chunks(FILTER_VALUES_MAX) {
        let values = ids.iter().copied().map(FilterValue::Uuid).collect();
        let filter = Some(Filter::In { field: "id".to_owned(), values });
        // Their metrics are not needed; some have many.
        let metric_names = Some(Vec::new());
        let of_any_type = ResourceListing::of(GENERIC, call.resource_now());
        let listing = ResourceListing { filter, metric_names, ..of_any_type };
        let found = call.indexer().list_resources(&listing).await?;
        resources.extend(found.into_iter().map(|resource| (resource.id, resource)));
    }
    Ok(resources)
}

/// A response with a resource.
fn answer(status: StatusCode, resource: &Resource) -> Response {
    let mut body = Vec::with_capacity(640);
    shown::write(resource, &[], &mut body);
    reply::json(status, body)
}

/// A response with a resource and its version headers.
fn versioned_answer(status: StatusCode, resource: &Resource) -> Response {
    let mut response = answer(status, resource);
    Version::of(resource).show(&mut response);
    response
}

/// The error for a body that refers to unknown objects or has invalid values: 400, not 404 as for a path.
fn refusal(error: IndexerError) -> ApiError {
    match error {
        IndexerError::NoSuchMetric(_) => ApiError::bad_request(error.to_string()),
        IndexerError::NoSuchArchivePolicy(name) => archive_policy::missing(&name),
        other => other.into(),
    }
}

/// `GET /v1/resource`: the URLs of the resources of each type.
pub async fn types(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let base = call.links().to("/v1/resource/");
    let types = call.indexer().resource_types().await?;
    let links = types.iter().map(|of| (of.name.to_string(), format!("{base}{}", of.name).into()));
    Ok(reply::ok(&Value::Object(links.collect())))
}

/// `GET /v1/resource/{type}`
///
/// Lists the resources of the caller's project; for callers without projects all resources, as in Gnocchi.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let listing = Listing::of(call)?;
    let seen = call.seen(Rule::ListResource, &call.resource_type().name, None)?;
    listing.answer(call, &call.resource_type().name, seen.clone(), seen).await
}

/// Gnocchi's text, spaces included.
const NO_FILTER: &str =
    "caution: the query can not be empty, or it will                   delete entire database";

/// `DELETE /v1/resource/{type}`: deletes the resources that match a filter, which is in the body or the query
/// string.
pub async fn delete_matching(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let filter = filter_of(call, &call.query(), body).await?;
    let filter = filter.ok_or_else(|| ApiError::bad_request(NO_FILTER))?;
    let seen = call.seen(Rule::DeleteResources, &call.resource_type().name, Some(filter))?;
    let filter = seen.expect("a filter is never widened");
    let indexer = call.indexer();
    let deleted =
        indexer.delete_matching_resources(&call.resource_type().name, &filter, call.resource_now()).await?;
    let deleted = Value::object([("deleted", (deleted.ids.len() as u64).into())]);
    Ok(reply::ok(&deleted))
}

/// `GET /v1/resource/{type}/{id}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let (resource, verdict) = find_on_conditions(call, Rule::GetResource).await?;
    if verdict == Verdict::NotModified {
        return Ok(reply::bare(StatusCode::NOT_MODIFIED));
    }
    Ok(versioned_answer(StatusCode::OK, &resource))
}

/// `DELETE /v1/resource/{type}/{id}`
///
/// Hides the resource, its history and its metrics at once; the janitor removes their data later.
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let (resource, _) = find_on_conditions(call, Rule::DeleteResource).await?;
    let indexer = call.indexer();
    if let Some(start) = Version::of(&resource).required_by(call.parts) {
        let mut deleted = indexer.delete_resource_of_revision(resource.id, start).await;
        if let Err(IndexerError::ResourceChanged(_)) = deleted {
            // What was cached is outdated. The conditions may hold all the same.
            let (current, _) = find_past_cache(call, Rule::DeleteResource).await?;
            deleted = indexer.delete_resource_of_revision(current.id, current.revision_start).await;
        }
        deleted?;
    } else {
        let deleted = indexer.delete_resources(&[resource.id]).await;
        deleted.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    Ok(reply::no_content())
}

/// `GET /v1/resource/{type}/{id}/history`: the revisions of a resource, including the current one.
pub async fn history(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let mut listing = Listing::of_history(call)?;
    let resource = find(call, Rule::GetResource).await?;
    listing.annotations = annotation::of_history(call, &resource).await?;
    let own = Some(Filter::equal("id", FilterValue::Uuid(resource.id)));
    listing.answer(call, &call.resource_type().name, own.clone(), own).await
}

/// `GET /v1/resource/{type}/{id}/metric`: by id, as all lists of metrics.
pub async fn list_metrics(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let resource = find(call, Rule::GetResource).await?;
    let mut metrics = resource.metrics.to_vec();
    metrics.sort_unstable_by_key(|metric| metric.id);
    metric::list_answer(call, &metrics).await
}

/// `POST /v1/resource/{type}/{id}/metric`: adds metrics to the resource, without a new revision.
pub async fn create_metrics(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    find(call, Rule::UpdateResource).await?;
    let document = request::json(call.parts, body).await?;
    // While the client sent the body, another one may have deleted the resource and created it anew.
    let resource = find(call, Rule::UpdateResource).await?;
    let given = match check_named(&document, &call.caller.user) {
        Ok(given) => given,
        Err(fault) => return Err(first_reported_fault(call, Some(&document), fault).await),
    };
    let added = complete_named(call, given).await?;
    admit_named(call, &added).await?;
    let names: HashMap<String, usize> =
        added.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
    let change = ResourceChange {
        metrics: Some(added),
        append_metrics: true,
        now: call.resource_now(),
        ..ResourceChange::default()
    };
    let updated = call.update_resource(&call.resource_type().name, resource.id, change).await;
    call.metrics_are_settled(&updated);
    let updated = updated.map_err(|error| match error {
        IndexerError::NamedMetricAlreadyExists(_) => ApiError::new(StatusCode::CONFLICT, error.to_string()),
        other => refusal(other),
    })?;
    // New metrics come first: gnocchiclient shows the first one as the created one.
    let mut metrics = updated.resource.metrics.to_vec();
    let place = |metric: &Arc<Metric>| metric.name.as_deref().and_then(|name| names.get(name)).copied();
    metrics.sort_by_key(|metric| place(metric).unwrap_or(usize::MAX));
    Ok(reply::ok(metric::list_body(call, &metrics, |_, _| ()).await?))
}
