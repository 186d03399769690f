//! `GET /v1/resource/{type}/{id}`

use hyper::StatusCode;

use crate::{
    body::RequestBody,
    call::Call,
    conditions::{Verdict, Version},
    error::ApiError,
    policy::Rule,
    reply::{self, Response},
};

pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let resource = super::find(call, Rule::GetResource).await?;
    let version = Version::of(&resource);
    if version.check(call.parts)? == Verdict::NotModified {
        return Ok(reply::bare(StatusCode::NOT_MODIFIED));
    }
    let mut response = super::answer(StatusCode::OK, &resource);
    version.show(&mut response);
    Ok(response)
}
