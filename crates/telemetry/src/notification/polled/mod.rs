//! Samples sent by polling agents: event type `telemetry.polling`, payload `{"samples": [...]}`.
//!
//! These are by far the most messages, so `scan` reads the samples in one pass over the body, without unescaping the
//! envelope. If it finds anything unusual, the message is unescaped and its samples are deserialized. If that fails,
//! each sample is deserialized on its own, so that an invalid one does not affect the others.

mod cursor;
mod memory;
mod scan;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Value, value::RawValue};

use super::{MalformedNotification, text::Text};
use crate::{
    messaging::INTEGER_DIGITS_MAX,
    sample::{Metadata, Sample, SampleKind},
};

pub use memory::MetadataMemory;
pub use scan::{Scanned, scan};

/// The event type of these notifications.
pub const EVENT_TYPE: &str = "telemetry.polling";

/// Maximum samples of a message; Ceilometer sends 50.
const SAMPLES_MAX: usize = 65_536;

/// Maximum bytes of each text of a sample.
const TEXT_BYTES_MAX: usize = 4096;

/// `serde_json` parses fewer levels.
const LEVELS_MAX: usize = 128;

/// The default source.
const SOURCE: &str = "openstack";

/// The invalid samples of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSamples {
    pub count: usize,
    /// Why the first one is invalid.
    pub reason: String,
}

/// The samples of a message.
#[derive(Debug)]
pub struct Polled<'a> {
    pub samples: Vec<Sample<'a>>,
    pub bad: Option<BadSamples>,
}

/// Reads the payload of a polling agent's notification.
pub fn polled(payload: &str) -> Result<Polled<'_>, MalformedNotification> {
    let fast = serde_json::from_str::<Payload<Wire<'_>>>(payload).map_err(drop);
    if let Ok(payload) = fast
        && payload.samples.len() <= SAMPLES_MAX
    {
        let samples: Result<Vec<_>, _> = payload.samples.into_iter().map(Wire::sample).collect();
        if let Ok(samples) = samples {
            return Ok(Polled { samples, bad: None });
        }
    }
    one_by_one(payload)
}

fn one_by_one(payload: &str) -> Result<Polled<'_>, MalformedNotification> {
    let payload: Payload<&RawValue> =
        serde_json::from_str(payload).map_err(|error| MalformedNotification(error.to_string()))?;
    if payload.samples.len() > SAMPLES_MAX {
        return Err(MalformedNotification(format!(
            "{} samples, more than {SAMPLES_MAX}",
            payload.samples.len()
        )));
    }
    let mut polled = Polled { samples: Vec::new(), bad: None };
    for raw in payload.samples {
        let wire = serde_json::from_str::<Wire<'_>>(raw.get())
            .map_err(|error| MalformedNotification(error.to_string()));
        match wire.and_then(Wire::sample) {
            Ok(sample) => polled.samples.push(sample),
            Err(error) => {
                let bad = polled.bad.get_or_insert(BadSamples { count: 0, reason: error.0 });
                bad.count += 1;
            }
        }
    }
    Ok(polled)
}

#[derive(Deserialize)]
struct Payload<T> {
    samples: Vec<T>,
}

/// A sample in its wire format.
#[derive(Deserialize)]
struct Wire<'a> {
    // With the bound that this adds, all texts borrow.
    #[serde(borrow)]
    counter_name: Text<'a>,
    #[serde(deserialize_with = "kind")]
    counter_type: SampleKind,
    counter_unit: Option<Text<'a>>,
    #[serde(default)]
    counter_volume: Value,
    user_id: Option<Text<'a>>,
    user_name: Option<Text<'a>>,
    project_id: Option<Text<'a>>,
    project_name: Option<Text<'a>>,
    resource_id: Text<'a>,
    timestamp: Option<Text<'a>>,
    resource_metadata: Option<&'a RawValue>,
    source: Option<Text<'a>>,
    message_id: Option<Text<'a>>,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SampleKind, D::Error> {
    let text = Text::deserialize(deserializer)?;
    SampleKind::named(&text.0)
        .ok_or_else(|| D::Error::custom("counter_type is none of gauge, delta, cumulative"))
}

/// Refuses metadata of too many levels, or with an integer of too many digits: the later parser would treat them as empty.
/// Metadata that are too short for either are not parsed here.
fn check_metadata(metadata: &RawValue) -> serde_json::Result<()> {
    let text = metadata.get();
    let brackets = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if brackets < LEVELS_MAX && text.len() <= INTEGER_DIGITS_MAX {
        return Ok(());
    }
    serde_json::from_str::<Value>(text).map(drop)
}

