//! `/v1/resource_type`

mod definition;
mod patch;
mod pointer;
mod update;

pub use update::update;

use std::sync::Arc;

use gnudi_app::schema::addressable;
use gnudi_indexer::IndexerError;
use gnudi_model::{Attribute, AttributeKind, ResourceType};

use super::{prelude::*, resource::bound};
use definition::Purpose;

/// A type in a response. Its state is constant, since types are created and deleted at once.
pub(crate) fn shown(of: &ResourceType) -> Value {
    let attributes =
        of.attributes.iter().map(|(name, attribute)| (name.to_string(), shown_attribute(attribute)));
    Value::object([
        ("name", of.name.as_str().into()),
        ("attributes", Value::Object(attributes.collect())),
        ("state", "active".into()),
    ])
}

fn shown_attribute(attribute: &Attribute) -> Value {
    let mut entries = vec![
        ("type".to_owned(), attribute.kind.name().into()),
        ("required".to_owned(), Value::Bool(attribute.required)),
    ];
    match attribute.kind {
        AttributeKind::String { min_length, max_length } => {
            entries.push(("max_length".to_owned(), u64::from(max_length).into()));
            entries.push(("min_length".to_owned(), u64::from(min_length).into()));
        }
        AttributeKind::Number { min, max } => {
            entries.push(("min".to_owned(), min.map(bound).into()));
            entries.push(("max".to_owned(), max.map(bound).into()));
        }
        AttributeKind::Uuid | AttributeKind::Bool | AttributeKind::Datetime => {}
    }
    Value::Object(entries)
}

/// The type in the path.
async fn find(call: &Call<'_>) -> Result<Arc<ResourceType>> {
    let name = call.parameter("name");
    let found = call.indexer().resource_type(name).await?;
    found.ok_or_else(|| IndexerError::NoSuchResourceType(name.to_owned()).into())
}

/// [`find`], as listings do it: they always read the index. Another process may just have changed what is cached here: a
/// change back must not be taken for none.
async fn find_past_cache(call: &Call<'_>) -> Result<Arc<ResourceType>> {
    let name = call.parameter("name");
    let found = call.indexer().resource_types().await?.into_iter().find(|of| of.name == name);
    found.ok_or_else(|| IndexerError::NoSuchResourceType(name.to_owned()).into())
}

/// `GET /v1/resource_type`
pub async fn list(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let types = call.indexer().resource_types().await?;
    let shown = types.iter().map(|of| shown(of)).collect();
    Ok(reply::ok(&Value::Array(shown)))
}

/// `POST /v1/resource_type`
pub async fn create(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let document = request::json(call.parts, body).await?;
    let (name, attributes) = definition::check(&document, Purpose::Create)?;
    call.enforce(Rule::CreateResourceType, Target::Given(&[("name", Some(&name))]))?;
    addressable(&name)?;
    let attributes = attributes
        .iter()
        .map(|(name, given)| Ok((name.as_str().into(), given.complete(name, call.app.now())?)))
        .collect::<Result<_>>()?;
    let created = ResourceType { name: name.into(), attributes };
    call.indexer().create_resource_type(created.clone()).await?;
    let location = call.links().to(&format!("/v1/resource_type/{}", created.name));
    Ok(reply::created(&location, &shown(&created)))
}

/// `GET /v1/resource_type/{name}`
pub async fn show(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let found = find(call).await?;
    call.enforce(Rule::GetResourceType, Target::Given(&[("name", Some(&found.name))]))?;
    Ok(reply::ok(&shown(&found)))
}

/// `DELETE /v1/resource_type/{name}`
pub async fn delete(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let of = find(call).await?;
    call.enforce(Rule::DeleteResourceType, Target::Nothing)?;
    call.indexer().delete_resource_type(&of.name).await?;
    Ok(reply::no_content())
}
