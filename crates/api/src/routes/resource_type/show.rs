//! `GET /v1/resource_type/{name}`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let found = super::find(call).await?;
    call.enforce(Rule::GetResourceType, Target::Given(&[("name", Some(&found.name))]))?;
    Ok(reply::json(StatusCode::OK, &super::shown(&found)))
}
