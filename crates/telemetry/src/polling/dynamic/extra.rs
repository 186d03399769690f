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
        let found = asked(gatherer, extra, &names).await.unwrap_or_else(|error| {
            let (meter, extra) = (&definition.name, &extra.definition.name);
            tracing::warn!(%error, meter, extra, "a request for extra metadata failed");
            Vec::new()
        });
        for (reading, metadata) in found {
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

async fn asked(
    gatherer: &Gatherer,
    extra: &ExtraMetadata,
    names: &Map<String, Value>,
) -> Result<Vec<(EntryValue, Map<String, Value>)>, PollError> {
    let definition = &extra.definition;
    let endpoint = match &definition.source {
        ResponseSource::Endpoint { service, .. } => gatherer.endpoint(service).await?,
        ResponseSource::Command(_) => "".into(),
    };
    let mut pages = gatherer.pages(definition, names, &endpoint, extra.lifetime)?;
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
    use super::*;

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
