//! Sample metadata: the fields named by a definition, and reserved user metadata.

use serde_json::{Map, Value};

use crate::definitions::{LookupError, python, python::first_characters};

/// Options of samples, with the names of ceilometer.conf's default section.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    pub sample_source: String,
    pub reserved: ReservedMetadata,
}

impl Default for SampleOptions {
    fn default() -> Self {
        SampleOptions { sample_source: "openstack".to_owned(), reserved: ReservedMetadata::default() }
    }
}

/// Which of a user's own metadata samples keep as `user_metadata`.
#[derive(Clone, Debug)]
pub struct ReservedMetadata {
    /// Keys with these prefixes are kept, without the prefix.
    pub prefixes: Vec<String>,
    /// Further keys to keep.
    pub keys: Vec<String>,
    /// Maximum characters of a value; the rest is cut off.
    pub value_length_max: usize,
}

impl Default for ReservedMetadata {
    fn default() -> Self {
        ReservedMetadata { prefixes: vec!["metering.".to_owned()], keys: Vec::new(), value_length_max: 256 }
    }
}

impl ReservedMetadata {
    /// Adds `user_metadata`, if anything of `own` is kept. Dots in keys become underscores. Keys already in the
    /// metadata are skipped.
    pub fn add(&self, own: &Map<String, Value>, metadata: &mut Map<String, Value>) {
        let cut = |value: &Value| match value {
            Value::String(text) => Value::from(first_characters(text, self.value_length_max)),
            value => value.clone(),
        };
        let prefixed = self.prefixes.iter().flat_map(|prefix| {
            own.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix.as_str())?, value)))
        });
        let named = self.keys.iter().filter_map(|key| Some((key.as_str(), own.get(key)?)));
        let mut kept = Map::new();
        for (key, value) in prefixed.chain(named) {
            let key = key.replace('.', "_");
            if !metadata.contains_key(&key) {
                kept.insert(key, cut(value));
            }
        }
        if !kept.is_empty() {
            metadata.insert("user_metadata".to_owned(), Value::Object(kept));
        }
    }

    /// The same for metadata found by a definition, which may be `null`.
    pub fn add_found(&self, source: &Value, metadata: &mut Map<String, Value>) -> Result<(), LookupError> {
        match source {
            Value::Object(own) => self.add(own, metadata),
            source if python::is_true(source) => {
                return Err(LookupError("user_metadata is no object".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_reserved_is_kept() {
        let reserved = ReservedMetadata {
            keys: vec!["owner.name".to_owned(), "host".to_owned()],
            value_length_max: 3,
            ..ReservedMetadata::default()
        };
        let source = json!({"metering.a.b": "äöüß", "metering.host": 1, "owner.name": 2, "host": 3, "x": 4});
        let mut metadata = Map::from_iter([("host".to_owned(), json!("h"))]);
        reserved.add_found(&source, &mut metadata).unwrap();
        assert_eq!(
            Value::Object(metadata),
            json!({"host": "h", "user_metadata": {"a_b": "äöü", "owner_name": 2}})
        );
        let mut none = Map::new();
        reserved.add_found(&json!({"x": 1}), &mut none).unwrap();
        reserved.add_found(&json!(0), &mut none).unwrap();
        assert!(none.is_empty());
        assert!(reserved.add_found(&json!([1]), &mut none).is_err());
    }
}
