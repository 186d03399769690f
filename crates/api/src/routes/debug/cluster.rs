//! `GET /debug/cluster`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    reply::{self, Response},
};

/// Processes, sacks with their owners, and the backlog: what `gnudi status` prints.
pub async fn cluster(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let status = call.app.engine().cluster().await?;
    Ok(reply::json_bytes(StatusCode::OK, status.to_json().into_bytes()))
}
