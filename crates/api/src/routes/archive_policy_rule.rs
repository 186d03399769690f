//! `/v1/archive_policy_rule`

use gnudi_app::schema::{Checked, Invalid, addressable, each_entry, required, storable, string};
use gnudi_indexer::IndexerError;
use gnudi_model::ArchivePolicyRule;

use super::{archive_policy::refuse_definition, prelude::*};

/// A rule in a response.
fn shown(rule: &ArchivePolicyRule) -> Value {
    Value::object([
        ("name", rule.name.as_str().into()),
        ("archive_policy_name", rule.archive_policy_name.as_str().into()),
        ("metric_pattern", rule.metric_pattern.as_str().into()),
    ])
}

/// The rule in the path.
async fn find(call: &Call<'_>) -> Result<ArchivePolicyRule> {
    let rule = call.indexer().archive_policy_rule(call.parameter("name")).await?;
    rule.ok_or_else(|| IndexerError::NoSuchArchivePolicyRule(call.parameter("name").to_owned()).into())
}

/// `GET /v1/archive_policy_rule`: in matching order.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let rules = call.indexer().archive_policy_rules().await?;
    Ok(reply::ok(&Value::Array(rules.iter().map(shown).collect())))
}

/// `POST /v1/archive_policy_rule`
pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let rule = new_rule(&request::json(call.parts, body).await?)?;
    addressable(&rule.name)?;
    storable(&rule.metric_pattern)?;
    call.enforce(Rule::CreateArchivePolicyRule, Target::ArchivePolicyRule(&rule))?;
    let created = match refuse_definition(&rule.archive_policy_name) {
        Ok(()) => call.indexer().create_archive_policy_rule(rule.clone()).await,
        refused => refused,
    };
    created.map_err(|error| match error {
        IndexerError::NoSuchArchivePolicy(name) => {
            ApiError::bad_request(Value::cause("Archive policy does not exist", name))
        }
        other => other.into(),
    })?;
    let location = call.links().to(&format!("/v1/archive_policy_rule/{}", rule.name));
    Ok(reply::created(&location, &shown(&rule)))
}

fn new_rule(body: &Value) -> Checked<ArchivePolicyRule> {
    let (mut name, mut pattern, mut policy) = (None, None, None);
    each_entry(body, |key, value| match key {
        "name" => string(value).map(|given| name = Some(given)),
        "metric_pattern" => string(value).map(|given| pattern = Some(given)),
        "archive_policy_name" => string(value).map(|given| policy = Some(given)),
        _ => Err(Invalid::unknown_key()),
    })?;
    Ok(ArchivePolicyRule {
        metric_pattern: required(pattern, "metric_pattern")?,
        archive_policy_name: required(policy, "archive_policy_name")?,
        name: required(name, "name")?,
    })
}

/// `GET /v1/archive_policy_rule/{name}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let rule = find(call).await?;
    call.enforce(Rule::GetArchivePolicyRule, Target::ArchivePolicyRule(&rule))?;
    Ok(reply::ok(&shown(&rule)))
}

/// `PATCH /v1/archive_policy_rule/{name}`: renames the rule.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    // As in Gnocchi, a malformed body is reported before access is checked.
    let new_name = new_name(&request::json(call.parts, body).await?)?;
    call.enforce(Rule::UpdateArchivePolicyRule, Target::Nothing)?;
    let rule = find(call).await?;
    addressable(&new_name)?;
    let rule = call.indexer().rename_archive_policy_rule(&rule.name, &new_name).await?;
    Ok(reply::ok(&shown(&rule)))
}

fn new_name(body: &Value) -> Checked<String> {
    let mut name = None;
    each_entry(body, |key, value| match key {
        "name" => string(value).map(|given| name = Some(given)),
        _ => Err(Invalid::unknown_key()),
    })?;
    required(name, "name")
}

/// `DELETE /v1/archive_policy_rule/{name}`
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    call.indexer().delete_archive_policy_rule(call.parameter("name")).await?;
    Ok(reply::no_content())
}
