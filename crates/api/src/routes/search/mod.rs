//! `/v1/search`

mod metric;

pub use metric::metric;

use gnudi_app::{
    json,
    query::{Argument, Query},
};
use gnudi_indexer::Filter;

use super::{prelude::*, resource::Listing};
use crate::filter;

/// `POST /v1/search/resource/{type}`
///
/// Lists the resources that match a filter, or all; the filter is in the body or the query string.
pub async fn resource(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let filter = filter_of(call, &call.query(), body).await?;
    let listing = Listing::of(call)?;
    let resource_type = &call.resource_type().name;
    let seen = call.seen(Rule::SearchResource, resource_type, None)?;
    let filter = call.seen(Rule::SearchResource, resource_type, filter)?;
    listing.answer(call, resource_type, filter, seen).await
}

/// The filter of a request: in the body, or else in the argument `filter`; `{}` means none.
///
/// # Errors
/// 415 if the body is not declared as JSON, 400 if the filter is invalid.
pub(crate) async fn filter_of(
    call: &Call<'_>,
    query: &Query,
    body: &mut RequestBody<'_>,
) -> Result<Option<Filter>> {
    let text = body.read().await?;
    let creator = &call.caller.user;
    let filter = if text.is_empty() {
        match query.get("filter") {
            None | Some(Argument::One("")) => return Ok(None),
            Some(Argument::One(text)) => filter::from_text(text, creator)?,
            Some(Argument::Several(_)) => {
                return Err(ApiError::bad_request("Invalid filter: there are several"));
            }
        }
    } else {
        request::expect_json(call.parts)?;
        let read = || -> Result<Filter> { filter::from_json(&json::parse(&text)?, creator) };
        body.long_work.run(text.len(), read).await?
    };
    Ok(Some(filter).filter(|filter| *filter != Filter::Empty))
}
