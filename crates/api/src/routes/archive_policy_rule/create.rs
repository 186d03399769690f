//! `POST /v1/archive_policy_rule`

use gnudi_indexer::IndexerError;
use gnudi_model::ArchivePolicyRule;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    policy::{Rule, Target},
    reply::{self, Response},
    request,
    schema::{Checked, Invalid, addressable, entries, required, storable, string},
};

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let rule = check(&request::json(call.parts, body).await?)?;
    addressable(&rule.name)?;
    storable(&rule.metric_pattern)?;
    call.enforce(Rule::CreateArchivePolicyRule, Target::ArchivePolicyRule(&rule))?;
    let created = call.app.engine().indexer().create_archive_policy_rule(rule.clone()).await;
    created.map_err(|error| match error {
        IndexerError::NoSuchArchivePolicy(name) => ApiError::bad_request(Value::object([
            ("cause", "Archive policy does not exist".into()),
            ("detail", name.into()),
        ])),
        other => other.into(),
    })?;
    let location = call.links().to(&format!("/v1/archive_policy_rule/{}", rule.name));
    Ok(reply::created(&location, &super::shown(&rule)))
}

fn check(body: &Value) -> Checked<ArchivePolicyRule> {
    let (mut name, mut pattern, mut policy) = (None, None, None);
    for (key, value) in entries(body)? {
        let place = match key.as_str() {
            "name" => &mut name,
            "metric_pattern" => &mut pattern,
            "archive_policy_name" => &mut policy,
            _ => return Err(Invalid::extra_key(key)),
        };
        *place = Some(string(value).map_err(|invalid| invalid.in_key(key))?);
    }
    Ok(ArchivePolicyRule {
        metric_pattern: required(pattern, "metric_pattern")?,
        archive_policy_name: required(policy, "archive_policy_name")?,
        name: required(name, "name")?,
    })
}
