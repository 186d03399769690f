//! `DELETE /v1/archive_policy/{name}`

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    reply::{self, Response},
};

pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    call.app.engine().indexer().delete_archive_policy(call.parameter("name")).await?;
    Ok(reply::no_content())
}
