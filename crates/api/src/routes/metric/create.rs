//! `POST /v1/metric`

use gnudi_indexer::{IndexerError, NewMetric};
use gnudi_model::MetricId;
use uuid::Uuid;

use super::ResourceForm;
use crate::{
    body::RequestBody,
    error::ApiError,
    json::Value,
    reply::{self, Response},
    request, resource_id,
    router::Call,
    schema::{Checked, Invalid, entries, storable, string, string_up_to},
};

const UNIT_CHARACTERS_MAX: usize = 31;

#[derive(Default)]
struct Given {
    archive_policy_name: Option<String>,
    resource_id: Option<Uuid>,
    name: Option<String>,
    unit: Option<String>,
}

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let creator = &call.caller.user;
    let given = check(&request::json(call.parts, body).await?, creator)?;
    if given.name.as_ref().is_some_and(|name| name.contains('/')) {
        return Err(ApiError::bad_request("'/' is not supported in metric name"));
    }
    for text in given.name.iter().chain(&given.unit) {
        storable(text)?;
    }
    let policy_name = match given.archive_policy_name {
        Some(name) => name,
        None => policy_for(call, given.name.as_deref()).await?,
    };
    if let Some(resource) = given.resource_id {
        if given.name.is_none() {
            return Err(ApiError::bad_request(Value::object([
                ("cause", "Attribute value error".into()),
                ("detail", "name".into()),
                ("reason", "Name cannot be null if resource_id is not null".into()),
            ])));
        }
        // No resource exists yet: they come with a later version.
        return Err(ApiError::not_found(format!("Resource {resource} does not exist")));
    }
    let now = call.app.now();
    let metric = NewMetric {
        id: MetricId::new(now, Uuid::new_v4().as_u128()),
        creator: creator.clone(),
        name: given.name,
        unit: given.unit,
        archive_policy_name: policy_name,
        resource_id: given.resource_id,
        created_at: now,
    };
    let created = call.app.engine().indexer().create_metrics(vec![metric]).await.pop();
    let metric = created.expect("one answer per metric").map_err(|error| match error {
        IndexerError::NoSuchArchivePolicy(_) => ApiError::bad_request(error.to_string()),
        IndexerError::NamedMetricAlreadyExists(name) => ApiError::bad_request(Value::object([
            ("cause", "Named metric already exists".into()),
            ("detail", name.into()),
        ])),
        other => other.into(),
    })?;
    let location = call.links().to(&format!("/v1/metric/{}", metric.id));
    Ok(reply::created(&location, &super::shown(&metric, None, ResourceForm::Id)))
}

fn check(body: &Value, creator: &str) -> Checked<Given> {
    let mut given = Given::default();
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "archive_policy_name" => given.archive_policy_name = Some(string(value).map_err(in_key)?),
            "resource_id" => given.resource_id = Some(resource_id::check(value, creator).map_err(in_key)?),
            "name" => given.name = Some(string(value).map_err(in_key)?),
            "unit" => given.unit = Some(string_up_to(UNIT_CHARACTERS_MAX)(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(given)
}

/// The policy that the rules give to a metric of this name.
async fn policy_for(call: &Call<'_>, name: Option<&str>) -> Result<String, ApiError> {
    let found = call.app.engine().indexer().archive_policy_name_for_metric(name.unwrap_or("")).await;
    found.map_err(|error| match error {
        IndexerError::NoArchivePolicyRuleMatch(_) => ApiError::bad_request(format!(
            "No archive policy name specified and no archive policy rule found matching the metric name {}",
            name.unwrap_or("None")
        )),
        other => other.into(),
    })
}
