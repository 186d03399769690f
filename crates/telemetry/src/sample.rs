//! A sample: one reading of one meter, as agents send it to each other.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};

use crate::messaging::unescape::unescape;

/// How a meter's readings follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleKind {
    #[default]
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
    /// As it stands in a message that is a JSON text itself: with that text's escapes. `hash` is its `quick_hash`.
    Escaped {
        text: &'a str,
        hash: u64,
    },
    Parsed(Map<String, Value>),
}

impl Default for Metadata<'_> {
    fn default() -> Self {
        Metadata::Parsed(Map::new())
    }
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.map().serialize(serializer)
    }
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

/// One reading. Texts borrow from the message that brought them. As JSON it is what Ceilometer's own class shows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample<'a> {
    /// The meter's name.
    pub name: Cow<'a, str>,
    #[serde(rename = "type")]
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

impl Sample<'_> {
    /// The record by which definitions and files know it.
    pub fn record(&self) -> Value {
        serde_json::to_value(self).expect("maps have texts for keys")
    }

    /// A copy that outlives its message.
    pub fn to_static(&self) -> Sample<'static> {
        let text = |text: &Cow<'_, str>| Cow::Owned(text.to_string());
        let some = |value: &Option<Cow<'_, str>>| value.as_ref().map(text);
        Sample {
            name: text(&self.name),
            kind: self.kind,
            unit: text(&self.unit),
            volume: self.volume.clone(),
            user_id: some(&self.user_id),
            user_name: some(&self.user_name),
            project_id: some(&self.project_id),
            project_name: some(&self.project_name),
            resource_id: text(&self.resource_id),
            timestamp: some(&self.timestamp),
            resource_metadata: Metadata::Parsed(self.resource_metadata.map().into_owned()),
            source: text(&self.source),
            id: text(&self.id),
            monotonic_time: self.monotonic_time,
        }
    }
}
