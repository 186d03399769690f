//! `POST /v1/resource/{type}/{id}/metric`

use gnudi_indexer::{IndexerError, ResourceChange};
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
    request,
    router::Call,
    routes::metric::{
        self,
        definition::{check_named, complete_named, told_first},
    },
};

/// Adds metrics to those that the resource has; its revision stays the same.
pub async fn create_metrics(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let resource = super::find(call, Rule::UpdateResource).await?;
    let document = request::json(call.parts, body).await?;
    let given = match check_named(&document, &call.caller.user) {
        Ok(given) => given,
        Err(fault) => return Err(told_first(call, Some(&document), fault).await),
    };
    let change = ResourceChange {
        metrics: Some(complete_named(call, given).await?),
        append_metrics: true,
        now: super::now(call),
        ..ResourceChange::default()
    };
    let indexer = call.app.engine().indexer();
    let updated = indexer.update_resource(&call.resource_type().name, resource.id, change).await;
    let updated = updated.map_err(|error| match error {
        IndexerError::NamedMetricAlreadyExists(_) => ApiError::new(StatusCode::CONFLICT, error.to_string()),
        other => super::refusal(other),
    })?;
    Ok(reply::json(StatusCode::OK, &metric::list_shown(call, &updated.resource.metrics).await?))
}
