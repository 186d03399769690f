//! Extracts the values of one entry, with their meter names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::definition::DynamicDefinition;
use crate::{
    definitions::python,
    sample::{Metadata, Sample},
};

/// One value of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryValue {
    pub name: String,
    pub volume: Value,
}

/// All values of an entry that are not skipped. `Err` says what is missing.
pub fn readings(definition: &DynamicDefinition, entry: &Value) -> Result<Vec<EntryValue>, String> {
    let is_skipped =
        |value: &Value| definition.skip_sample_values.iter().any(|skipped| python::is_equal(skipped, value));
    let Some(several) = &definition.several else {
        let value = definition.value.look(entry)?;
        if is_skipped(&value) {
            return Ok(Vec::new());
        }
        return Ok(vec![EntryValue { name: definition.name.clone(), volume: mapped(definition, &value) }]);
    };
    let list = entry.get(&several.list).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("{} is no list", several.list))?;
    let mut readings = Vec::new();
    for item in list {
        let part = item.get(&several.attribute).filter(|part| part.is_string());
        let part = part.ok_or_else(|| format!("an item without {}", several.attribute))?;
        let value = definition.value.look(item)?;
        if is_skipped(&value) || is_skipped(part) {
            continue;
        }
        let name = definition.name.replace(&several.placeholder, part.as_str().unwrap_or_default());
        readings.push(EntryValue { name, volume: value.into_owned() });
    }
    Ok(readings)
}

fn mapped(definition: &DynamicDefinition, value: &Value) -> Value {
    let mapping = &definition.value_mapping;
    if mapping.is_empty() {
        return value.clone();
    }
    let found = mapping.iter().find(|(key, _)| python::is_equal(key, value));
    found.map_or_else(
        || {
            tracing::warn!(%value, meter = definition.name, "a value without mapping: the default is used");
            definition.default_value.clone()
        },
        |(_, to)| to.clone(),
    )
}

/// The entry's own metadata, under their sample names.
pub fn metadata(definition: &DynamicDefinition, entry: &Value) -> Result<Map<String, Value>, String> {
    let mut metadata = Map::new();
    for (field, path) in &definition.metadata_fields {
        metadata.insert(field.clone(), path.look(entry)?.into_owned());
    }
    // In the fields' order, whatever that of the mapping is; a new name is no field.
    for (field, _) in &definition.metadata_fields {
        let mapped = definition.metadata_mapping.iter().find(|(from, _)| from == field);
        let (Some((_, mapped)), Some(value)) = (mapped, metadata.get(field).cloned()) else { continue };
        metadata.insert(mapped.clone(), value);
        if !definition.preserve_mapped_metadata {
            metadata.remove(field);
        }
    }
    Ok(metadata)
}

pub fn sample(
    definition: &DynamicDefinition,
    reading: EntryValue,
    entry: &Value,
    metadata: Map<String, Value>,
) -> Result<Sample<'static>, String> {
    let id = |usual: &str| entry.get(usual).and_then(text);
    Ok(Sample {
        name: Cow::Owned(reading.name),
        kind: definition.kind,
        unit: Cow::Owned(definition.unit.clone()),
        volume: reading.volume,
        user_id: id("user_id").map(Cow::Owned),
        project_id: id("project_id").map(Cow::Owned),
        resource_id: Cow::Owned(id("id").ok_or("no id of a resource")?),
        resource_metadata: Metadata::Parsed(metadata),
        ..Sample::default()
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{super::file::parse, *};

    #[test]
    fn fields_are_renamed_in_their_order() {
        for (fields, more, expected) in [
            ("a, b", "preserve_mapped_metadata: false", json!({"c": 1})),
            ("a, b", "timeout: 1", json!({"a": 1, "b": 1, "c": 1})),
            ("a", "timeout: 1", json!({"a": 1, "b": 1})),
        ] {
            let text = format!(
                "- {{name: x, sample_type: gauge, unit: x, value_attribute: v, host_command: date, metadata_fields: [{fields}], \
                 metadata_mapping: {{b: c, a: b}}, {more}}}"
            );
            let definition = parse(Path::new("p.yaml"), &text).unwrap().remove(0).unwrap();
            let metadata = metadata(&definition, &json!({"a": 1, "b": 2})).unwrap();
            assert_eq!(Value::Object(metadata), expected, "{fields}, {more}");
        }
    }
}
