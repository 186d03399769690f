//! `GET /v1/resource/{type}/{id}/metric`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
    routes::metric,
};

pub async fn list_metrics(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let resource = super::find(call, Rule::GetResource).await?;
    Ok(reply::json(StatusCode::OK, &metric::list_shown(call, &resource.metrics).await?))
}
