//! A sample: one reading of one meter, as exchanged between agents.

use std::borrow::Cow;

use gnudi_model::python::float_of_text;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};

use crate::messaging::unescape::unescape;

/// The type of a meter.
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

    /// Its name in messages and definitions.
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

/// Metadata of the sample's resource; parsed on demand, since most samples repeat those of the previous one.
#[derive(Clone, Debug)]
pub enum Metadata<'a> {
    /// Raw JSON of the message: an object or `null`.
    Text(&'a RawValue),
    /// Raw JSON inside a JSON text, with that text's escapes. `hash` is its `quick_hash`.
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
    /// The object; empty for `null` and non-objects.
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

/// A volume as a number: booleans, and texts that Python's `float` parses, are numbers, too.
pub fn volume_number(volume: &Value) -> Option<f64> {
    match volume {
        Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        Value::String(text) => float_of_text(text),
        volume => volume.as_f64(),
    }
}

/// One reading. Texts borrow from the message. Serialized like Ceilometer's own class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample<'a> {
    /// The meter's name.
    pub name: Cow<'a, str>,
    #[serde(rename = "type")]
    pub kind: SampleKind,
    pub unit: Cow<'a, str>,
    /// Mostly a number; the pipeline validates it.
    pub volume: Value,
    pub user_id: Option<Cow<'a, str>>,
    pub user_name: Option<Cow<'a, str>>,
    pub project_id: Option<Cow<'a, str>>,
    pub project_name: Option<Cow<'a, str>>,
    pub resource_id: Cow<'a, str>,
    /// ISO 8601; without an offset it is UTC. `None` if the sender gave none.
    pub timestamp: Option<Cow<'a, str>>,
    pub resource_metadata: Metadata<'a>,
    /// `openstack` by default.
    pub source: Cow<'a, str>,
    /// The sample's own id, a UUID as text.
    pub id: Cow<'a, str>,
    /// Seconds on the sender's monotonic clock.
    pub monotonic_time: Option<f64>,
}

impl Sample<'_> {
    /// The record with Ceilometer's field names, for definitions and files.
    pub fn record(&self) -> Value {
        serde_json::to_value(self).expect("maps have texts for keys")
    }

    /// A copy that outlives the message.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_what_python_takes_for_numbers() {
        for (volume, number) in [
            (json!(0), 0.0),
            (json!(-1.5), -1.5),
            (json!(true), 1.0),
            (json!("12"), 12.0),
            (json!(" 1e3 "), 1000.0),
        ] {
            assert_eq!(volume_number(&volume), Some(number), "{volume}");
        }
        for volume in [json!(null), json!("x"), json!(""), json!([1]), json!({})] {
            assert_eq!(volume_number(&volume), None, "{volume}");
        }
    }
}
