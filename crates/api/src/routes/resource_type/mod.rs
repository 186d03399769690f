//! `/v1/resource_type`

mod create;
mod definition;
mod delete;
mod list;
mod patch;
mod pointer;
mod show;
mod update;

pub use create::create;
pub use delete::delete;
pub use list::list;
pub use show::show;
pub use update::update;

use std::sync::Arc;

use gnudi_indexer::IndexerError;
use gnudi_model::{Attribute, AttributeKind, ResourceType};

use super::resource::bound;
use crate::{call::Call, error::ApiError, json::Value};

/// A type as the API shows it. Types come and go at once here, so that their state is always the same.
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

/// The type that the path names.
async fn find(call: &Call<'_>) -> Result<Arc<ResourceType>, ApiError> {
    let name = call.parameter("name");
    let found = call.app.engine().indexer().resource_type(name).await?;
    found.ok_or_else(|| IndexerError::NoSuchResourceType(name.to_owned()).into())
}
