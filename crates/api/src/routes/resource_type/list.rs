//! `GET /v1/resource_type`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
};

pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let types = call.app.engine().indexer().resource_types().await?;
    let shown = types.iter().map(|of| super::shown(of)).collect();
    Ok(reply::json(StatusCode::OK, &Value::Array(shown)))
}
