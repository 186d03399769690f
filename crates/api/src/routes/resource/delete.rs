//! `DELETE /v1/resource/{type}/{id}`

use crate::{
    body::RequestBody,
    call::Call,
    conditions::Version,
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
};

/// The resource is gone with its history and its metrics; the janitor removes their data later.
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let resource = super::find(call, Rule::DeleteResource).await?;
    Version::of(&resource).check(call.parts)?;
    let deleted = call.app.engine().indexer().delete_resources(&[resource.id]).await;
    deleted.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(reply::no_content())
}
