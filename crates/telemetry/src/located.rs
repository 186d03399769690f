//! YAML values with their line numbers, for files that are validated after parsing: unknown names, missing keys,
//! contradictions.
//!
//! Anchors, merge keys and YAML 1.1 booleans are handled by the parser.

use std::{fmt, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::yaml::{self, YamlError};

/// A value and the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// From 1; 0 if unknown.
    pub line: u64,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Located>),
    /// In the file's order.
    Map(Vec<(Spanned<String>, Located)>),
}

impl Located {
    /// Parses a text; `path` is for errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, YamlError> {
        yaml::parse(path, text)
    }

    /// The value of a key; `None` also if this is not a map.
    pub fn get(&self, key: &str) -> Option<&Located> {
        let Node::Map(entries) = &self.node else { return None };
        entries.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Located]> {
        match &self.node {
            Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// Whether Python counts it as false: null, zero, an empty text, list or map.
    pub fn is_empty(&self) -> bool {
        match &self.node {
            Node::Null | Node::Bool(false) | Node::Integer(0) => true,
            Node::Bool(true) | Node::Integer(_) => false,
            Node::Float(number) => *number == 0.0,
            Node::Text(text) => text.is_empty(),
            Node::List(items) => items.is_empty(),
            Node::Map(entries) => entries.is_empty(),
        }
    }

    /// The value without line numbers. Floats without a JSON form (infinities, NaN) become `null`, which no field
    /// accepts.
    pub fn json(&self) -> Value {
        match &self.node {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Integer(number) => Value::from(*number),
            Node::Float(number) => Value::from(*number),
            Node::Text(text) => Value::from(text.as_str()),
            Node::List(items) => items.iter().map(Located::json).collect(),
            Node::Map(entries) => {
                entries.iter().map(|(key, value)| (key.value.clone(), value.json())).collect()
            }
        }
    }

    /// The kind of value, for errors.
    pub fn kind(&self) -> &'static str {
        match &self.node {
            Node::Null => "nothing",
            Node::Bool(_) => "a boolean",
            Node::Integer(_) | Node::Float(_) => "a number",
            Node::Text(_) => "a text",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
        }
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Located { line: spanned.referenced.line(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::Float(value as f64), Node::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_lines() {
        let text = "---\nsources:\n    - name: a\n      meters: ['*', '!b']\n      on: true\n      n: 3\n      f: 1.5\n      z:\n";
        let file = Located::parse(Path::new("p.yaml"), text).unwrap();
        let source = &file.get("sources").unwrap().list().unwrap()[0];
        assert_eq!(source.line, 3);
        assert_eq!(source.get("name").unwrap().text(), Some("a"));
        let meters = source.get("meters").unwrap();
        assert_eq!((meters.line, meters.kind()), (4, "a list"));
        assert_eq!(meters.list().unwrap()[1].text(), Some("!b"));
        assert_eq!(source.get("on").unwrap().node, Node::Bool(true));
        assert_eq!(source.get("n").unwrap().node, Node::Integer(3));
        assert_eq!(source.get("f").unwrap().node, Node::Float(1.5));
        assert!(source.get("z").unwrap().is_empty() && source.get("missing").is_none());
        let Node::Map(entries) = &source.node else { panic!("no map") };
        assert_eq!(entries[4].0.referenced.line(), 7);
    }
}
