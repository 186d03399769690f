//! `POST /v1/archive_policy`

use gnudi_model::ArchivePolicy;

use super::definition::{self, PolicyItemFields};
use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    policy::{Rule, Target},
    reply::{self, Response},
    request,
    schema::{Checked, Invalid, addressable, entries, list, required, string},
};

struct PolicyFields {
    name: String,
    back_window: u64,
    aggregation_methods: Option<Vec<String>>,
    definition: Vec<PolicyItemFields>,
}

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let given = check(&request::json(call.parts, body).await?)?;
    addressable(&given.name)?;
    let default = &call.app.options().default_aggregation_methods;
    let methods = match &given.aggregation_methods {
        Some(entries) => ArchivePolicy::resolve_methods(entries, default)?,
        None => default.clone(),
    };
    let definition = definition::complete(&given.definition)?;
    let policy = ArchivePolicy::new(given.name, given.back_window, definition, methods)?;
    call.enforce(Rule::CreateArchivePolicy, Target::ArchivePolicy(&policy))?;
    call.app.engine().indexer().create_archive_policy(policy.clone()).await?;
    let location = call.links().to(&format!("/v1/archive_policy/{}", policy.name));
    Ok(reply::created(&location, &super::shown(&policy)))
}

fn check(body: &Value) -> Checked<PolicyFields> {
    let (mut name, mut back_window, mut methods, mut definition) = (None, 0, None, None);
    for (key, value) in entries(body)? {
        let in_key = |invalid: Invalid| invalid.in_key(key);
        match key.as_str() {
            "name" => name = Some(string(value).map_err(in_key)?),
            "back_window" => back_window = definition::back_window(value).map_err(in_key)?,
            "aggregation_methods" => methods = Some(list(value, method).map_err(in_key)?),
            "definition" => definition = Some(definition::check(value).map_err(in_key)?),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(PolicyFields {
        definition: required(definition, "definition")?,
        name: required(name, "name")?,
        back_window,
        aggregation_methods: methods,
    })
}

/// A method, `*`, or a method with a sign.
fn method(value: &Value) -> Checked<String> {
    let known = |text: &String| {
        text == "*"
            || text.strip_prefix(['-', '+']).unwrap_or(text).parse::<gnudi_model::AggregationMethod>().is_ok()
    };
    string(value).ok().filter(known).ok_or_else(|| Invalid::new("not a valid value"))
}
