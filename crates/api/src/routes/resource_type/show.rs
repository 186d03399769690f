//! `GET /v1/resource_type/{name}`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    error::ApiError,
    reply::{self, Response},
    router::Call,
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    Ok(reply::json(StatusCode::OK, &super::shown(&*super::find(call).await?)))
}
