//! Formats values as Python's `repr` does, for error texts that quote them.

pub use gnudi_model::python::repr_str;
use gnudi_model::python::text_of_float;

use super::{Value, write_joined};

impl Value {
    /// The name of its class in Python.
    pub fn class_name(&self) -> &'static str {
        match self {
            Value::Null => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::BigInt(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Array(_) => "list",
            Value::Object(_) => "dict",
        }
    }

    /// Python's `repr`.
    pub fn repr(&self) -> String {
        let mut out = Vec::new();
        self.write_repr(&mut out);
        String::from_utf8(out).expect("only texts were written")
    }

    fn write_repr(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"None"),
            Value::Bool(true) => out.extend_from_slice(b"True"),
            Value::Bool(false) => out.extend_from_slice(b"False"),
            Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::BigInt(digits) => out.extend_from_slice(digits.as_bytes()),
            Value::Float(number) => out.extend_from_slice(text_of_float(*number).as_bytes()),
            Value::Str(text) => out.extend_from_slice(repr_str(text).as_bytes()),
            Value::Array(items) => write_joined(*b"[]", items, out, Value::write_repr),
            Value::Object(entries) => write_joined(*b"{}", entries, out, |(key, value), out| {
                out.extend_from_slice(repr_str(key).as_bytes());
                out.extend_from_slice(b": ");
                value.write_repr(out);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_values_as_python_does() {
        let value = Value::object([
            ("cause", Value::from("it's")),
            ("list", Value::Array(vec![Value::Null, Value::Bool(true), Value::Float(1e16), Value::Int(3)])),
            ("quotes", Value::from("a'b\"c\n\u{7f}é")),
        ]);
        assert_eq!(
            value.repr(),
            r#"{'cause': "it's", 'list': [None, True, 1e+16, 3], 'quotes': 'a\'b"c\n\x7fé'}"#
        );
        assert_eq!(Value::Float(f64::NEG_INFINITY).repr(), "-inf");
    }
}
