//! Checks that volumes are numbers, and warns once per meter about those that are not.

use std::collections::HashSet;

use gnudi_model::python::float_of_text;
use parking_lot::Mutex;
use serde_json::Value;

use crate::sample::Sample;

/// Maximum number of meters to warn about; further ones are only counted.
const WARNED_METERS_MAX: usize = 1_000;

/// Numbers, booleans, and texts that Python's `float` parses.
pub fn is_number(volume: &Value) -> bool {
    match volume {
        Value::Number(_) | Value::Bool(_) => true,
        Value::String(text) => float_of_text(text).is_some(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Meters that were warned about.
#[derive(Debug, Default)]
pub struct Volumes(Mutex<HashSet<String>>);

impl Volumes {
    pub fn warn(&self, sample: &Sample<'_>) {
        const VOLUME_CHARACTERS_MAX: usize = 100;
        let mut warned = self.0.lock();
        if warned.len() >= WARNED_METERS_MAX || !warned.insert(sample.name.clone().into_owned()) {
            return;
        }
        drop(warned);
        let (meter, resource) = (&sample.name, &sample.resource_id);
        let volume: String = sample.volume.to_string().chars().take(VOLUME_CHARACTERS_MAX).collect();
        tracing::warn!(%meter, %resource, volume, "a sample's volume is no number: such samples of this meter are dropped");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_what_python_takes_for_numbers() {
        for volume in [json!(0), json!(-1.5), json!(true), json!("12"), json!(" 1e3 ")] {
            assert!(is_number(&volume), "{volume}");
        }
        for volume in [json!(null), json!("x"), json!(""), json!([1]), json!({})] {
            assert!(!is_number(&volume), "{volume}");
        }
    }
}
