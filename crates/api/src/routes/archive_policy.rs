//! `/v1/archive_policy`

use std::sync::Arc;

use gnudi_indexer::PolicyChange;
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, Timespan, archive_policy::InvalidPolicy,
};

use super::prelude::*;
use crate::schema::{
    Checked, Invalid, addressable, entries, integer_from, list as list_of, required, string, timespan,
};

/// Granularities of a policy: each costs every metric its own aggregates.
const ITEMS_MAX: usize = 100;

/// What Gnocchi's database holds, and far more than there can be.
const BACK_WINDOW_MAX: u64 = i32::MAX as u64;

struct PolicyFields {
    name: String,
    back_window: u64,
    aggregation_methods: Option<Vec<String>>,
    definition: Vec<PolicyItemFields>,
    raw_timespan: Option<Timespan>,
    recomputes_late: Option<bool>,
}

/// The parts of an item that a request gives, before they are completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PolicyItemFields {
    granularity: Option<Timespan>,
    points: Option<u64>,
    timespan: Option<Timespan>,
}

/// A list of at least one item.
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

/// How many of the coarsest buckets stay open.
fn back_window_of(value: &Value) -> Checked<u64> {
    let blocks = integer_from(0)(value)?;
    if blocks > BACK_WINDOW_MAX {
        return Err(Invalid::new(format!("value must be at most {BACK_WINDOW_MAX}")));
    }
    Ok(blocks)
}

