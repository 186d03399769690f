//! `POST /v1/metric`

use gnudi_indexer::{IndexerError, NewMetric};

use super::{ResourceForm, definition};
use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
    request,
};

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let creator = &call.caller.user;
    let given = definition::check(&request::json(call.parts, body).await?, creator, None)?;
    let definition = definition::complete(call, given).await?;
    call.admit_metrics(1).await?;
    let metric = NewMetric {
        id: call.new_metric_id(),
        creator: creator.clone(),
        name: definition.name,
        unit: definition.unit,
        archive_policy_name: definition.archive_policy_name,
        resource_id: definition.resource_id,
        created_at: call.app.now(),
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
