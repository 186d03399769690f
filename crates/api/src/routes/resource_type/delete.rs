//! `DELETE /v1/resource_type/{name}`

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
};

pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let of = super::find(call).await?;
    call.enforce(Rule::DeleteResourceType, Target::Nothing)?;
    call.app.engine().indexer().delete_resource_type(&of.name).await?;
    Ok(reply::no_content())
}
