//! `GET /v1/resource/{type}`

use super::Listing;
use crate::{body::RequestBody, error::ApiError, reply::Response, router::Call};

/// With basic authentication every caller sees every resource, as in Gnocchi.
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    Listing::of(call)?.answer(call, &call.resource_type().name, None).await
}
