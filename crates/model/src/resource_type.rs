//! Resource types: which attributes a resource has beyond those that all have.

use std::collections::BTreeMap;

use crate::{AttributeValue, Text};

/// The type that every index has, without attributes; it can't be deleted.
pub const GENERIC: &str = "generic";

/// A named set of attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceType {
    pub name: Text,
    pub attributes: BTreeMap<Text, Attribute>,
}

/// What one attribute of a resource type may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    pub kind: AttributeKind,
    /// Whether a resource can't be created without it.
    pub required: bool,
    /// The value that resources have which were made before the attribute was; `None` and `Null` are the same to readers.
    /// No answer of the API shows it.
    pub fill: Option<AttributeValue>,
}

/// An attribute's type, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeKind {
    /// Lengths in characters, both at most 256.
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
    /// The name of the type in the API.
    pub const fn name(self) -> &'static str {
        match self {
            AttributeKind::String { .. } => "string",
            AttributeKind::Uuid => "uuid",
            AttributeKind::Number { .. } => "number",
            AttributeKind::Bool => "bool",
            AttributeKind::Datetime => "datetime",
        }
    }
}
