//! `/v1/archive_policy`

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use gnudi_app::schema::{
    Checked, Invalid, addressable, each_entry, integer_from, list as list_of, required, string, timespan,
};
use gnudi_indexer::{IndexerError, PolicyChange};
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, Timespan, archive_policy::InvalidPolicy,
};
use gnudi_series::head::{Origin, outcome};
use hyper::StatusCode;
use uuid::Uuid;

use super::prelude::*;

/// The maximum number of granularities in a policy: every metric stores aggregates for each.
const ITEMS_MAX: usize = 100;

/// The limit of Gnocchi's database, far beyond any useful value.
const BACK_WINDOW_MAX: u64 = i32::MAX as u64;

/// A policy in a request, the definition of a single metric, or a change of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyFields {
    /// Empty except for a policy.
    name: String,
    back_window: Option<u64>,
    aggregation_methods: Option<Vec<String>>,
    definition: Vec<PolicyItemFields>,
    raw_timespan: Option<Timespan>,
    recomputes_late: Option<bool>,
}

/// An item in a request, before it is completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PolicyItemFields {
    granularity: Option<Timespan>,
    points: Option<u64>,
    timespan: Option<Timespan>,
}

/// Parses a definition: at least one item.
fn definition_of(value: &Value) -> Checked<Vec<PolicyItemFields>> {
    let items = list_of(value, item)?;
    if items.is_empty() {
        return Err(Invalid::new("length of value must be at least 1"));
    }
    if items.len() > ITEMS_MAX {
        return Err(Invalid::new(format!("length of value must be at most {ITEMS_MAX}")));
    }
    Ok(items)
}

/// Parses the back window: how many of the coarsest buckets stay open.
fn back_window_of(value: &Value) -> Checked<u64> {
    let blocks = integer_from(0)(value)?;
    if blocks > BACK_WINDOW_MAX {
        return Err(Invalid::new(format!("value must be at most {BACK_WINDOW_MAX}")));
    }
    Ok(blocks)
}

/// Parses how long raw points are kept.
fn raw_timespan_of(value: &Value) -> Checked<Timespan> {
    let mut given = None;
    each_entry(value, |key, value| match key {
        "timespan" => timespan(value).map(|span| given = Some(span)),
        _ => Err(Invalid::unknown_key()),
    })?;
    match required(given, "timespan")? {
        Timespan(span) if span <= 0 => Err(Invalid::new("Timespan should be > 0").in_key("timespan")),
        span => Ok(span),
    }
}

/// Parses whether late measures are added: `recompute` or `drop`.
fn recomputes_late_of(value: &Value) -> Checked<bool> {
    match string(value)?.as_str() {
        RECOMPUTE => Ok(true),
        "drop" => Ok(false),
        _ => Err(Invalid::new("not a valid value")),
    }
}

/// Refuses `drop` with raw points: a policy with raw points always adds late measures.
fn check_drop(raw_timespan: Option<Timespan>, recomputes_late: Option<bool>) -> Result<()> {
    if raw_timespan.is_some() && recomputes_late == Some(false) {
        return Err(ApiError::bad_request("late measures cannot be dropped while raw points are kept"));
    }
    Ok(())
}

fn item(value: &Value) -> Checked<PolicyItemFields> {
    let mut given = PolicyItemFields::default();
    each_entry(value, |key, value| match key {
        "granularity" => timespan(value).map(|span| given.granularity = Some(span)),
        "points" => integer_from(1)(value).map(|points| given.points = Some(points)),
        "timespan" => timespan(value).map(|span| given.timespan = Some(span)),
        _ => Err(Invalid::unknown_key()),
    })?;
    Ok(given)
}

/// Completes the items.
fn complete(items: &[PolicyItemFields]) -> Result<Vec<ArchivePolicyItem>, InvalidPolicy> {
    items.iter().map(|item| ArchivePolicyItem::new(item.granularity, item.points, item.timespan)).collect()
}

/// The value of `late`, in requests and responses.
const RECOMPUTE: &str = "recompute";

/// A policy in a response.
pub fn shown(policy: &ArchivePolicy) -> Value {
    let item = |item: &ArchivePolicyItem| {
        Value::object([
            ("timespan", item.timespan.map(Timespan::to_python_text).into()),
            ("granularity", item.granularity.to_python_text().into()),
            ("points", item.points.into()),
        ])
    };
    let methods: Vec<String> = policy.aggregation_methods.iter().map(ToString::to_string).collect();
    let mut shown = Value::object([
        ("name", policy.name.as_str().into()),
        ("back_window", policy.back_window.into()),
        ("definition", Value::Array(policy.definition.iter().map(item).collect())),
        ("aggregation_methods", methods.into()),
    ]);
    // Extensions: Gnocchi's policies have no such fields.
    if let (Some(timespan), Value::Object(fields)) = (policy.raw_timespan, &mut shown) {
        let raw = Value::object([("timespan", timespan.to_python_text().into())]);
        fields.push(("raw".to_owned(), raw));
    }
    if let (true, Value::Object(fields)) = (policy.recomputes_late, &mut shown) {
        fields.push(("late".to_owned(), RECOMPUTE.into()));
    }
    shown
}

