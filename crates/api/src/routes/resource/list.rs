//! `GET /v1/resource/{type}`

use super::Listing;
use crate::{body::RequestBody, call::Call, error::ApiError, policy::Rule, reply::Response};

/// Shows what belongs to the caller's project; every resource where callers have no projects, as in Gnocchi.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let listing = Listing::of(call)?;
    let filter = call.seen(Rule::ListResource, &call.resource_type().name, None)?;
    listing.answer(call, &call.resource_type().name, filter).await
}
