//! `JSONPath` as Ceilometer's definitions use it (jsonpath-rw-ext), compiled to nodes.
//!
//! `lexer` and `parser` compile a path into `node`s; `walk` evaluates them on a document. Nearly all paths are plain
//! sequences of names: they take a fast path.

mod lexer;
mod node;
pub(crate) mod order;
mod parser;
mod text;
mod walk;

use std::borrow::Cow;

use serde_json::Value;

pub use node::Arithmetic;
use node::PathNode;
use walk::{Datum, Walk};

use super::{DefinitionError, LookupError};

/// A compiled path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    node: PathNode,
    climbs: bool,
    /// Fast path: alternatives, each a sequence of names.
    names: Option<Vec<Vec<String>>>,
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let node = lexer::read(text)
            .and_then(|tokens| parser::parse(&tokens))
            .map_err(|error| DefinitionError(format!("the path {text:?}: {error}")))?;
        let mut names = Vec::new();
        let is_names = alternatives(&node, &mut names);
        Ok(JsonPath { climbs: node.climbs(true), names: is_names.then_some(names), node })
    }

    /// All matches in document order; arithmetic and text operators create new values. An error if the document's shape
    /// does not fit the path (an index into a number, for example).
    pub fn find<'a>(&self, document: &'a Value) -> Result<Vec<Cow<'a, Value>>, LookupError> {
        if let Some(names) = &self.names {
            return Ok(names.iter().filter_map(|names| follow(names, document)).map(Cow::Borrowed).collect());
        }
        let found = self.walk(document, false)?.into_iter();
        Ok(found.filter(|datum| !datum.is_absent).map(|datum| datum.value).collect())
    }

    /// The first value that is not `null`.
    pub fn first<'a>(&self, document: &'a Value) -> Result<Option<Cow<'a, Value>>, LookupError> {
        if let Some(names) = &self.names {
            let mut found = names.iter().filter_map(|names| follow(names, document));
            return Ok(found.find(|value| !value.is_null()).map(Cow::Borrowed));
        }
        let found = self.walk(document, false)?;
        found.iter().try_for_each(Datum::check_present)?;
        Ok(found.into_iter().map(|datum| datum.value).find(|value| !value.is_null()))
    }

    /// All matches, each with its path: names and indexes joined by dots, empty for created values.
    pub fn find_with_paths<'a>(
        &self,
        document: &'a Value,
    ) -> Result<Vec<(String, Cow<'a, Value>)>, LookupError> {
        let found = self.walk(document, true)?;
        found.iter().try_for_each(Datum::check_present)?;
        Ok(found.into_iter().map(|datum| (datum.path(), datum.value)).collect())
    }

    fn walk<'a>(&self, document: &'a Value, with_paths: bool) -> Result<Vec<Datum<'a>>, LookupError> {
        Walk::new(self.climbs || with_paths).find(&self.node, &Datum::document(document))?.many()
    }
}

fn follow<'a>(names: &[String], document: &'a Value) -> Option<&'a Value> {
    names.iter().try_fold(document, |value, name| value.get(name))
}

/// Collects the sequences of names that a path consists of; `false` if it has anything else. A leading `$` is skipped.
fn alternatives(node: &PathNode, all: &mut Vec<Vec<String>>) -> bool {
    let name = |node: &PathNode| match node {
        PathNode::Fields(names) if names.len() == 1 && names[0] != "*" => Some(names[0].clone()),
        _ => None,
    };
    let row: Option<Vec<String>> = match node {
        PathNode::Union(left, right) => return alternatives(left, all) && alternatives(right, all),
        PathNode::Sequence(steps) => {
            let steps = if matches!(steps.first(), Some(PathNode::Root)) { &steps[1..] } else { steps };
            steps.iter().map(name).collect()
        }
        node => name(node).map(|name| vec![name]),
    };
    row.map(|row| all.push(row)).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, document: &Value) -> Result<Vec<Value>, LookupError> {
        let found = JsonPath::parse(path).unwrap();
        found.find(document).map(|found| found.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn paths_read_as_the_original_reads_them() {
        let document = json!({
            "a": {"b": {"d": 1}, "c": {"d": 2}, "n": [3, 1, 2]},
            "metrics": [{"name": "x", "value": 0.5}, {"name": "y", "value": "2"}],
            "text": "x.y.z",
        });
        for (path, found) in [
            ("$.a.b.d", json!([1])),
            ("a.b|c.d", json!([1, 2])),
            ("a.(b|c).d", json!([1, 2])),
            ("(a.b.d)|(text)", json!([1, "x.y.z"])),
            ("a..d", json!([1, 2])),
            ("a.n[*]", json!([3, 1, 2])),
            ("a.n[1:]", json!([1, 2])),
            ("a.n.`sorted`", json!([[1, 2, 3]])),
            ("a.n.`len`", json!([3])),
            ("metrics[?(@.name='x')].value * 100", json!([50.0])),
            ("metrics[?value > 1].name", json!(["y"])),
            ("metrics[\\name].name", json!([])),
            ("metrics[\\name][*].name", json!(["y", "x"])),
            ("text.`split(., 1, 1)`", json!(["y.z"])),
            ("$.text + '-' + $.a.b.d", json!([])),
            ("$.text + '-' + $.text", json!(["x.y.z-x.y.z"])),
            ("text.`sub(/.*/, )` + 'id.' + $.text", json!(["id.x.y.z"])),
            ("$.a.b.d + 1 * 2", json!([3])),
        ] {
            assert_eq!(find(path, &document).map(Value::from), Ok(found), "{path}");
        }
        for path in ["metrics[0].value[0]", "`sorted`", "a & b", "metrics[?name > 1.5]"] {
            assert!(find(path, &document).is_err(), "{path}");
        }
    }

    #[test]
    fn the_work_is_bounded() {
        let mut document = json!({"a": 1});
        for _ in 0..60 {
            document = json!({"a": document});
        }
        let error = find("$..a..a..a..a..a..a", &document).unwrap_err();
        assert!(error.0.contains("more than"), "{error}");
        let deep = "(".repeat(200) + "a" + &")".repeat(200);
        let long = vec!["a"; 1000].join("|");
        for path in [deep, long, "a".repeat(100_000)] {
            assert!(JsonPath::parse(&path).is_err());
        }
    }
}