/// The policy in the path, after checking the rule on it.
async fn find(call: &Call<'_>, rule: Rule) -> Result<Arc<ArchivePolicy>> {
    refuse_definition(call.parameter("name"))?;
    let policy = call.policy_of(call.parameter("name")).await?;
    call.enforce(rule, Target::ArchivePolicy(&policy))?;
    Ok(policy)
}

/// `POST /v1/archive_policy`
pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let given = policy_fields(&request::json(call.parts, body).await?, true)?;
    addressable(&given.name)?;
    if ArchivePolicy::is_definition_name(&given.name) {
        return Err(ApiError::bad_request("names of this form are reserved for definitions of metrics"));
    }
    let policy = completed(call, given)?;
    call.enforce(Rule::CreateArchivePolicy, Target::ArchivePolicy(&policy))?;
    call.indexer().create_archive_policy(policy.clone()).await?;
    let location = call.links().to(&format!("/v1/archive_policy/{}", policy.name));
    Ok(reply::created(&location, &shown(&policy)))
}

fn completed(call: &Call<'_>, given: PolicyFields) -> Result<ArchivePolicy> {
    let definition = complete(&given.definition)?;
    let methods = match &given.aggregation_methods {
        Some(entries) => resolved(call, entries)?,
        None => call.app.options().default_aggregation_methods.clone(),
    };
    check_drop(given.raw_timespan, given.recomputes_late)?;
    let policy = ArchivePolicy {
        raw_timespan: given.raw_timespan,
        recomputes_late: given.recomputes_late.unwrap_or(false),
        ..ArchivePolicy::new(given.name, given.back_window.unwrap_or(0), definition, methods)?
    };
    policy.check_late()?;
    Ok(policy)
}

fn resolved(call: &Call<'_>, entries: &[String]) -> Result<BTreeSet<AggregationMethod>, InvalidPolicy> {
    ArchivePolicy::resolve_methods(entries, &call.app.options().default_aggregation_methods)
}

/// The policy for a metric's own definition; created if missing. Equal definitions share one. `known` has the names of those
/// that the request has looked up.
///
/// # Errors
/// 403 if the caller may not create archive policies.
pub(crate) async fn of_definition(
    call: &Call<'_>,
    given: PolicyFields,
    known: &mut HashSet<String>,
) -> Result<Arc<ArchivePolicy>> {
    let mut policy = completed(call, given)?;
    call.enforce(Rule::CreateArchivePolicy, Target::ArchivePolicy(&policy))?;
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, shown(&policy).to_json().as_bytes());
    policy.name = ArchivePolicy::definition_name(digest);
    let indexer = call.indexer();
    // A policy without metrics may be gone though it is cached: another process may have swept it.
    if known.insert(policy.name.clone()) && indexer.metrics_of_policy(&policy.name, None, 1).await?.is_empty()
    {
        match indexer.create_archive_policy(policy.clone()).await {
            // It has no metrics yet, or a concurrent request has created it.
            Err(IndexerError::ArchivePolicyAlreadyExists(_)) => {}
            created => created?,
        }
    }
    Ok(Arc::new(policy))
}

/// The policy that a request names for metrics.
///
/// # Errors
/// 400 if it does not exist, or belongs to a metric's own definition.
pub(crate) async fn given(call: &Call<'_>, name: &str) -> Result<Arc<ArchivePolicy>> {
    refuse_definition(name).map_err(|error| ApiError::bad_request(error.to_string()))?;
    call.policy_of(name).await.map_err(|error| match error.status {
        StatusCode::NOT_FOUND => ApiError::bad_request(no_such(name).to_string()),
        _ => error,
    })
}

fn no_such(name: &str) -> IndexerError {
    IndexerError::NoSuchArchivePolicy(name.to_owned())
}

/// The error for metrics whose policy does not exist when they are created, or moved to it.
pub(crate) fn missing(name: &str) -> ApiError {
    if ArchivePolicy::is_definition_name(name) {
        // No request names it: [`of_definition`] has found or created it, and the janitor has swept it since.
        return ApiError::unavailable("The policy of a metric's definition was removed meanwhile");
    }
    ApiError::bad_request(no_such(name).to_string())
}

/// Refuses the name of a policy that belongs to a metric's own definition.
pub(crate) fn refuse_definition(name: &str) -> Result<(), IndexerError> {
    if ArchivePolicy::is_definition_name(name) { Err(no_such(name)) } else { Ok(()) }
}

