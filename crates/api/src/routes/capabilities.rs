//! `/v1/capabilities`

use gnudi_model::AggregationMethod;

use crate::routes::prelude::*;

/// The aggregation methods available to policies.
pub async fn show(_: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let methods: Vec<String> = AggregationMethod::all().map(|method| method.to_string()).collect();
    Ok(reply::ok(&Value::object([("aggregation_methods", methods.into())])))
}
