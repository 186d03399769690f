//! `/v1/aggregation`, which `/v1/aggregates` succeeds: one aggregation of many metrics, aggregated across them.

mod across;
mod metric;
mod resource;

pub use metric::{metric, posted_metric};
pub use resource::resource;

use crate::{body::RequestBody, error::ApiError, reply::Response, router::Call, schema::Invalid};

/// What is said to a path without the metric's name: Gnocchi takes what else is in it for the id of a metric.
pub async fn no_metric(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let reason = Invalid::new("not a valid value").in_index(0).reason();
    Err(ApiError::bad_request(format!("Invalid input: {reason}")))
}

/// What is said to paths of the right length that lead nowhere.
pub async fn nothing(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    Err(ApiError::not_found(""))
}
