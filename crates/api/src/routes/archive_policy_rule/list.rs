//! `GET /v1/archive_policy_rule`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
};

/// In the order in which they are tried.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let rules = call.app.engine().indexer().archive_policy_rules().await?;
    Ok(reply::json(StatusCode::OK, &Value::Array(rules.iter().map(super::shown).collect())))
}
