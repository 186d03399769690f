//! A dynamic pollster as its file describes it.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{template::Template, way::Way};
use crate::sample::SampleKind;

/// How an answer is read; the first that succeeds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    Json,
    Xml,
    Text,
}

/// What makes several meters of one entry: `name.{attribute}` and `[list].value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    /// What of the name is replaced, with its braces.
    pub placeholder: String,
    /// By the value of this attribute of each item.
    pub attribute: String,
    /// The list within an entry.
    pub list: String,
}

/// Where answers come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Endpoint {
        /// Its type in the catalogue.
        service: String,
        path: Template,
    },
    /// What a command of this host prints.
    Command(Template),
}

/// Something more that is asked for each entry, for its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    pub definition: Definition,
    /// Entries that agree with one of these are left out.
    pub skip: Vec<Value>,
    /// How long an answer is remembered; zero for not at all.
    pub lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub kind: SampleKind,
    pub unit: String,
    pub source: Source,
    /// What the source's text may refer to.
    pub base_metadata: Map<String, Value>,
    pub value: Way,
    pub several: Option<Several>,
    /// By the name that metadata have, which is the way as it stands in the file.
    pub metadata_fields: Vec<(String, Way)>,
    /// From a field to its name in samples.
    pub metadata_mapping: Vec<(String, String)>,
    pub preserve_mapped_metadata: bool,
    pub skip_sample_values: Vec<Value>,
    pub value_mapping: Vec<(Value, Value)>,
    pub default_value: Value,
    pub response_entries: Option<Way>,
    pub next_url: Option<Way>,
    pub user_id: Option<Way>,
    pub project_id: Option<Way>,
    pub resource_id: Option<Way>,
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    pub handlers: Vec<Handler>,
    pub namespaces: Vec<String>,
    pub extra: Vec<Extra>,
}

impl Definition {
    pub fn is_for(&self, namespaces: &[String]) -> bool {
        self.namespaces.iter().any(|namespace| namespaces.contains(namespace))
    }

    /// Whether it asks a service, itself or for metadata.
    pub fn asks_services(&self) -> bool {
        matches!(self.source, Source::Endpoint { .. })
            || self.extra.iter().any(|extra| extra.definition.asks_services())
    }
}
