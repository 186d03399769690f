//! `GET /v1/archive_policy/{name}`

use gnudi_indexer::IndexerError;
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let policy = call.app.engine().indexer().archive_policy(call.parameter("name")).await?;
    let policy =
        policy.ok_or_else(|| IndexerError::NoSuchArchivePolicy(call.parameter("name").to_owned()))?;
    call.enforce(Rule::GetArchivePolicy, Target::ArchivePolicy(&policy))?;
    Ok(reply::json(StatusCode::OK, &super::shown(&policy)))
}
