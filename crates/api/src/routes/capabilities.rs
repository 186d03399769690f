//! `/v1/capabilities`

use gnudi_model::AggregationMethod;
use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    json::Value,
    reply::{self, Response},
};

/// The aggregation methods that policies may name.
pub async fn show(_: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let methods: Vec<String> = AggregationMethod::all().map(|method| method.to_string()).collect();
    Ok(reply::json(StatusCode::OK, &Value::object([("aggregation_methods", methods.into())])))
}