/// For how long raw points are kept.
fn raw_timespan_of(value: &Value) -> Checked<Timespan> {
    let mut timespan = None;
    for (key, value) in entries(value)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "timespan" => timespan = Some(self::timespan(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    match required(timespan, "timespan")? {
        Timespan(span) if span <= 0 => Err(Invalid::new("Timespan should be > 0").in_key("timespan")),
        span => Ok(span),
    }
}

/// Whether late measures count: `recompute`, or `drop`.
fn recomputes_late_of(value: &Value) -> Checked<bool> {
    match string(value)?.as_str() {
        RECOMPUTE => Ok(true),
        "drop" => Ok(false),
        _ => Err(Invalid::new("not a valid value")),
    }
}

/// Raw points take late measures as they are: there is no way to have them dropped.
fn check_drop(raw_timespan: Option<Timespan>, recomputes_late: Option<bool>) -> Result<(), ApiError> {
    if raw_timespan.is_some() && recomputes_late == Some(false) {
        return Err(ApiError::bad_request("late measures are not dropped where raw points are kept"));
    }
    Ok(())
}

fn item(value: &Value) -> Checked<PolicyItemFields> {
    let mut given = PolicyItemFields::default();
    for (key, value) in entries(value)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "granularity" => given.granularity = Some(timespan(value).map_err(in_key)?),
            "points" => given.points = Some(integer_from(1)(value).map_err(in_key)?),
            "timespan" => given.timespan = Some(timespan(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(given)
}

/// Whole items of the given parts.
fn complete(items: &[PolicyItemFields]) -> Result<Vec<ArchivePolicyItem>, InvalidPolicy> {
    items.iter().map(|item| ArchivePolicyItem::new(item.granularity, item.points, item.timespan)).collect()
}

impl From<InvalidPolicy> for ApiError {
    fn from(error: InvalidPolicy) -> Self {
        ApiError::bad_request(error.to_string())
    }
}

/// What a policy does with late measures, in requests and answers.
const RECOMPUTE: &str = "recompute";

/// A policy as the API shows it.
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
    // Gnocchi's policies have no such fields.
    if let (Some(timespan), Value::Object(fields)) = (policy.raw_timespan, &mut shown) {
        let raw = Value::object([("timespan", timespan.to_python_text().into())]);
        fields.push(("raw".to_owned(), raw));
    }
    if let (true, Value::Object(fields)) = (policy.recomputes_late, &mut shown) {
        fields.push(("late".to_owned(), RECOMPUTE.into()));
    }
    shown
}

/// The policy that the path names, to which the caller may do what the rule names.
async fn find(call: &Call<'_>, rule: Rule) -> Result<Arc<ArchivePolicy>, ApiError> {
    let policy = call.policy_of(call.parameter("name")).await?;
    call.enforce(rule, Target::ArchivePolicy(&policy))?;
    Ok(policy)
}

/// `POST /v1/archive_policy`
pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let given = new_policy(&request::json(call.parts, body).await?)?;
    addressable(&given.name)?;
    let default = &call.app.options().default_aggregation_methods;
    let methods = match &given.aggregation_methods {
        Some(entries) => ArchivePolicy::resolve_methods(entries, default)?,
        None => default.clone(),
    };
    let definition = complete(&given.definition)?;
    check_drop(given.raw_timespan, given.recomputes_late)?;
    let policy = ArchivePolicy {
        raw_timespan: given.raw_timespan,
        recomputes_late: given.recomputes_late.unwrap_or(false),
        ..ArchivePolicy::new(given.name, given.back_window, definition, methods)?
    };
    policy.check_late()?;
    call.enforce(Rule::CreateArchivePolicy, Target::ArchivePolicy(&policy))?;
    call.app.engine().indexer().create_archive_policy(policy.clone()).await?;
    let location = call.links().to(&format!("/v1/archive_policy/{}", policy.name));
    Ok(reply::created(&location, &shown(&policy)))
}

fn new_policy(body: &Value) -> Checked<PolicyFields> {
    let (mut name, mut back_window, mut methods, mut definition) = (None, 0, None, None);
    let (mut raw_timespan, mut recomputes_late) = (None, None);
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "name" => name = Some(string(value).map_err(in_key)?),
            "back_window" => back_window = back_window_of(value).map_err(in_key)?,
            "aggregation_methods" => methods = Some(list_of(value, method).map_err(in_key)?),
            "definition" => definition = Some(definition_of(value).map_err(in_key)?),
            "raw" => raw_timespan = Some(raw_timespan_of(value).map_err(in_key)?),
            "late" => recomputes_late = Some(recomputes_late_of(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(PolicyFields {
        definition: required(definition, "definition")?,
        name: required(name, "name")?,
        back_window,
        aggregation_methods: methods,
        raw_timespan,
        recomputes_late,
    })
}

/// A method, `*`, or a method with a sign.
fn method(value: &Value) -> Checked<String> {
    let known = |text: &String| {
        text == "*" || text.strip_prefix(['-', '+']).unwrap_or(text).parse::<AggregationMethod>().is_ok()
    };
    string(value).ok().filter(known).ok_or_else(|| Invalid::new("not a valid value"))
}

/// `PATCH /v1/archive_policy/{name}`
///
/// New points for the granularities there are, a new back window, for how long raw points are kept, and what becomes of late measures.
pub async fn update(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let current = find(call, Rule::UpdateArchivePolicy).await?;
    let change = change(&request::json(call.parts, body).await?)?;
    check_drop(change.raw_timespan.or(current.raw_timespan), change.recomputes_late)?;
    let change = PolicyChange {
        definition: complete(&change.definition)?,
        back_window: change.back_window,
        raw_timespan: change.raw_timespan,
        recomputes_late: change.recomputes_late,
    };
    let policy = call.app.engine().indexer().update_archive_policy(call.parameter("name"), change).await?;
    Ok(reply::ok(&shown(&policy)))
}

/// What a request changes, before it is completed.
struct ChangeFields {
    definition: Vec<PolicyItemFields>,
    back_window: Option<u64>,
    raw_timespan: Option<Timespan>,
    recomputes_late: Option<bool>,
}

fn change(body: &Value) -> Checked<ChangeFields> {
    let (mut definition, mut back_window) = (None, None);
    let (mut raw_timespan, mut recomputes_late) = (None, None);
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "definition" => definition = Some(definition_of(value).map_err(in_key)?),
            "back_window" => back_window = Some(back_window_of(value).map_err(in_key)?),
            "raw" => raw_timespan = Some(raw_timespan_of(value).map_err(in_key)?),
            "late" => recomputes_late = Some(recomputes_late_of(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(ChangeFields {
        definition: required(definition, "definition")?,
        back_window,
        raw_timespan,
        recomputes_late,
    })
}

/// `DELETE /v1/archive_policy/{name}`
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    call.app.engine().indexer().delete_archive_policy(call.parameter("name")).await?;
    Ok(reply::no_content())
}

/// `GET /v1/archive_policy`
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let policies = call.app.engine().indexer().archive_policies().await?;
    let shown = policies.iter().map(|policy| shown(policy)).collect();
    Ok(reply::ok(&Value::Array(shown)))
}

/// `GET /v1/archive_policy/{name}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    Ok(reply::ok(&shown(&*find(call, Rule::GetArchivePolicy).await?)))
}
