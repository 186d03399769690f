//! `POST /v1/aggregation/resource/{type}/metric/{name}`: the metrics of that name of all resources that a search finds, or of
//! groups of them.
//!
//! Gnocchi looks at the first `max_limit` resources only; here all count.

use std::sync::Arc;

use gnudi_indexer::IndexerError;
use gnudi_model::{Metric, Resource};
use hyper::StatusCode;

use super::across::{self, AcrossQuery};
use crate::{
    body::RequestBody,
    error::ApiError,
    measures::document::Document,
    policy::Rule,
    reply::{self, Response},
    router::Call,
    routes::{
        aggregates::{check_count, group_by, groupby, list},
        search::filter_of,
    },
};

pub async fn resource(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let query = call.query();
    let groupby = groupby(&query);
    let filter = filter_of(call, &query, body).await?;
    let filter = call.seen(Rule::SearchResource, &call.resource_type().name, filter)?;
    let resources = list(call, &call.resource_type().name, filter, false, &groupby).await;
    let resources = resources.map_err(|error| match error {
        IndexerError::InvalidPagination(_) => ApiError::bad_request("Invalid groupby attribute"),
        other => other.into(),
    })?;
    check_count(call, resources.len())?;
    let mut document = Document::new(&call.app.answers);
    if groupby.is_empty() {
        let asked = AcrossQuery::of(&query, call.app.now())?;
        document.rows(across::measures(call, &asked, &metrics(call, &resources)).await?)?;
        return Ok(reply::json_bytes(StatusCode::OK, document.into_body()));
    }
    document.text("[");
    for (index, (group, resources)) in group_by(&groupby, &resources)?.into_iter().enumerate() {
        let asked = AcrossQuery::of(&query, call.app.now())?;
        document.text(if index > 0 { ", {\"group\": " } else { "{\"group\": " });
        document.value(&group);
        document.text(", \"measures\": ");
        document.rows(across::measures(call, &asked, &metrics(call, resources)).await?)?;
        document.text("}");
    }
    document.text("]");
    Ok(reply::json_bytes(StatusCode::OK, document.into_body()))
}

/// The metrics of the path's name, of those resources that have one.
fn metrics(call: &Call<'_>, resources: &[Arc<Resource>]) -> Vec<Arc<Metric>> {
    let name = call.parameter("name");
    resources.iter().filter_map(|resource| resource.metric(name).cloned()).collect()
}
