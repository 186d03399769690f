//! The distinct values of an id or name column; a value's code is its index in order of first appearance.

use std::{collections::HashMap, sync::Arc};

use uuid::Uuid;

use super::{NamedResource, ReadError, Result};

/// Assigns codes to values.
pub trait Distinct {
    /// The column's name, for error texts.
    fn name(&self) -> &'static str;

    /// The code of a text value.
    fn text(&mut self, text: &str) -> Result<u32>;

    /// The code of a binary id.
    fn id(&mut self, id: Uuid) -> Result<u32>;
}

pub fn too_many_metrics(max: usize) -> ReadError {
    ReadError::TooLarge(format!("There are more than {max} metrics"))
}

/// Ids; one id may have several spellings.
pub struct Ids<F> {
    name: &'static str,
    max: usize,
    id_of: F,
    codes: HashMap<Uuid, u32>,
    known: Vec<Uuid>,
    /// The spelling in the first row; `None` if it was binary.
    texts: Vec<Option<String>>,
}

impl<F: FnMut(&str) -> std::result::Result<Uuid, String>> Ids<F> {
    pub fn new(name: &'static str, max: usize, id_of: F) -> Self {
        Ids { name, max, id_of, codes: HashMap::new(), known: Vec::new(), texts: Vec::new() }
    }

    pub fn id(&self, code: u32) -> Uuid {
        self.known[code as usize]
    }

    pub fn into_named(self) -> Vec<NamedResource> {
        let named = self.known.into_iter().zip(self.texts);
        let original = |(id, text): (Uuid, Option<String>)| NamedResource {
            id,
            original_id: text.unwrap_or_else(|| id.to_string()),
        };
        named.map(original).collect()
    }

    fn code(&mut self, id: Uuid, text: Option<&str>) -> Result<u32> {
        if let Some(code) = self.codes.get(&id) {
            return Ok(*code);
        }
        if self.known.len() >= self.max {
            return Err(too_many_metrics(self.max));
        }
        let code = self.known.len() as u32;
        self.codes.insert(id, code);
        self.known.push(id);
        self.texts.push(text.map(str::to_owned));
        Ok(code)
    }
}

impl<F: FnMut(&str) -> std::result::Result<Uuid, String>> Distinct for Ids<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn text(&mut self, text: &str) -> Result<u32> {
        let id = (self.id_of)(text).map_err(|reason| {
            let shown: String = text.chars().take(100).collect();
            ReadError::Malformed(format!("Column '{}' has '{shown}': {reason}", self.name))
        })?;
        self.code(id, Some(text))
    }

    fn id(&mut self, id: Uuid) -> Result<u32> {
        self.code(id, None)
    }
}

/// Names of metrics, archive policies or units.
pub struct Names {
    name: &'static str,
    max: usize,
    codes: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Names {
    pub fn new(name: &'static str, max: usize) -> Self {
        Names { name, max, codes: HashMap::new(), texts: Vec::new() }
    }

    pub fn text(&self, code: u32) -> Arc<str> {
        self.texts[code as usize].clone()
    }
}

impl Distinct for Names {
    fn name(&self) -> &'static str {
        self.name
    }

    fn text(&mut self, text: &str) -> Result<u32> {
        if let Some(code) = self.codes.get(text) {
            return Ok(*code);
        }
        if self.texts.len() >= self.max {
            return Err(too_many_metrics(self.max));
        }
        let code = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.codes.insert(text.clone(), code);
        self.texts.push(text);
        Ok(code)
    }

    fn id(&mut self, id: Uuid) -> Result<u32> {
        // Unreachable: the schema refuses binary names.
        self.text(&id.to_string())
    }
}
