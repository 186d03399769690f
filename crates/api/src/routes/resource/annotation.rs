//! `/v1/resource/{type}/{id}/annotation`: texts that users attach to a resource at a point in time.
//!
//! An extension. Read access to a resource includes its annotations; only the author or an administrator
//! may delete one.

use std::sync::Arc;

use gnudi_access::created_by;
use gnudi_app::schema::{Checked, Invalid, each_entry, required, string_up_to};
use gnudi_indexer::{Annotation, AnnotationListing, IndexerError};
use gnudi_model::{
    Resource, Timestamp,
    python::{datetime, parse_uuid},
};
use gnudi_server::ReplyBody;
use hyper::header::LINK;
use uuid::Uuid;

use super::{definition::time, find, shown};
use crate::{
    json_list::json_list,
    pagination::{Pagination, next_link},
    routes::prelude::*,
};

/// The maximum length of a text.
const CHARACTERS_MAX: usize = 4_096;

fn as_json(annotation: &Annotation) -> Value {
    let (user, project) = created_by(&annotation.creator);
    Value::object([
        ("id", annotation.id.to_string().into()),
        ("resource_id", annotation.resource_id.to_string().into()),
        ("timestamp", annotation.timestamp.to_iso_micros().into()),
        ("text", annotation.text.as_str().into()),
        ("creator", annotation.creator.as_str().into()),
        ("created_by_user_id", user.into()),
        ("created_by_project_id", project.into()),
    ])
}

/// The annotation in the path, by its id; its row may be damaged.
async fn find_annotation(
    call: &Call<'_>,
    resource: &Resource,
) -> Result<(Uuid, Result<Annotation, IndexerError>)> {
    let text = call.parameter("annotation");
    let unknown = || ApiError::not_found(format!("Annotation {text} does not exist"));
    let id = parse_uuid(text).ok_or_else(unknown)?;
    let found = call.indexer().annotation(resource.id, id).await.transpose();
    Ok((id, found.ok_or_else(unknown)?))
}

/// `GET /v1/resource/{type}/{id}/annotation`: pages in order of time.
pub async fn list_annotations(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let pagination = Pagination::of(&query, call.app.options().max_limit, &[])?;
    let now = call.app.now();
    let (start, stop) = (query.time("start", now)?, query.time("stop", now)?);
    let marker = pagination.id_marker()?;
    let resource = find(call, Rule::GetAnnotation).await?;
    let limit = pagination.limit;
    let listing = AnnotationListing { resource_id: resource.id, start, stop, marker, limit };
    let found = call.indexer().list_annotations(&listing).await?;
    let response = reply::ok(&Value::Array(found.iter().map(as_json).collect()));
    let Some(last) = found.last().filter(|_| found.len() >= limit) else { return Ok(response) };
    let link = next_link(&call.url(), &query, &pagination, &last.id.to_string());
    Ok(reply::with_header(response, LINK, &link))
}

/// `POST /v1/resource/{type}/{id}/annotation`
pub async fn annotate(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    find(call, Rule::CreateAnnotation).await?;
    let document = request::json(call.parts, body).await?;
    // While the client sent the body, the resource may have gone to another project.
    let resource = find(call, Rule::CreateAnnotation).await?;
    let (timestamp, text) = new_annotation(&document, call.app.now())?;
    let annotation = Annotation {
        id: call.new_metric_id().0,
        resource_id: resource.id,
        timestamp,
        text,
        creator: call.caller.user.clone(),
    };
    call.indexer().create_annotation(annotation.clone()).await?;
    let location =
        format!("/v1/resource/{}/{}/annotation/{}", call.resource_type().name, resource.id, annotation.id);
    Ok(reply::created(&call.links().to(&location), &as_json(&annotation)))
}

fn new_annotation(body: &Value, now: Timestamp) -> Checked<(Timestamp, String)> {
    let (mut timestamp, mut text) = (None, None);
    each_entry(body, |key, value| match key {
        "timestamp" => time(value, now).map(|given| timestamp = Some(given)),
        "text" => content(value).map(|given| text = Some(given)),
        _ => Err(Invalid::unknown_key()),
    })?;
    Ok((timestamp.unwrap_or_else(|| datetime(now)), required(text, "text")?))
}

fn content(value: &Value) -> Checked<String> {
    let text = string_up_to(CHARACTERS_MAX)(value)?;
    if text.is_empty() {
        return Err(Invalid::new("length of value must be at least 1"));
    }
    // Some programs cannot read NUL.
    if text.contains('\0') {
        return Err(Invalid::new("not a valid value"));
    }
    Ok(text)
}

/// `GET /v1/resource/{type}/{id}/annotation/{annotation}`
pub async fn show_annotation(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let resource = find(call, Rule::GetAnnotation).await?;
    let (_, annotation) = find_annotation(call, &resource).await?;
    Ok(reply::ok(&as_json(&annotation?)))
}

/// `DELETE /v1/resource/{type}/{id}/annotation/{annotation}`
pub async fn delete_annotation(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let resource = find(call, Rule::GetAnnotation).await?;
    let (id, annotation) = find_annotation(call, &resource).await?;
    match annotation {
        Ok(Annotation { creator, .. }) => {
            let (user, project) = created_by(&creator);
            // The annotation's author, not the resource's creator.
            let target = [
                ("creator", Some(creator.as_str())),
                ("created_by_user_id", Some(user)),
                ("created_by_project_id", Some(project)),
                ("project_id", resource.project_id.as_deref()),
            ];
            call.enforce(Rule::DeleteAnnotation, Target::Given(&target))?;
        }
        // Its author is unknown: a caller who may delete all annotations may delete it, too.
        Err(IndexerError::DamagedItem { .. }) if call.allows(Rule::DeleteAnnotation, Target::Nothing) => {}
        Err(error) => return Err(error.into()),
    }
    call.indexer().delete_annotation(resource.id, id).await?;
    Ok(reply::no_content())
}

/// A resource's annotations, if the request asks for them with the history.
pub(super) async fn of_history(call: &Call<'_>, resource: &Resource) -> Result<Option<Vec<Annotation>>> {
    if !call.query().flag("annotations", false)? {
        return Ok(None);
    }
    call.enforce(Rule::GetAnnotation, Target::Resource(resource))?;
    let all = AnnotationListing::of(resource.id);
    Ok(Some(call.indexer().list_annotations(&all).await?))
}

/// The revisions of a resource, each with the annotations of its time.
pub(super) fn annotated(revisions: Vec<Arc<Resource>>, annotations: Vec<Annotation>) -> ReplyBody {
    json_list(revisions, move |revision, out| {
        shown::write(&revision, &[], out);
        out.pop();
        out.extend_from_slice(b", \"annotations\": ");
        let own = annotations.iter().filter(|annotation| is_within(&revision, annotation.timestamp));
        Value::Array(own.map(as_json).collect()).write_json(out);
        out.push(b'}');
    })
}

fn is_within(revision: &Resource, time: Timestamp) -> bool {
    revision.revision_start <= time && revision.revision_end.is_none_or(|end| time < end)
}

impl Pagination {
    /// The marker as an id.
    fn id_marker(&self) -> Result<Option<Uuid>, IndexerError> {
        Ok(self.page()?.marker.map(|marker| marker.id().0))
    }
}
