//! Builds samples from the JSON that tests send.

use std::borrow::Cow;

use gnudi_telemetry::sample::{Metadata, Sample, SampleKind};
use serde_json::Value;

pub fn sample<'a>(value: &'a Value, resource_metadata: Metadata<'a>) -> Sample<'a> {
    let text = |key: &str| value[key].as_str().map(Cow::Borrowed);
    Sample {
        name: text("name").unwrap_or_default(),
        kind: text("type").and_then(|kind| SampleKind::named(&kind)).unwrap_or_default(),
        unit: text("unit").unwrap_or_default(),
        volume: value["volume"].clone(),
        user_id: text("user_id"),
        user_name: text("user_name"),
        project_id: text("project_id"),
        project_name: text("project_name"),
        resource_id: text("resource_id").unwrap_or_default(),
        timestamp: text("timestamp"),
        resource_metadata,
        source: text("source").unwrap_or(Cow::Borrowed("openstack")),
        id: text("id").unwrap_or_default(),
        monotonic_time: value["monotonic_time"].as_f64(),
    }
}
