//! The body of a request: operations, and which resources' metrics they name.
//!
//! Gnocchi has voluptuous try two schemas: one for metrics by id, which has the operations alone, and one with all keys.
//! The fault that is told is the first schema's, unless the second's lies deeper. A resource type that is not there and a
//! search that cannot be read end the second at once.

use std::sync::Arc;

use gnudi_app::schema::{Invalid, entries, required};
use gnudi_indexer::Filter;
use gnudi_series::operations::Operation;

use crate::{
    filter,
    operations::{self, Refusal},
    routes::prelude::*,
};

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub operations: Arc<Operation>,
    /// Whose metrics the operations name; `None`: they name metrics by id.
    pub resources: Option<Search>,
}

/// Which resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    pub resource_type: String,
    /// `None` takes all.
    pub filter: Option<Filter>,
}

/// Reads a body.
///
/// # Errors
/// 400 where it is not what it must be.
pub async fn read(call: &Call<'_>, body: &Value) -> Result<Body, ApiError> {
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

/// The operations, where they are right, and the first fault of the schema that has nothing else.
fn operations_alone(entries: &[(String, Value)]) -> Result<(Option<Operation>, Option<Invalid>), ApiError> {
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

async fn existing_type(call: &Call<'_>, value: &Value) -> Result<String, ApiError> {
    if let Value::Str(name) = value
        && call.app.engine().indexer().resource_type(name).await?.is_some()
    {
        return Ok(name.clone());
    }
    Err(ApiError::bad_request(Value::cause("Resource type does not exist", value.clone())))
}

fn search(call: &Call<'_>, value: &Value) -> Result<Option<Filter>, ApiError> {
    let filter = match value {
        Value::Str(text) => filter::from_text(text, &call.caller.user)?,
        document => filter::from_json(document, &call.caller.user)?,
    };
    Ok(Some(filter).filter(|filter| *filter != Filter::Empty))
}
