//! A file's values as the JSON that fields are compiled from.

use serde_json::{Map, Value};

use crate::located::{Located, Node};

/// The value without its lines. Floats that JSON has no form for become `null`, which no field may be.
pub fn json(value: &Located) -> Value {
    match &value.node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Integer(number) => Value::from(*number),
        Node::Float(number) => Value::from(*number),
        Node::Text(text) => Value::from(text.as_str()),
        Node::List(items) => Value::Array(items.iter().map(json).collect()),
        Node::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.value.clone(), json(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}
