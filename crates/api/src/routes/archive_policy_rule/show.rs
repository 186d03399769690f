//! `GET /v1/archive_policy_rule/{name}`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let rule = super::find(call).await?;
    call.enforce(Rule::GetArchivePolicyRule, Target::ArchivePolicyRule(&rule))?;
    Ok(reply::json(StatusCode::OK, &super::shown(&rule)))
}
