//! JSON in Gnocchi's dialect.
//!
//! Not `serde_json`, because the dialect is visible to clients. Gnocchi's parser (ujson) accepts `NaN`, `1.`
//! and `01`, keeps integers of any size and has its own error texts. Its printer is Python's: `, ` and `: `
//! between items, ASCII only, and floats formatted by `repr`.

pub mod float;
mod parse;
mod print;
mod repr;

use gnudi_server::ReplyBody;

pub use parse::{DEPTH_MAX, ParseError, VALUES_MAX, parse};
pub use print::{write_joined, write_string};
pub use repr::repr_str;

/// A JSON document. Integers beyond `i64` keep their digits.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// An optional minus and digits.
    BigInt(String),
    Float(f64),
    Str(String),
    Array(Vec<Value>),
    /// In the order of the document; keys are unique.
    Object(Vec<(String, Value)>),
}

impl Value {
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// An object with these entries.
    pub fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// An error's detail: `cause` and `detail`.
    pub fn cause(cause: &str, detail: impl Into<Value>) -> Value {
        Value::object([("cause", cause.into()), ("detail", detail.into())])
    }

    /// An error's detail: `cause`, `detail` and `reason`, in this order.
    pub fn cause_detail_reason(cause: &str, detail: &str, reason: impl Into<Value>) -> Value {
        Value::object([("cause", cause.into()), ("detail", detail.into()), ("reason", reason.into())])
    }

    /// An error's detail: `cause`, `reason` and `detail`.
    pub fn cause_and_reason(cause: &str, reason: impl Into<Value>, detail: impl Into<Value>) -> Value {
        Value::object([("cause", cause.into()), ("reason", reason.into()), ("detail", detail.into())])
    }
}

impl From<&Value> for ReplyBody {
    fn from(document: &Value) -> Self {
        let mut text = Vec::with_capacity(256);
        document.write_json(&mut text);
        text.into()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Str(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Value::BigInt(number.to_string()), Value::Int)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Value::Array(values.into_iter().map(Into::into).collect())
    }
}
