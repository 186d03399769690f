//! An event: something that happened in the cloud, with its traits.

use serde_json::Value;

/// A trait value, by its declared type.
#[derive(Clone, Debug, PartialEq)]
pub enum TraitValue {
    /// At most 255 characters.
    Text(String),
    /// A text of the type `none`, at most 255 characters.
    Untyped(String),
    Integer(i64),
    Float(f64),
    /// Nanoseconds since the epoch.
    Datetime(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trait {
    pub name: String,
    pub value: TraitValue,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The message's id.
    pub message_id: String,
    pub event_type: String,
    /// Nanoseconds since the epoch.
    pub generated: i64,
    pub traits: Vec<Trait>,
    /// The notification itself, if it is to be kept; `null` otherwise.
    pub raw: Value,
}
