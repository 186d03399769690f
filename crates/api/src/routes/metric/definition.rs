//! Definitions of new metrics in requests, alone or within a resource.

use std::collections::HashSet;

use gnudi_app::{
    resource_id,
    schema::{Checked, Invalid, each_entry, entries, required, storable, string, string_up_to},
};
use gnudi_indexer::{MetricsChange, NewMetric, NewNamedMetric};
use gnudi_model::{MetricId, python::parse_uuid};
use uuid::Uuid;

use crate::routes::{
    archive_policy::{self, PolicyFields, policy_fields},
    prelude::*,
    resource,
};

const UNIT_CHARACTERS_MAX: usize = 31;

/// A parsed definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricFields {
    archive_policy_name: Option<String>,
    /// Instead of a policy's name.
    archive_policy: Option<PolicyFields>,
    /// As given, and what it denotes.
    resource_id: Option<(String, Uuid)>,
    name: Option<String>,
    unit: Option<String>,
}

/// A resource's metric: an existing one, or a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenNamed {
    Attach(MetricId),
    Create(Box<MetricFields>),
}

/// Parses a definition. `name`, if given, overrides the document's name.
pub fn check(body: &Value, creator: &str, name: Option<&str>) -> Checked<MetricFields> {
    let mut given = MetricFields { name: name.map(str::to_owned), ..MetricFields::default() };
    each_entry(body, |key, value| match key {
        "archive_policy_name" => string(value).map(|name| given.archive_policy_name = Some(name)),
        "archive_policy" => policy_fields(value, false).map(|policy| given.archive_policy = Some(policy)),
        "resource_id" => {
            given.resource_id = Some((string(value)?, resource_id::check(value, creator)?));
            Ok(())
        }
        "name" if name.is_some() => Ok(()),
        "name" => string(value).map(|name| given.name = Some(name)),
        "unit" => string_up_to(UNIT_CHARACTERS_MAX)(value).map(|unit| given.unit = Some(unit)),
        _ => Err(Invalid::unknown_key()),
    })?;
    if given.archive_policy_name.is_some() && given.archive_policy.is_some() {
        return Err(Invalid::new("both archive_policy_name and archive_policy"));
    }
    Ok(given)
}

/// A metric's new policy: by name, or as a definition.
pub enum GivenPolicy {
    Name(String),
    Definition(PolicyFields),
}

/// Parses the body of `PATCH`: another policy.
pub fn check_change(body: &Value) -> Checked<GivenPolicy> {
    let mut given = None;
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        let policy = match key.as_str() {
            "archive_policy_name" => GivenPolicy::Name(string(value).map_err(in_key)?),
            "archive_policy" => GivenPolicy::Definition(policy_fields(value, false).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        };
        if given.replace(policy).is_some() {
            return Err(Invalid::new("both archive_policy_name and archive_policy"));
        }
    }
    required(given, "archive_policy_name")
}

/// Parses the metrics of a resource, by name.
pub fn check_named(body: &Value, creator: &str) -> Checked<Vec<(String, GivenNamed)>> {
    let metric = |(name, value): &(String, Value)| {
        let checked = match value {
            Value::Object(_) => {
                check(value, creator, Some(name)).map(|given| GivenNamed::Create(Box::new(given)))
            }
            Value::Str(text) => parse_uuid(text)
                .map(|id| GivenNamed::Attach(MetricId(id)))
                .ok_or_else(|| Invalid::new("not a valid value")),
            _ => Err(Invalid::new("not a valid value")),
        };
        checked.map(|given| (name.clone(), given)).map_err(|invalid| invalid.in_key(name))
    };
    entries(body)?.iter().map(metric).collect()
}

/// The error that Gnocchi reports first for an invalid document about a resource: a slash in the name of a
/// valid metric, or a name without a matching rule, comes before any other.
pub async fn first_reported_fault(
    call: &Call<'_>,
    metrics: Option<&Value>,
    fault: impl Into<ApiError>,
) -> ApiError {
    let Some(Value::Object(metrics)) = metrics else { return fault.into() };
    for (name, value) in metrics {
        let Ok(given) = check(value, &call.caller.user, Some(name)) else { continue };
        if name.contains('/') {
            return slash_refused();
        }
        if given.archive_policy_name.is_none()
            && given.archive_policy.is_none()
            && let Err(unmatched) = call.archive_policy_for(Some(name)).await
        {
            return unmatched;
        }
    }
    fault.into()
}

fn slash_refused() -> ApiError {
    ApiError::bad_request("'/' is not supported in metric name")
}

