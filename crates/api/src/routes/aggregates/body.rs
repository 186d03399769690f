//! The body of a request: operations, and the search for resources whose metrics they refer to.
//!
//! In Gnocchi, voluptuous tries two schemas: one for metrics by id, with only the operations, and one with
//! all keys. It reports the first schema's error, unless the second's is deeper. An unknown resource type or
//! an invalid search fails the second schema immediately.

use std::sync::Arc;

use gnudi_app::schema::{Invalid, entries, required};
use gnudi_indexer::Filter;
use gnudi_series::operations::Operation;

use crate::{
    filter,
    operations::{self, Refusal},
    routes::prelude::*,
};

/// A parsed body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub operations: Arc<Operation>,
    /// The resources whose metrics are referred to by name; `None`: metrics are referred to by id.
    pub resources: Option<Search>,
}

/// A search for resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    pub resource_type: String,
    /// `None` matches all.
    pub filter: Option<Filter>,
}

/// Parses a body.
///
/// # Errors
/// 400 if it is invalid.
pub async fn read(call: &Call<'_>, body: &Value) -> Result<Body> {
    let entries = entries(body)?;
    let (operations, fault) = operations_alone(entries)?;
    let Some(fault) = fault else {
        return Ok(Body { operations: required(operations, "operations")?.into(), resources: None });
    };
    let (mut resource_type, mut filter) = (None, None);
    let mut other_fault = None;
    for (key, value) in entries {
        match key.as_str() {
            "operations" => {
                if operations.is_none() {
                    other_fault = other_fault.or_else(|| operations_fault(value));
                }
            }
            "resource_type" => resource_type = Some(existing_type(call, value).await?),
            "search" => filter = Some(search(call, value)?),
            _ => other_fault = other_fault.or_else(|| Some(Invalid::extra_key(key))),
        }
    }
    if let Some(other_fault) = other_fault {
        return Err(if other_fault.depth() > fault.depth() { other_fault } else { fault }.into());
    }
    let operations = Arc::new(required(operations, "operations")?);
    let Some(resource_type) = resource_type else { return Ok(Body { operations, resources: None }) };
    let filter = required(filter, "search")?;
    Ok(Body { operations, resources: Some(Search { resource_type, filter }) })
}

/// Parses the body by the schema with only the operations: the operations, if valid, and the first error.
fn operations_alone(entries: &[(String, Value)]) -> Result<(Option<Operation>, Option<Invalid>)> {
    let (mut operations, mut fault) = (None, None);
    for (key, value) in entries {
        if key != "operations" {
            fault = fault.or_else(|| Some(Invalid::extra_key(key)));
            continue;
        }
        match operations::read(value) {
            Ok(read) => operations = Some(read),
            Err(Refusal::Invalid(invalid)) => fault = fault.or_else(|| Some(invalid.in_key(key))),
            Err(Refusal::Unreadable(error)) => return Err(error),
        }
    }
    Ok((operations, fault))
}

fn operations_fault(value: &Value) -> Option<Invalid> {
    match operations::read(value) {
        Err(Refusal::Invalid(invalid)) => Some(invalid.in_key("operations")),
        _ => None,
    }
}

async fn existing_type(call: &Call<'_>, value: &Value) -> Result<String> {
    if let Value::Str(name) = value
        && call.indexer().resource_type(name).await?.is_some()
    {
        return Ok(name.clone());
    }
    Err(ApiError::bad_request(Value::cause("Resource type does not exist", value.clone())))
}

fn search(call: &Call<'_>, value: &Value) -> Result<Option<Filter>> {
    let filter = match value {
        Value::Str(text) => filter::from_text(text, &call.caller.user)?,
        document => filter::from_json(document, &call.caller.user)?,
    };
    Ok(Some(filter).filter(|filter| *filter != Filter::Empty))
}
