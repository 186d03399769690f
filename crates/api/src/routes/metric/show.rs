//! `GET /v1/metric/{id}`

use hyper::StatusCode;

use super::ResourceForm;
use crate::{
    body::RequestBody,
    error::ApiError,
    reply::{self, Response},
    router::Call,
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let policy = call.policy().await?;
    Ok(reply::json(StatusCode::OK, &super::shown(call.metric(), Some(&policy), ResourceForm::Whole)))
}
