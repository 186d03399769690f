//! JSONPath as Ceilometer's definitions use it (jsonpath-rw-ext), compiled into steps.
//!
//! `lexer` and `parser` read a path into `node`s; `walk` follows them through a document. A path that is nothing but names
//! behind each other, as nearly all are, is followed without any of that.

mod lexer;
mod node;
mod order;
mod parser;
mod text;
mod walk;

use std::borrow::Cow;

use serde_json::Value;

pub use node::Arithmetic;
use node::Node;
use walk::{Datum, Walk};

use super::{DefinitionError, LookupError};

/// A compiled path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    route: Route,
}

#[derive(Clone, Debug)]
enum Route {
    /// Names alone, each of which is looked up in what the one before found.
    Names(Vec<String>),
    Steps {
        node: Node,
        climbs: bool,
    },
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let node = lexer::read(text)
            .and_then(|tokens| parser::parse(&tokens))
            .map_err(|error| DefinitionError(format!("the path {text:?}: {error}")))?;
        let route = match names(&node) {
            Some(names) => Route::Names(names),
            None => Route::Steps { climbs: node.climbs(true), node },
        };
        Ok(JsonPath { route })
    }

    /// What is found, in the order in which it stands there; arithmetic and the operators on texts make values of their own.
    /// An error where the document has not the shape that the path takes for granted (an index into a number, say).
    pub fn find<'a>(&self, document: &'a Value) -> Result<Vec<Cow<'a, Value>>, LookupError> {
        match &self.route {
            Route::Names(names) => Ok(follow(names, document).into_iter().map(Cow::Borrowed).collect()),
            Route::Steps { .. } => {
                let found = self.walk(document, false)?.into_iter();
                Ok(found.filter(|datum| !datum.is_absent).map(|datum| datum.value).collect())
            }
        }
    }

    /// The first value that is not `null`.
    pub fn first<'a>(&self, document: &'a Value) -> Result<Option<Cow<'a, Value>>, LookupError> {
        match &self.route {
            Route::Names(names) => {
                Ok(follow(names, document).filter(|value| !value.is_null()).map(Cow::Borrowed))
            }
            Route::Steps { .. } => {
                let found = self.walk(document, false)?;
                if found.iter().any(|datum| datum.is_absent) {
                    return Err(LookupError("a value has no parent".to_owned()));
                }
                Ok(found.into_iter().map(|datum| datum.value).find(|value| !value.is_null()))
            }
        }
    }

    /// What is found, each with its path: names and indexes with dots between them, nothing for values that were made.
    pub fn find_with_paths<'a>(
        &self,
        document: &'a Value,
    ) -> Result<Vec<(String, Cow<'a, Value>)>, LookupError> {
        let found = self.walk(document, true)?;
        if found.iter().any(|datum| datum.is_absent) {
            return Err(LookupError("a value has no parent".to_owned()));
        }
        Ok(found.into_iter().map(|datum| (datum.path(), datum.value)).collect())
    }

    fn walk<'a>(&self, document: &'a Value, with_paths: bool) -> Result<Vec<Datum<'a>>, LookupError> {
        let names;
        let (node, climbs) = match &self.route {
            Route::Steps { node, climbs } => (node, *climbs),
            Route::Names(row) => {
                names = Node::Sequence(row.iter().map(|name| Node::Fields(vec![name.clone()])).collect());
                (&names, false)
            }
        };
        Walk::new(climbs || with_paths).find(node, &Datum::document(document))?.many()
    }
}

fn follow<'a>(names: &[String], document: &'a Value) -> Option<&'a Value> {
    names.iter().try_fold(document, |value, name| value.get(name))
}

/// The names that a path consists of, if it is nothing else; `$` at the beginning says nothing.
fn names(node: &Node) -> Option<Vec<String>> {
    let name = |node: &Node| match node {
        Node::Fields(names) if names.len() == 1 && names[0] != "*" => Some(names[0].clone()),
        _ => None,
    };
    match node {
        Node::Sequence(steps) => {
            let steps = if matches!(steps.first(), Some(Node::Root)) { &steps[1..] } else { steps };
            steps.iter().map(name).collect()
        }
        node => name(node).map(|name| vec![name]),
    }
}
