//! `GET /v1/metric/{id}`

use gnudi_model::resource_type::GENERIC;
use hyper::StatusCode;

use super::ResourceForm;
use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    reply::{self, Response},
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let policy = call.policy().await?;
    let resource = match call.metric().resource_id {
        Some(id) => call.app.engine().indexer().resource(GENERIC, id).await?,
        None => None,
    };
    let form = ResourceForm::Whole(resource.as_deref());
    Ok(reply::json(StatusCode::OK, &super::shown(call.metric(), Some(&policy), form)))
}
