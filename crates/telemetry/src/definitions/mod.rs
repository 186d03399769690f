//! What definition files have in common: a field that is looked up in a notification or a sample by `JSONPath`.
//!
//! `path` is the language of paths, `field` what files may say of a field, `plugins` what can be done with values that were
//! found. Where the meaning of values matters (what is true, equal or less, a text or a time) it is Python's: `python`,
//! `pattern` and `isotime`.

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

/// A definition that cannot be used; it is left out, and the others stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DefinitionError(pub String);

/// A document in which a path or a plug-in cannot be followed, since it has another shape than the definition takes for
/// granted, or costs more than a limit allows. Trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(pub String);
