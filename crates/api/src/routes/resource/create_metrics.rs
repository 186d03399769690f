//! `POST /v1/resource/{type}/{id}/metric`

use std::{collections::HashMap, sync::Arc};

use gnudi_indexer::{IndexerError, ResourceChange};
use gnudi_model::Metric;
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
    request,
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
    let added = complete_named(call, given).await?;
    let names: HashMap<String, usize> =
        added.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
    let change = ResourceChange {
        metrics: Some(added),
        append_metrics: true,
        now: call.resource_now(),
        ..ResourceChange::default()
    };
    let indexer = call.app.engine().indexer();
    let updated = indexer.update_resource(&call.resource_type().name, resource.id, change).await;
    let updated = updated.map_err(|error| match error {
        IndexerError::NamedMetricAlreadyExists(_) => ApiError::new(StatusCode::CONFLICT, error.to_string()),
        other => super::refusal(other),
    })?;
    // What was added comes first: gnocchiclient shows the first as what it has created.
    let mut metrics = updated.resource.metrics.clone();
    let place = |metric: &Arc<Metric>| metric.name.as_deref().and_then(|name| names.get(name)).copied();
    metrics.sort_by_key(|metric| place(metric).unwrap_or(usize::MAX));
    Ok(reply::json(StatusCode::OK, &metric::list_shown(call, &metrics).await?))
}
