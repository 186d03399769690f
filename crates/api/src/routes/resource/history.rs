//! `GET /v1/resource/{type}/{id}/history`

use gnudi_indexer::{Comparison, Filter, FilterValue};

use super::Listing;
use crate::{body::RequestBody, call::Call, error::ApiError, policy::Rule, reply::Response};

/// The revisions of a resource, the present one included.
pub async fn history(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let listing = Listing::of_history(call)?;
    let resource = super::find(call, Rule::GetResource).await?;
    let filter = Filter::Compare {
        comparison: Comparison::Equal,
        field: "id".to_owned(),
        value: FilterValue::Uuid(resource.id),
    };
    listing.answer(call, &call.resource_type().name, Some(filter)).await
}
