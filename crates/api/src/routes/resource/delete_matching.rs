//! `DELETE /v1/resource/{type}`

use gnudi_indexer::Filter;
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    filter,
    json::{self, Value},
    policy::Rule,
    query::Argument,
    reply::{self, Response},
    request,
};

/// Gnocchi's words, spaces included.
const NO_FILTER: &str =
    "caution: the query can not be empty, or it will                   delete entire database";

/// Deletes the resources that a filter takes; it comes in the body or in the query.
pub async fn delete_matching(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let creator = &call.caller.user;
    let text = body.read().await?;
    let query = call.query();
    let filter = match (text.is_empty(), query.get("filter")) {
        (false, _) => {
            request::expect_json(call.parts)?;
            filter::from_json(&json::parse(&text)?, creator)?
        }
        (true, None | Some(Argument::One(""))) => Filter::Empty,
        (true, Some(Argument::One(text))) => filter::from_text(text, creator)?,
        (true, Some(Argument::Several(_))) => {
            return Err(ApiError::bad_request("Invalid filter: there are several"));
        }
    };
    if filter == Filter::Empty {
        return Err(ApiError::bad_request(NO_FILTER));
    }
    let seen = call.seen(Rule::DeleteResources, &call.resource_type().name, Some(filter))?;
    let filter = seen.expect("a filter is never widened");
    let indexer = call.app.engine().indexer();
    let deleted =
        indexer.delete_matching_resources(&call.resource_type().name, &filter, call.resource_now()).await?;
    let deleted = Value::object([("deleted", (deleted.ids.len() as u64).into())]);
    Ok(reply::json(StatusCode::OK, &deleted))
}
