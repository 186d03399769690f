//! A field of a definition: one path or several, or a constant, and perhaps a plug-in that works on what was found.

use std::borrow::Cow;

use serde_json::Value;

use super::{DefinitionError, JsonPath, LookupError};

/// A compiled field. In files it is a text (a path), a list of texts (alternatives, all of whose matches are found in their
/// order), an integer (a constant), or an object with `fields` and perhaps `plugin`.
#[derive(Clone, Debug)]
pub struct Field {
    paths: Vec<JsonPath>,
}

impl Field {
    /// Compiles what a file says; `name` is for errors.
    pub fn parse(name: &str, definition: &Value) -> Result<Self, DefinitionError> {
        let text = definition.as_str().ok_or_else(|| DefinitionError(format!("{name}: not a path")))?;
        Ok(Field { paths: vec![JsonPath::parse(text)?] })
    }

    /// The first value that is there and not `null`.
    pub fn first<'a>(&self, document: &'a Value) -> Result<Option<Cow<'a, Value>>, LookupError> {
        Ok(self.all(document)?.into_iter().find(|value| !value.is_null()))
    }

    /// All values, also those that are `null`.
    pub fn all<'a>(&self, document: &'a Value) -> Result<Vec<Cow<'a, Value>>, LookupError> {
        let mut found = Vec::new();
        for path in &self.paths {
            found.extend(path.find(document)?);
        }
        Ok(found)
    }
}
