//! A sample as a signed message (`counter_name` etc.), and as the record for files and HTTP endpoints (`name` etc.).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{python, signature::Signer};
use crate::sample::Sample;

/// The message of a sample for agents and for UDP and TCP, fields in Ceilometer's order.
#[derive(Debug, Serialize)]
pub struct MeterMessage<'a> {
    source: &'a str,
    counter_name: &'a str,
    counter_type: &'a str,
    counter_unit: &'a str,
    counter_volume: &'a Value,
    user_id: Option<&'a str>,
    user_name: Option<&'a str>,
    project_id: Option<&'a str>,
    project_name: Option<&'a str>,
    resource_id: &'a str,
    timestamp: Option<&'a str>,
    resource_metadata: Cow<'a, Map<String, Value>>,
    message_id: &'a str,
    monotonic_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher_id: Option<&'a str>,
    message_signature: String,
}

impl<'a> MeterMessage<'a> {
    /// `publisher_id` is signed, too, and omitted if missing.
    pub fn new(sample: &'a Sample<'_>, signer: &Signer, publisher_id: Option<&'a str>) -> Self {
        let mut message = MeterMessage {
            source: &sample.source,
            counter_name: &sample.name,
            counter_type: sample.kind.name(),
            counter_unit: &sample.unit,
            counter_volume: &sample.volume,
            user_id: sample.user_id.as_deref(),
            user_name: sample.user_name.as_deref(),
            project_id: sample.project_id.as_deref(),
            project_name: sample.project_name.as_deref(),
            resource_id: &sample.resource_id,
            timestamp: sample.timestamp.as_deref(),
            resource_metadata: sample.resource_metadata.map(),
            message_id: &sample.id,
            // JSON has no infinities and no NaN.
            monotonic_time: sample.monotonic_time.filter(|seconds| seconds.is_finite()),
            publisher_id,
            message_signature: String::new(),
        };
        message.message_signature = message.sign(signer);
        message
    }

    fn sign(&self, signer: &Signer) -> String {
        signer.sign_with(|signature| {
            signature.text("counter_name", self.counter_name);
            signature.text("counter_type", self.counter_type);
            signature.text("counter_unit", self.counter_unit);
            signature.value("counter_volume", self.counter_volume);
            signature.text("message_id", self.message_id);
            signature.value("monotonic_time", &self.monotonic_time.map_or(Value::Null, Value::from));
            signature.optional("project_id", self.project_id);
            signature.optional("project_name", self.project_name);
            if let Some(publisher_id) = self.publisher_id {
                signature.text("publisher_id", publisher_id);
            }
            signature.text("resource_id", self.resource_id);
            signature.nested("resource_metadata", &self.resource_metadata);
            signature.text("source", self.source);
            signature.optional("timestamp", self.timestamp);
            signature.optional("user_id", self.user_id);
            signature.optional("user_name", self.user_name);
        })
    }
}

/// Signed messages as JSON: the payload of a notification of samples.
pub fn samples_list(samples: &[Sample<'_>], signer: &Signer) -> String {
    let messages: Vec<_> = samples.iter().map(|sample| MeterMessage::new(sample, signer, None)).collect();
    serde_json::to_string(&messages).expect("maps have texts for keys, and memory takes all")
}

/// The payload of a notification `telemetry.polling`, as JSON.
pub fn samples_payload(samples: &[Sample<'_>], signer: &Signer) -> String {
    format!("{{\"samples\":{}}}", samples_list(samples, signer))
}

/// The record as `json.dumps` writes it.
pub fn sample_record_json(sample: &Sample<'_>) -> String {
    python::json(sample)
}

/// The record as Python prints a dictionary.
pub fn sample_record_repr(sample: &Sample<'_>) -> String {
    python::repr(&sample.record())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::{Metadata, SampleKind};

    fn sample() -> Sample<'static> {
        let Value::Object(metadata) = json!({"display_name": "vm", "nics": [{"mac": "x"}]}) else { panic!() };
        Sample {
            name: "cpu".into(),
            kind: SampleKind::Cumulative,
            unit: "ns".into(),
            volume: json!(12.5),
            project_id: Some("p".into()),
            resource_id: "r".into(),
            timestamp: Some("2026-01-02T03:04:05.000006".into()),
            resource_metadata: Metadata::Parsed(metadata),
            source: "openstack".into(),
            id: "i".into(),
            monotonic_time: Some(1.0),
            ..Sample::default()
        }
    }

    #[test]
    fn the_signature_is_that_of_the_message_as_it_is_read() {
        let signer = Signer::new("s");
        let payload: Value = serde_json::from_str(&samples_payload(&[sample()], &signer)).unwrap();
        let Value::Object(message) = &payload["samples"][0] else { panic!("{payload}") };
        assert_eq!(message["message_signature"], signer.sign(message));
        assert!(!message.contains_key("publisher_id"));

        let sample = sample();
        let message = serde_json::to_value(MeterMessage::new(&sample, &signer, Some("host"))).unwrap();
        let Value::Object(message) = message else { panic!() };
        assert_eq!(message["message_signature"], signer.sign(&message));
        assert_eq!(message["publisher_id"], "host");
    }

    #[test]
    fn records_are_pythons() {
        let json = sample_record_json(&sample());
        assert!(
            json.starts_with(r#"{"name": "cpu", "type": "cumulative", "unit": "ns", "volume": 12.5, "#),
            "{json}"
        );
        let repr = sample_record_repr(&sample());
        assert!(
            repr.contains("'resource_metadata': {'display_name': 'vm', 'nics': [{'mac': 'x'}]}, "),
            "{repr}"
        );
        assert!(repr.ends_with("'source': 'openstack', 'id': 'i', 'monotonic_time': 1.0}"), "{repr}");
    }
}
