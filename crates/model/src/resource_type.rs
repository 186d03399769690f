//! Resource types: attributes beyond those of all resources.

use std::collections::BTreeMap;

use crate::{AttributeValue, Text};

/// The type that always exists, without attributes; it can't be deleted.
pub const GENERIC: &str = "generic";

/// A named set of attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceType {
    pub name: Text,
    pub attributes: BTreeMap<Text, Attribute>,
}

/// An attribute of a resource type.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    pub kind: AttributeKind,
    /// Whether it must be set when a resource is created.
    pub required: bool,
    /// The value for resources older than the attribute; readers treat `None` and `Null` alike. The API never shows it.
    pub fill: Option<AttributeValue>,
}

/// An attribute's type, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeKind {
    /// Lengths in characters, at most 256.
    String {
        min_length: u32,
        max_length: u32,
    },
    Uuid,
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    Bool,
    Datetime,
}

impl AttributeKind {
    /// The type's name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            AttributeKind::String { .. } => "string",
            AttributeKind::Uuid => "uuid",
            AttributeKind::Number { .. } => "number",
            AttributeKind::Bool => "bool",
            AttributeKind::Datetime => "datetime",
        }
    }

    /// Whether a value is null or of this type, whatever its bounds.
    pub fn has(self, value: &AttributeValue) -> bool {
        matches!(
            (self, value),
            (_, AttributeValue::Null)
                | (AttributeKind::String { .. }, AttributeValue::String(_))
                | (AttributeKind::Uuid, AttributeValue::Uuid(_))
                | (AttributeKind::Number { .. }, AttributeValue::Number(_))
                | (AttributeKind::Bool, AttributeValue::Bool(_))
                | (AttributeKind::Datetime, AttributeValue::Datetime(_))
        )
    }
}