/// The new metric, after all checks. Chooses the archive policy if none is given, and looks up the resource
/// if one is. `known`: see [`archive_policy::of_definition`].
///
/// # Errors
/// 400 for an invalid name or one without a matching rule, 404 for an unknown resource, 403 if the caller may
/// not change it.
pub async fn complete(
    call: &Call<'_>,
    given: MetricFields,
    known: &mut HashSet<String>,
) -> Result<NewMetric> {
    if given.name.as_ref().is_some_and(|name| name.contains('/')) {
        return Err(slash_refused());
    }
    for text in given.name.iter().chain(&given.unit) {
        storable(text)?;
    }
    let policy_is_given = given.archive_policy_name.is_some() || given.archive_policy.is_some();
    let archive_policy_name = match (given.archive_policy_name, given.archive_policy) {
        (_, Some(definition)) => archive_policy::of_definition(call, definition, known).await?.name.clone(),
        (Some(name), None) => {
            archive_policy::refuse_definition(&name)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            name
        }
        (None, None) => call.archive_policy_for(given.name.as_deref()).await?,
    };
    if let Some((_, id)) = given.resource_id {
        if given.name.is_none() {
            let reason = "Name cannot be null if resource_id is not null";
            let detail = Value::cause_detail_reason("Attribute value error", "name", reason);
            return Err(ApiError::bad_request(detail));
        }
        resource::find_any(call, id, Rule::UpdateResource).await?;
    }
    let MetricFields { resource_id, name, unit, .. } = given;
    let (original_resource_id, resource_id) = resource_id.unzip();
    let resource_text = resource_id.map(|id| id.to_string());
    let target = [
        ("creator", Some(call.caller.user.as_str())),
        // Not the one that a rule has chosen.
        ("archive_policy_name", policy_is_given.then_some(archive_policy_name.as_str())),
        ("resource_id", resource_text.as_deref()),
        ("original_resource_id", original_resource_id.as_deref()),
        ("name", name.as_deref()),
        ("unit", unit.as_deref()),
    ];
    call.enforce(Rule::CreateMetric, Target::Given(&target))?;
    let new = NewMetric::new(call.new_metric_id(), &call.caller.user, &archive_policy_name, call.app.now());
    Ok(NewMetric { resource_id, name, unit, ..new })
}

/// [`complete`] for all metrics of a resource.
///
/// # Errors
/// Those of [`complete`], and 413 for too many metrics.
pub async fn complete_named(
    call: &Call<'_>,
    given: Vec<(String, GivenNamed)>,
) -> Result<Vec<(String, MetricsChange)>> {
    call.app.options().limits.check_metrics(given.len())?;
    let (mut changes, mut known) = (Vec::with_capacity(given.len()), HashSet::new());
    for (name, given) in given {
        storable(&name)?;
        let change = match given {
            GivenNamed::Attach(id) => {
                check_attached(call, id).await?;
                MetricsChange::Attach(id)
            }
            GivenNamed::Create(given) => {
                let NewMetric { id, unit, archive_policy_name, whole_name, .. } =
                    complete(call, *given, &mut known).await?;
                MetricsChange::Create(NewNamedMetric { id, unit, archive_policy_name, whole_name })
            }
        };
        changes.push((name, change));
    }
    Ok(changes)
}

/// Refuses (429) new metrics that would exceed the project's quota. Behind all other checks: what is admitted counts.
pub async fn admit_named(call: &Call<'_>, changes: &[(String, MetricsChange)]) -> Result<()> {
    let new = changes.iter().filter(|(_, change)| matches!(change, MetricsChange::Create(_))).count();
    call.admit_metrics(new).await
}

/// Refuses (403) a metric that the caller may not write to: attaching it to an own resource gives the right
/// to read and delete it. In Gnocchi anybody may attach any metric.
async fn check_attached(call: &Call<'_>, id: MetricId) -> Result<()> {
    let found = call.indexer().metrics(&[id]).await?;
    call.enforce_all(Rule::PostMeasures, found.iter().flatten()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_app::json;

    fn named(text: &str) -> Result<Vec<(String, GivenNamed)>, String> {
        check_named(&json::parse(text.as_bytes()).unwrap(), "u").map_err(|invalid| invalid.reason())
    }

    #[test]
    fn metrics_of_a_resource_are_ids_or_definitions() {
        let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
        let given = named(&format!(
            r#"{{"a": "{id}", "b/c": {{"name": 5, "unit": "s"}}, "d": {{"archive_policy_name": "low"}}}}"#
        ));
        let create = |name: &str, fields: MetricFields| {
            GivenNamed::Create(Box::new(MetricFields { name: Some(name.to_owned()), ..fields }))
        };
        let (unit, policy) = (Some("s".to_owned()), Some("low".to_owned()));
        let expected = [
            ("a", GivenNamed::Attach(MetricId(Uuid::try_parse(id).unwrap()))),
            ("b/c", create("b/c", MetricFields { unit, ..MetricFields::default() })),
            ("d", create("d", MetricFields { archive_policy_name: policy, ..MetricFields::default() })),
        ];
        assert_eq!(given.unwrap(), expected.map(|(name, given)| (name.to_owned(), given)));
        for (text, reason) in [
            ("[]", "expected a dictionary"),
            (r#"{"a": "x"}"#, "not a valid value for dictionary value @ data['a']"),
            (r#"{"a": 1}"#, "not a valid value for dictionary value @ data['a']"),
            (r#"{"a": {"unit": 1}}"#, "expected str for dictionary value @ data['a']['unit']"),
            (r#"{"a": {"foo": 1}}"#, "extra keys not allowed @ data['a']['foo']"),
        ] {
            assert_eq!(named(text), Err(reason.to_owned()), "{text}");
        }
    }
}
