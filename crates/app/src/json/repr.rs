//! Formats values as Python's `repr` does, for error texts that quote them.

pub use gnudi_model::python::repr_str;
use gnudi_model::python::text_of_float;

use super::Value;

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
        let mut out = String::new();
        self.write_repr(&mut out);
        out
    }

    fn write_repr(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("None"),
            Value::Bool(true) => out.push_str("True"),
            Value::Bool(false) => out.push_str("False"),
            Value::Int(number) => out.push_str(&number.to_string()),
            Value::BigInt(digits) => out.push_str(digits),
            Value::Float(number) => out.push_str(&text_of_float(*number)),
            Value::Str(text) => out.push_str(&repr_str(text)),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    item.write_repr(out);
                }
                out.push(']');
            }
            Value::Object(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    out.push_str(&repr_str(key));
                    out.push_str(": ");
                    value.write_repr(out);
                }
                out.push('}');
            }
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
