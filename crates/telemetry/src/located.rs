//! YAML values with their line numbers, for files that are validated after parsing: unknown names, missing keys,
//! contradictions.
//!
//! Anchors and merge keys are handled by the parser.

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
    pub node: YamlNode,
}

#[derive(Clone, Debug, PartialEq)]
pub enum YamlNode {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Located>),
    /// In the file's order.
    Map(Vec<(Key, Located)>),
}

/// A key as it is written; `None` for null.
pub type Key = Spanned<Option<String>>;

impl Located {
    /// Parses a text; `path` is for errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, YamlError> {
        yaml::parse(path, text)
    }

    /// The value of a key; `None` also if this is not a map.
    pub fn get(&self, key: &str) -> Option<&Located> {
        let YamlNode::Map(entries) = &self.node else { return None };
        entries.iter().find(|(name, _)| name.value.as_deref() == Some(key)).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        match &self.node {
            YamlNode::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Located]> {
        match &self.node {
            YamlNode::List(items) => Some(items),
            _ => None,
        }
    }

    /// Whether Python counts it as false: null, zero, an empty text, list or map.
    pub fn is_empty(&self) -> bool {
        match &self.node {
            YamlNode::Null | YamlNode::Bool(false) | YamlNode::Integer(0) => true,
            YamlNode::Bool(true) | YamlNode::Integer(_) => false,
            YamlNode::Float(number) => *number == 0.0,
            YamlNode::Text(text) => text.is_empty(),
            YamlNode::List(items) => items.is_empty(),
            YamlNode::Map(entries) => entries.is_empty(),
        }
    }

    /// The value without line numbers. Floats without a JSON form (infinities, NaN) become `null`, which no field
    /// accepts. A map under `values` (of the plug-in `map`) is a list of pairs if one of its keys is no text: those of JSON
    /// are texts.
    pub fn json(&self) -> Value {
        match &self.node {
            YamlNode::Null => Value::Null,
            YamlNode::Bool(value) => Value::Bool(*value),
            YamlNode::Integer(number) => Value::from(*number),
            YamlNode::Float(number) => Value::from(*number),
            YamlNode::Text(text) => Value::from(text.as_str()),
            YamlNode::List(items) => items.iter().map(Located::json).collect(),
            YamlNode::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let key = key_text(key);
                    let pairs = if key == "values" { value.pairs() } else { None };
                    (key.to_owned(), pairs.unwrap_or_else(|| value.json()))
                });
                entries.collect()
            }
        }
    }

    /// The keys and values of a map, if one of the keys is no text.
    fn pairs(&self) -> Option<Value> {
        let YamlNode::Map(entries) = &self.node else { return None };
        if entries.iter().all(|(key, _)| key_value(key).is_string()) {
            return None;
        }
        Some(entries.iter().map(|(key, value)| Value::from(vec![key_value(key), value.json()])).collect())
    }

    /// The kind of value, for errors.
    pub fn kind(&self) -> &'static str {
        match &self.node {
            YamlNode::Null => "nothing",
            YamlNode::Bool(_) => "a boolean",
            YamlNode::Integer(_) | YamlNode::Float(_) => "a number",
            YamlNode::Text(_) => "a text",
            YamlNode::List(_) => "a list",
            YamlNode::Map(_) => "a map",
        }
    }
}

/// A key as JSON has it.
pub fn key_text(key: &Key) -> &str {
    key.value.as_deref().unwrap_or("null")
}

/// What a key is: `1` is a number, `"1"` a text.
pub fn key_value(key: &Key) -> Value {
    let Some(text) = &key.value else { return Value::Null };
    plain_scalar(text, key.defined.span().len()).unwrap_or_else(|| Value::from(text.as_str()))
}

/// The boolean or number that a text is if it has no quotes, which count in its length in the file.
fn plain_scalar(text: &str, length: u64) -> Option<Value> {
    if length == text.chars().count() as u64 { yaml::scalar(text) } else { None }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<YamlNode>::deserialize(deserializer)?;
        let node = match spanned.value {
            YamlNode::Text(text) => match plain_scalar(&text, spanned.defined.span().len()) {
                Some(Value::Bool(value)) => YamlNode::Bool(value),
                _ => YamlNode::Text(text),
            },
            node => node,
        };
        Ok(Located { line: spanned.referenced.line(), node })
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlNode, E> {
        Ok(i64::try_from(value).map_or(YamlNode::Float(value as f64), YamlNode::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<YamlNode, E> {
        Ok(YamlNode::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(YamlNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlNode, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(YamlNode::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(source.get("on").unwrap().node, YamlNode::Bool(true));
        assert_eq!(source.get("n").unwrap().node, YamlNode::Integer(3));
        assert_eq!(source.get("f").unwrap().node, YamlNode::Float(1.5));
        assert!(source.get("z").unwrap().is_empty() && source.get("missing").is_none());
        let YamlNode::Map(entries) = &source.node else { panic!("no map") };
        assert_eq!(entries[4].0.referenced.line(), 7);
    }

    #[test]
    fn booleans_are_those_of_pyyaml() {
        let file =
            Located::parse(Path::new("p.yaml"), "[yes, Off, true, y, N, 'yes', \"off\", yEs]").unwrap();
        assert_eq!(file.json(), json!([true, false, true, "y", "N", "yes", "off", "yEs"]));
    }

    #[test]
    fn keys_have_types() {
        let text = "values: {1: a, '1': b, \"yes\": c, no: d, ü: e, \"\\x32\": f, ~: h, 'null': i}\nother: {1: a, ~: b}\n<<: {2.5: g}\n";
        let file = Located::parse(Path::new("p.yaml"), text).unwrap();
        let pairs = json!([
            [1, "a"],
            ["1", "b"],
            ["yes", "c"],
            [false, "d"],
            ["ü", "e"],
            ["2", "f"],
            [null, "h"],
            ["null", "i"]
        ]);
        assert_eq!(file.json(), json!({"values": pairs, "other": {"1": "a", "null": "b"}, "2.5": "g"}));
        let YamlNode::Map(entries) = &file.node else { panic!("no map") };
        assert_eq!(key_value(&entries.last().unwrap().0), json!(2.5));
        let texts = Located::parse(Path::new("p.yaml"), "values: {a: 1, '2': 3}").unwrap();
        assert_eq!(texts.json(), json!({"values": {"a": 1, "2": 3}}));
    }
}