/// Parses a policy; `has_name` is false for a metric's own definition, and for a change.
pub(crate) fn policy_fields(body: &Value, has_name: bool) -> Checked<PolicyFields> {
    let (mut name, mut back_window, mut methods, mut definition) = (None, None, None, None);
    let (mut raw_timespan, mut recomputes_late) = (None, None);
    each_entry(body, |key, value| match key {
        "name" if has_name => string(value).map(|given| name = Some(given)),
        "back_window" => back_window_of(value).map(|given| back_window = Some(given)),
        "aggregation_methods" => list_of(value, method).map(|given| methods = Some(given)),
        "definition" => definition_of(value).map(|given| definition = Some(given)),
        "raw" => raw_timespan_of(value).map(|given| raw_timespan = Some(given)),
        "late" => recomputes_late_of(value).map(|given| recomputes_late = Some(given)),
        _ => Err(Invalid::unknown_key()),
    })?;
    Ok(PolicyFields {
        definition: required(definition, "definition")?,
        name: if has_name { required(name, "name")? } else { String::new() },
        back_window,
        aggregation_methods: methods,
        raw_timespan,
        recomputes_late,
    })
}

/// Parses a method, `*`, or a method with a sign.
fn method(value: &Value) -> Checked<String> {
    let known = |text: &String| {
        text == "*" || text.strip_prefix(['-', '+']).unwrap_or(text).parse::<AggregationMethod>().is_ok()
    };
    string(value).ok().filter(known).ok_or_else(|| Invalid::new("not a valid value"))
}

/// `PATCH /v1/archive_policy/{name}`
///
/// Changes the points of existing granularities, the back window, how long raw points are kept, the treatment
/// of late measures, and the methods. A damaged policy is repaired by definition, back window and methods.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let name = call.parameter("name");
    refuse_definition(name)?;
    let before = match call.indexer().archive_policy(name).await {
        Err(IndexerError::DamagedItem { .. }) => None,
        found => Some(found?.ok_or_else(|| no_such(name))?),
    };
    // Of a damaged one only the name is known.
    let known = [("name", Some(name))];
    let target = before.as_deref().map_or(Target::Given(&known), Target::ArchivePolicy);
    call.enforce(Rule::UpdateArchivePolicy, target)?;
    let change = policy_fields(&request::json(call.parts, body).await?, false)?;
    let raw_timespan = change.raw_timespan.or(before.as_ref().and_then(|before| before.raw_timespan));
    check_drop(raw_timespan, change.recomputes_late)?;
    let methods = change.aggregation_methods.map(|entries| resolved(call, &entries)).transpose()?;
    let change = PolicyChange {
        definition: complete(&change.definition)?,
        back_window: change.back_window,
        raw_timespan: change.raw_timespan,
        recomputes_late: change.recomputes_late,
        aggregation_methods: methods,
    };
    let changes_methods = change.aggregation_methods.is_some();
    let synced = call.app.engine().sync_aggregates().await;
    if before.is_some() {
        // Measures that wait for a damaged policy cannot be folded before.
        synced?;
    }
    let policy = call.indexer().update_archive_policy(name, change).await?;
    let mut shown = shown(&policy);
    if let Some(before) = before.filter(|_| changes_methods) {
        add_conversion(&mut shown, &before, &policy);
    }
    Ok(reply::ok(&shown))
}

/// Adds to a policy or metric in a response how each aggregation is converted when `new` replaces `old`.
pub(crate) fn add_conversion(shown: &mut Value, old: &ArchivePolicy, new: &ArchivePolicy) {
    let aggregation = |(granularity, method, origin): (Timespan, AggregationMethod, Origin)| {
        let origin = match origin {
            Origin::Kept => "kept",
            Origin::Computed => "computed",
            Origin::Begins => "begins",
        };
        Value::object([
            ("granularity", granularity.to_python_text().into()),
            ("aggregation_method", method.to_string().into()),
            ("values", origin.into()),
        ])
    };
    if let Value::Object(entries) = shown {
        let conversion = outcome(old, new).into_iter().map(aggregation).collect();
        entries.push(("conversion".to_owned(), Value::Array(conversion)));
    }
}

/// `DELETE /v1/archive_policy/{name}`
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    refuse_definition(call.parameter("name"))?;
    call.indexer().delete_archive_policy(call.parameter("name")).await?;
    Ok(reply::no_content())
}

/// `GET /v1/archive_policy`
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let policies = call.indexer().archive_policies().await?;
    let shown = policies.iter().map(|policy| shown(policy)).collect();
    Ok(reply::ok(&Value::Array(shown)))
}

/// `GET /v1/archive_policy/{name}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    Ok(reply::ok(&shown(&*find(call, Rule::GetArchivePolicy).await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_is_swept_meanwhile_is_no_fault_of_the_request() {
        let swept = missing(&ArchivePolicy::definition_name(Uuid::nil()));
        assert_eq!(swept.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(missing("low").status, StatusCode::BAD_REQUEST);
    }
}
