//! A dynamic pollster's definition.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{template::Template, value_path::ValuePath};
use crate::sample::SampleKind;

/// A response format; handlers are tried in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    Json,
    Xml,
    Text,
}

/// Makes several meters of one entry: `name.{attribute}` and `[list].value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipleMeters {
    /// The placeholder in the name, with its braces.
    pub placeholder: String,
    /// It is replaced by this attribute of each item.
    pub attribute: String,
    /// The list within an entry.
    pub list: String,
}

/// Where responses come from.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseSource {
    Endpoint {
        /// Its type in the catalogue.
        service: String,
        path: Template,
    },
    /// The output of a command on this host.
    Command(Template),
}

/// An additional request for each entry, for its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraMetadata {
    pub definition: DynamicDefinition,
    /// Entries that match one of these are skipped.
    pub skip: Vec<Value>,
    /// Cache lifetime of a response; zero disables the cache.
    pub lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DynamicDefinition {
    pub name: String,
    pub kind: SampleKind,
    pub unit: String,
    pub source: ResponseSource,
    /// Variables of the source's text.
    pub base_metadata: Map<String, Value>,
    pub value: ValuePath,
    pub several: Option<MultipleMeters>,
    /// By metadata name, which is the path as written in the file.
    pub metadata_fields: Vec<(String, ValuePath)>,
    /// Renames fields in samples.
    pub metadata_mapping: Vec<(String, String)>,
    pub preserve_mapped_metadata: bool,
    pub skip_sample_values: Vec<Value>,
    /// By key.
    pub value_mapping: Vec<(Value, Value)>,
    pub default_value: Value,
    pub response_entries: Option<ValuePath>,
    pub next_url: Option<ValuePath>,
    pub user_id: Option<ValuePath>,
    pub project_id: Option<ValuePath>,
    pub resource_id: Option<ValuePath>,
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    pub handlers: Vec<ResponseFormat>,
    pub namespaces: Vec<String>,
    pub extra: Vec<ExtraMetadata>,
}

impl DynamicDefinition {
    pub fn is_for(&self, namespaces: &[String]) -> bool {
        self.namespaces.iter().any(|namespace| namespaces.contains(namespace))
    }

    /// Whether it sends requests to services, for values or metadata.
    pub fn asks_services(&self) -> bool {
        matches!(self.source, ResponseSource::Endpoint { .. })
            || self.extra.iter().any(|extra| extra.definition.asks_services())
    }
}
