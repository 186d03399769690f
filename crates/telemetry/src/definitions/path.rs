//! JSONPath as Ceilometer's definitions use it (jsonpath-rw-ext), compiled into steps.

use serde_json::Value;

use super::DefinitionError;

/// A compiled path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    steps: Vec<String>,
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let steps = text.trim_start_matches("$.").split('.').map(str::to_owned).collect();
        Ok(JsonPath { steps })
    }

    /// What is found, in the order in which it stands there.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().try_fold(document, |value, step| value.get(step)).into_iter().collect()
    }
}
