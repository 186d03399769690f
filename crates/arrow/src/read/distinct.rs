//! The distinct values of an id or name column; a value's code is its index in order of first appearance.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc};

use uuid::Uuid;

use super::{NamedResource, ReadError, Result, schema::Role};

/// Assigns codes to values.
pub trait Distinct {
    /// The column.
    fn role(&self) -> Role;

    /// The code of a text value.
    fn text(&mut self, text: &str) -> Result<u32>;

    /// The code of a binary id.
    fn id(&mut self, id: Uuid) -> Result<u32>;
}

/// Values, and the code of each. There may be as many as metrics.
pub struct Numbered<K> {
    max: usize,
    codes: HashMap<K, u32>,
    pub values: Vec<K>,
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    pub fn new(max: usize) -> Self {
        Numbered { max, codes: HashMap::new(), values: Vec::new() }
    }

    /// The code of a value; `added` is called for a new one.
    pub fn code<Q: Eq + Hash + ?Sized>(&mut self, value: &Q, added: impl FnOnce() -> K) -> Result<u32>
    where
        K: Borrow<Q>,
    {
        if let Some(code) = self.codes.get(value) {
            return Ok(*code);
        }
        if self.values.len() >= self.max {
            return Err(ReadError::TooLarge(format!("There are more than {} metrics", self.max)));
        }
        let code = self.values.len() as u32;
        let value = added();
        self.codes.insert(value.clone(), code);
        self.values.push(value);
        Ok(code)
    }
}

/// Ids; one id may have several spellings.
pub struct Ids<F> {
    role: Role,
    id_of: F,
    numbered: Numbered<Uuid>,
    /// The spelling in the first row; `None` if it was binary.
    texts: Vec<Option<String>>,
}

impl<F: FnMut(&str) -> std::result::Result<Uuid, String>> Ids<F> {
    pub fn new(role: Role, max: usize, id_of: F) -> Self {
        Ids { role, id_of, numbered: Numbered::new(max), texts: Vec::new() }
    }

    pub fn id(&self, code: u32) -> Uuid {
        self.numbered.values[code as usize]
    }

    pub fn into_named(self) -> Vec<NamedResource> {
        let named = self.numbered.values.into_iter().zip(self.texts);
        let original = |(id, text): (Uuid, Option<String>)| NamedResource {
            id,
            original_id: text.unwrap_or_else(|| id.to_string()),
        };
        named.map(original).collect()
    }

    fn code(&mut self, id: Uuid, text: Option<&str>) -> Result<u32> {
        self.numbered.code(&id, || {
            self.texts.push(text.map(str::to_owned));
            id
        })
    }
}

impl<F: FnMut(&str) -> std::result::Result<Uuid, String>> Distinct for Ids<F> {
    fn role(&self) -> Role {
        self.role
    }

    fn text(&mut self, text: &str) -> Result<u32> {
        let id = (self.id_of)(text).map_err(|reason| {
            let shown: String = text.chars().take(100).collect();
            ReadError::Malformed(format!("Column '{}' has '{shown}': {reason}", self.role.name()))
        })?;
        self.code(id, Some(text))
    }

    fn id(&mut self, id: Uuid) -> Result<u32> {
        self.code(id, None)
    }
}

/// Names of metrics, archive policies or units.
pub struct Names {
    role: Role,
    texts: Numbered<Arc<str>>,
}

impl Names {
    pub fn new(role: Role, max: usize) -> Self {
        Names { role, texts: Numbered::new(max) }
    }

    pub fn text(&self, code: u32) -> Arc<str> {
        self.texts.values[code as usize].clone()
    }
}

impl Distinct for Names {
    fn role(&self) -> Role {
        self.role
    }

    fn text(&mut self, text: &str) -> Result<u32> {
        self.texts.code(text, || text.into())
    }

    fn id(&mut self, id: Uuid) -> Result<u32> {
        // Unreachable: the schema refuses binary names.
        self.text(&id.to_string())
    }
}
