//! A sample: one reading of one meter, as agents send it to each other.

use std::borrow::Cow;

use serde_json::{Map, Value, value::RawValue};

use crate::messaging::unescape::unescape;

/// How a meter's readings follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    Gauge,
    Delta,
    Cumulative,
}

impl SampleKind {
    pub const ALL: [SampleKind; 3] = [SampleKind::Gauge, SampleKind::Delta, SampleKind::Cumulative];

    /// The name in messages and definitions.
    pub fn name(self) -> &'static str {
        match self {
            SampleKind::Gauge => "gauge",
            SampleKind::Delta => "delta",
            SampleKind::Cumulative => "cumulative",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        SampleKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What is known of a sample's resource; read only by those who need it, since most samples repeat what the one before said.
#[derive(Clone, Debug)]
pub enum Metadata<'a> {
    /// As it stands in the message: JSON, an object or `null`.
    Text(&'a RawValue),
    /// As it stands in a message that is a JSON text itself: with that text's escapes. `hash` is `fold` of it.
    Escaped {
        text: &'a str,
        hash: u64,
    },
    Parsed(Map<String, Value>),
}

impl Metadata<'_> {
    /// The object; empty where it is `null` or no object.
    pub fn map(&self) -> Cow<'_, Map<String, Value>> {
        match self {
            Metadata::Text(text) => Cow::Owned(serde_json::from_str(text.get()).unwrap_or_default()),
            Metadata::Escaped { text, .. } => {
                let inner = unescape(&format!("{text}\"")).map(|(inner, _)| inner).unwrap_or_default();
                Cow::Owned(serde_json::from_str(&inner).unwrap_or_default())
            }
            Metadata::Parsed(map) => Cow::Borrowed(map),
        }
    }
}

/// One reading. Texts borrow from the message that brought them.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// The meter's name.
    pub name: Cow<'a, str>,
    pub kind: SampleKind,
    pub unit: Cow<'a, str>,
    /// A number in most cases; what else an agent sends is for the pipeline to judge.
    pub volume: Value,
    pub user_id: Option<Cow<'a, str>>,
    pub user_name: Option<Cow<'a, str>>,
    pub project_id: Option<Cow<'a, str>>,
    pub project_name: Option<Cow<'a, str>>,
    pub resource_id: Cow<'a, str>,
    /// ISO 8601; without an offset it is UTC. `None` where the sender gave none.
    pub timestamp: Option<Cow<'a, str>>,
    pub resource_metadata: Metadata<'a>,
    /// `openstack`, unless the sender says otherwise.
    pub source: Cow<'a, str>,
    /// The sample's own id, a UUID as text.
    pub id: Cow<'a, str>,
    /// Seconds on the sender's monotonic clock.
    pub monotonic_time: Option<f64>,
}
