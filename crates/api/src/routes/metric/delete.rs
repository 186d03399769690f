//! `DELETE /v1/metric/{id}`

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    reply::{self, Response},
};

/// The metric is gone for every reader from now on; the janitor removes its data later.
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let deleted = call.app.engine().indexer().delete_metrics(&[call.metric().id]).await;
    deleted.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(reply::no_content())
}