impl<'a> Wire<'a> {
    fn sample(self) -> Result<Sample<'a>, MalformedNotification> {
        let optional =
            [&self.counter_unit, &self.user_id, &self.user_name, &self.project_id, &self.project_name];
        let others = [&self.timestamp, &self.source, &self.message_id];
        let texts =
            optional.into_iter().chain(others).flatten().chain([&self.counter_name, &self.resource_id]);
        if texts.map(|text| text.0.len()).any(|bytes| bytes > TEXT_BYTES_MAX) {
            return Err(MalformedNotification(format!("a text of more than {TEXT_BYTES_MAX} bytes")));
        }
        if self.counter_name.0.is_empty() || self.resource_id.0.is_empty() {
            return Err(MalformedNotification("counter_name or resource_id is empty".to_owned()));
        }
        if let Some(Err(error)) = self.resource_metadata.map(check_metadata) {
            let (name, resource) = (&self.counter_name.0, &self.resource_id.0);
            return Err(MalformedNotification(format!("metadata of {name} of {resource}: {error}")));
        }
        let text = |text: Option<Text<'a>>| text.map(|text| text.0);
        Ok(Sample {
            name: self.counter_name.0,
            kind: self.counter_type,
            unit: text(self.counter_unit).unwrap_or_default(),
            volume: self.counter_volume,
            user_id: text(self.user_id),
            user_name: text(self.user_name),
            project_id: text(self.project_id),
            project_name: text(self.project_name),
            resource_id: self.resource_id.0,
            timestamp: text(self.timestamp),
            resource_metadata: self
                .resource_metadata
                .map_or_else(|| Metadata::Parsed(serde_json::Map::new()), Metadata::Text),
            source: text(self.source).unwrap_or(SOURCE.into()),
            id: text(self.message_id).unwrap_or_default(),
            // The time of the sender's clock ends here, as in Ceilometer.
            monotonic_time: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const SAMPLE: &str = r#"{"source": "openstack", "counter_name": "cpu", "counter_type": "cumulative", "counter_unit": "ns",
        "counter_volume": 5010000000, "user_id": "u", "user_name": null, "project_id": "p\u0031", "resource_id": "r",
        "timestamp": "2026-01-01T00:00:00.5", "resource_metadata": {"flavor": {"vcpus": 2}}, "message_id": "m",
        "monotonic_time": 1.5, "message_signature": "s"}"#;

    #[test]
    fn samples_are_read_and_borrow() {
        let payload = format!(r#"{{"samples": [{SAMPLE}, {SAMPLE}]}}"#);
        let read = polled(&payload).unwrap();
        assert_eq!((read.samples.len(), &read.bad), (2, &None));
        let sample = &read.samples[0];
        assert!(matches!(sample.name, Cow::Borrowed("cpu")));
        assert_eq!(
            (sample.kind, &*sample.unit, &sample.volume),
            (SampleKind::Cumulative, "ns", &Value::from(5_010_000_000_i64))
        );
        assert_eq!((sample.project_id.as_deref(), sample.user_name.as_deref()), (Some("p1"), None));
        assert_eq!(sample.resource_metadata.map()["flavor"]["vcpus"], 2);
        assert_eq!((&*sample.id, sample.monotonic_time), ("m", None));
    }

    #[test]
    fn metadata_that_cannot_be_parsed_make_a_bad_sample() {
        let nested = |levels: usize| format!("{}2{}", "[".repeat(levels), "]".repeat(levels));
        let with = |value: &str| SAMPLE.replace("\"vcpus\": 2", &format!("\"vcpus\": {value}"));
        let flat = format!("[{}]", ["[]"; 1000].join(","));
        // The metadata are two levels themselves.
        let (fit, deep, flat) = (with(&nested(125)), with(&nested(126)), with(&flat));
        let (long, integer) =
            (with(&format!("\"{}\"", "9".repeat(5000))), with(&"9".repeat(INTEGER_DIGITS_MAX + 1)));
        let payload = format!(r#"{{"samples": [{fit}, {deep}, {flat}, {long}, {integer}]}}"#);
        let read = polled(&payload).unwrap();
        assert!(read.samples.iter().all(|sample| sample.resource_metadata.map().contains_key("flavor")));
        let bad = read.bad.unwrap();
        assert_eq!((read.samples.len(), bad.count), (3, 2));
        assert!(bad.reason.starts_with("metadata of cpu of r: "), "{}", bad.reason);
    }

    #[test]
    fn bad_samples_leave_the_others() {
        let long = SAMPLE.replace("\"r\"", &format!("\"{}\"", "x".repeat(5000)));
        let payload = format!(
            r#"{{"samples": [{SAMPLE}, 1, {{}}, {}, {}, {long}, {SAMPLE}]}}"#,
            SAMPLE.replace("cumulative", "sum"),
            SAMPLE.replace("\"r\"", "null"),
        );
        let read = polled(&payload).unwrap();
        assert_eq!((read.samples.len(), read.bad.unwrap().count), (2, 5));
        for payload in ["", "1", "{}", r#"{"samples": 1}"#, r#"{"samples": [}"#, r#"{"samples": null}"#] {
            assert!(polled(payload).is_err(), "{payload}");
        }
        let many = format!(r#"{{"samples": [1{}]}}"#, ",1".repeat(SAMPLES_MAX));
        assert!(polled(&many).unwrap_err().0.contains("65537 samples"));
    }
}
