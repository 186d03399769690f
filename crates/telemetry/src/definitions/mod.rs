//! The parts that definition files share: fields, looked up in a notification or a sample by `JSONPath`.
//!
//! `path` is the path language, `field` a field in a file, `plugins` the plug-ins applied to values. The semantics of
//! values (truth, equality, order, texts, times) are Python's: `python`, `pattern` and `isotime`.

mod by_event_type;
pub mod field;
pub mod isotime;
pub mod path;
pub mod pattern;
mod plugins;
pub mod python;

pub use by_event_type::ByEventType;
pub use field::Field;
pub use path::JsonPath;

use serde_json::Value;

/// An invalid definition. It is skipped, and the others are used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DefinitionError(pub String);

/// A path or plug-in failed on a document: its shape is not the expected one, or a limit was exceeded. Permanent:
/// retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(pub String);

/// A key's text or list of texts.
pub fn texts(key: &str, value: Option<&Value>) -> Result<Vec<String>, DefinitionError> {
    let texts = match value {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    texts.ok_or_else(|| DefinitionError(format!("`{key}` is neither a text nor a list of texts")))
}
