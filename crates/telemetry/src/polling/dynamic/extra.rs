//! Metadata from additional requests: `extra_metadata_fields`.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    definition::{DynamicDefinition, ExtraMetadata, ResponseSource},
    file::EXTRA_NAMES,
    gather::Gatherer,
    reading::{self, EntryValue},
};
use crate::{definitions::python, polling::pollster::PollError};

/// All metadata of an entry's reading: its own, and those from additional requests. A failed request is logged, and its
/// metadata are missing in the result. The error says what the entry lacks.
pub fn metadata<'a>(
    gatherer: &'a Gatherer,
    definition: &'a DynamicDefinition,
    entry: &'a Value,
    reading: &'a EntryValue,
) -> BoxFuture<'a, Result<Map<String, Value>, String>> {
    Box::pin(async move {
        // As the definitions refer to it.
        let mut entry = entry.clone();
        set(&mut entry, "value", reading.volume.clone());
        let mut metadata = reading::metadata(definition, &entry)?;
        if definition.extra.is_empty() {
            return Ok(metadata);
        }
        for (key, value) in captured(gatherer, definition, entry, &metadata).await {
            if metadata.contains_key(&key) {
                tracing::warn!(
                    key,
                    meter = definition.name,
                    "extra metadata are ignored: the entry has some of this name"
                );
            } else {
                metadata.insert(key, value);
            }
        }
        Ok(metadata)
    })
}

async fn captured(
    gatherer: &Gatherer,
    definition: &DynamicDefinition,
    mut sample: Value,
    metadata: &Map<String, Value>,
) -> Map<String, Value> {
    set(&mut sample, "metadata", Value::Object(metadata.clone()));
    let (mut captured, mut by_name) = (Map::new(), Map::new());
    for extra in &definition.extra {
        if extra.skip.iter().any(|skip| matches(skip, &sample)) {
            continue;
        }
        let values = [captured.clone().into(), by_name.clone().into(), sample.clone()];
        let names: Map<String, Value> = EXTRA_NAMES.map(str::to_owned).into_iter().zip(values).collect();
        for (reading, metadata) in asked(gatherer, &definition.name, extra, &names).await {
            captured.insert(reading.name.clone(), reading.volume.clone());
            for (key, value) in &metadata {
                if !value.is_null() || !captured.contains_key(key) {
                    captured.insert(key.clone(), value.clone());
                }
            }
            by_name.insert(reading.name, json!({ "value": reading.volume, "metadata": metadata }));
        }
    }
    captured
}

/// What the requests find at all endpoints of their service. Those that fail are logged.
async fn asked(
    gatherer: &Gatherer,
    meter: &str,
    extra: &ExtraMetadata,
    names: &Map<String, Value>,
) -> Vec<(EntryValue, Map<String, Value>)> {
    let endpoints = match &extra.definition.source {
        ResponseSource::Endpoint { service, .. } => gatherer.endpoints(service).await,
        ResponseSource::Command(_) => Ok(vec!["".into()]),
    };
    let failed = |error: &PollError| {
        let extra = &extra.definition.name;
        tracing::warn!(%error, meter, extra, "a request for extra metadata failed");
    };
    let mut all = Vec::new();
    for endpoint in endpoints.inspect_err(failed).unwrap_or_default() {
        let found = asked_at(gatherer, extra, names, &endpoint).await;
        all.extend(found.inspect_err(failed).unwrap_or_default());
    }
    all
}

async fn asked_at(
    gatherer: &Gatherer,
    extra: &ExtraMetadata,
    names: &Map<String, Value>,
    endpoint: &str,
) -> Result<Vec<(EntryValue, Map<String, Value>)>, PollError> {
    let definition = &extra.definition;
    let mut pages = gatherer.pages(definition, names, endpoint, extra.lifetime)?;
    let mut found = Vec::new();
    while let Some(entries) = pages.next().await? {
        for entry in entries {
            for reading in reading::readings(definition, &entry).map_err(PollError)? {
                let metadata = metadata(gatherer, definition, &entry, &reading).await.map_err(PollError)?;
                found.push((reading, metadata));
            }
        }
    }
    Ok(found)
}

/// Sets a member of an entry that is a map.
pub fn set(entry: &mut Value, name: &str, value: Value) {
    if let Some(fields) = entry.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// Whether an entry has all members of `skip` with the same values.
fn matches(skip: &Value, entry: &Value) -> bool {
    if python::is_equal(skip, entry) {
        return true;
    }
    let (Value::Object(skip), Value::Object(entry)) = (skip, entry) else { return false };
    skip.iter().all(|(key, value)| entry.get(key).is_some_and(|other| matches(value, other)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::file::parse, *};
    use crate::test_server::{cloud, serve};

    #[tokio::test]
    async fn all_endpoints_of_a_service_are_asked() {
        let service = serve(|request, _| match request {
            "GET /a/things HTTP/1.1" => ("200 OK", r#"[{"list": [{"kind": "a", "v": 1}]}]"#),
            "GET /c/things HTTP/1.1" => ("200 OK", r#"[{"list": [{"kind": "c", "v": 3}]}]"#),
            _ => ("404 Not Found", ""),
        });
        let service = service.await;
        let cloud = cloud("identity", &["a", "b", "c"].map(|path| format!("{service}/{path}"))).await;
        let text = "- name: x\n  sample_type: gauge\n  unit: x\n  value_attribute: id\n  host_command: date\n\
                    \x20 extra_metadata_fields:\n\
                    \x20   - {name: 'found.{kind}', endpoint_type: identity, url_path: things, value: '[list].v'}\n";
        let definition = parse(Path::new("p.yaml"), text).unwrap().remove(0).unwrap();
        let gatherer = Gatherer::new(Some(cloud));
        let found = captured(&gatherer, &definition, json!({ "id": "e" }), &Map::new()).await;
        assert_eq!(Value::Object(found), json!({ "found.a": 1, "found.c": 3 }));
    }

    #[test]
    fn entries_agree_with_what_is_left_out() {
        let entry = json!({"value": 1, "metadata": {"id": "a", "name": "n"}});
        assert!(matches(&json!({"value": 1.0}), &entry));
        assert!(matches(&json!({"metadata": {"id": "a"}}), &entry));
        assert!(!matches(&json!({"metadata": {"id": "b"}}), &entry));
        assert!(!matches(&json!({"value": "1"}), &entry));
        assert!(!matches(&json!({"other": null}), &entry));
    }
}
