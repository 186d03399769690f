//! `PATCH /v1/archive_policy/{name}`

use gnudi_indexer::IndexerError;
use hyper::StatusCode;

use super::definition::{self, PolicyItemFields};
use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    policy::{Rule, Target},
    reply::{self, Response},
    request,
    schema::{Checked, Invalid, entries, required},
};

/// New points for the granularities there are, and a new back window.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let indexer = call.app.engine().indexer();
    let found = indexer.archive_policy(call.parameter("name")).await?;
    let found = found.ok_or_else(|| IndexerError::NoSuchArchivePolicy(call.parameter("name").to_owned()))?;
    call.enforce(Rule::UpdateArchivePolicy, Target::ArchivePolicy(&found))?;
    let (items, back_window) = check(&request::json(call.parts, body).await?)?;
    let definition = definition::complete(&items)?;
    let policy = indexer.update_archive_policy(call.parameter("name"), definition, back_window).await?;
    Ok(reply::json(StatusCode::OK, &super::shown(&policy)))
}

fn check(body: &Value) -> Checked<(Vec<PolicyItemFields>, Option<u64>)> {
    let (mut definition, mut back_window) = (None, None);
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "definition" => definition = Some(definition::check(value).map_err(in_key)?),
            "back_window" => back_window = Some(definition::back_window(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok((required(definition, "definition")?, back_window))
}
