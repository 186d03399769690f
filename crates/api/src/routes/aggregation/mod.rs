//! `/v1/aggregation`, which `/v1/aggregates` succeeds: one aggregation of many metrics, aggregated across them.

mod across;
mod metric;
mod resource;

pub use metric::{metric, posted_metric};
pub use resource::resource;

use crate::{body::RequestBody, error::ApiError, reply::Response, router::Call};

/// What is said to paths of the right length that lead nowhere.
pub async fn nothing(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    Err(ApiError::not_found(""))
}
