//! `GET /v1/resource`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
};

/// Where the resources of each type are.
pub async fn types(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let base = call.links().to("/v1/resource/");
    let types = call.app.engine().indexer().resource_types().await?;
    let links = types.iter().map(|of| (of.name.to_string(), format!("{base}{}", of.name).into()));
    Ok(reply::json(StatusCode::OK, &Value::Object(links.collect())))
}
