//! `PATCH /v1/archive_policy_rule/{name}`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
    request,
    schema::{Checked, Invalid, addressable, entries, required, string},
};

/// Renames the rule; nothing else of it changes.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let rule = super::find(call).await?;
    let new_name = check(&request::json(call.parts, body).await?)?;
    addressable(&new_name)?;
    let rule = call.app.engine().indexer().rename_archive_policy_rule(&rule.name, &new_name).await?;
    Ok(reply::json(StatusCode::OK, &super::shown(&rule)))
}

fn check(body: &Value) -> Checked<String> {
    let mut name = None;
    for (key, value) in entries(body)? {
        match key.as_str() {
            "name" => name = Some(string(value).map_err(|invalid| invalid.in_key(key))?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    required(name, "name")
}
