//! `POST /v1/resource_type`

use gnudi_model::ResourceType;

use super::definition::{self, Purpose};
use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    policy::{Rule, Target},
    reply::{self, Response},
    request,
    schema::addressable,
};

pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let document = request::json(call.parts, body).await?;
    let (name, attributes) = definition::check(&document, Purpose::Create)?;
    call.enforce(Rule::CreateResourceType, Target::Given(&[("name", Some(&name))]))?;
    addressable(&name)?;
    let attributes = attributes
        .iter()
        .map(|(name, given)| Ok((name.as_str().into(), given.complete(name, call.app.now())?)))
        .collect::<Result<_, ApiError>>()?;
    let created = ResourceType { name: name.into(), attributes };
    call.app.engine().indexer().create_resource_type(created.clone()).await?;
    let location = call.links().to(&format!("/v1/resource_type/{}", created.name));
    Ok(reply::created(&location, &super::shown(&created)))
}
