//! `GET /v1/archive_policy`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
};

pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let policies = call.app.engine().indexer().archive_policies().await?;
    let shown = policies.iter().map(|policy| super::shown(policy)).collect();
    Ok(reply::json(StatusCode::OK, &Value::Array(shown)))
}
