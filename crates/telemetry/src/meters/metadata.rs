//! What samples keep of a resource: what a definition names, and what users reserve for metering.

use serde_json::{Map, Value};

use crate::definitions::{LookupError, python};

/// How samples are made of notifications; the names are those of ceilometer.conf's default section.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    pub sample_source: String,
    /// Beginnings of users' own keys that are kept, without the beginning.
    pub reserved_metadata_namespace: Vec<String>,
    /// Users' own keys that are kept besides.
    pub reserved_metadata_keys: Vec<String>,
    /// Characters of a kept text; what is beyond is cut off.
    pub reserved_metadata_length: usize,
}

impl Default for SampleOptions {
    fn default() -> Self {
        SampleOptions {
            sample_source: "openstack".to_owned(),
            reserved_metadata_namespace: vec!["metering.".to_owned()],
            reserved_metadata_keys: Vec::new(),
            reserved_metadata_length: 256,
        }
    }
}

/// Adds `user_metadata`, if anything of `source` is kept. Dots in keys become underscores; keys that the metadata have
/// already are left out.
pub fn add_user_metadata(
    options: &SampleOptions,
    source: &Value,
    metadata: &mut Map<String, Value>,
) -> Result<(), LookupError> {
    if !python::is_true(source) {
        return Ok(());
    }
    let Value::Object(source) = source else {
        return Err(LookupError("user_metadata is no object".to_owned()));
    };
    let mut kept = Map::new();
    let mut keep = |key: &str, value: &Value| {
        let key = key.replace('.', "_");
        if !metadata.contains_key(&key) {
            kept.insert(key, cut(value, options.reserved_metadata_length));
        }
    };
    for beginning in &options.reserved_metadata_namespace {
        for (key, value) in source {
            if let Some(key) = key.strip_prefix(beginning.as_str()) {
                keep(key, value);
            }
        }
    }
    for key in &options.reserved_metadata_keys {
        if let Some(value) = source.get(key) {
            keep(key, value);
        }
    }
    if !kept.is_empty() {
        metadata.insert("user_metadata".to_owned(), Value::Object(kept));
    }
    Ok(())
}

fn cut(value: &Value, length: usize) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(length) {
            Some((end, _)) => Value::from(&text[..end]),
            None => value.clone(),
        },
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_reserved_is_kept() {
        let options = SampleOptions {
            reserved_metadata_keys: vec!["owner.name".to_owned(), "host".to_owned()],
            reserved_metadata_length: 3,
            ..SampleOptions::default()
        };
        let source = json!({"metering.a.b": "äöüß", "metering.host": 1, "owner.name": 2, "host": 3, "x": 4});
        let mut metadata = Map::from_iter([("host".to_owned(), json!("h"))]);
        add_user_metadata(&options, &source, &mut metadata).unwrap();
        assert_eq!(
            Value::Object(metadata),
            json!({"host": "h", "user_metadata": {"a_b": "äöü", "owner_name": 2}})
        );
        let mut none = Map::new();
        add_user_metadata(&options, &json!({"x": 1}), &mut none).unwrap();
        add_user_metadata(&options, &json!(0), &mut none).unwrap();
        assert!(none.is_empty());
        assert!(add_user_metadata(&options, &json!([1]), &mut none).is_err());
    }
}
