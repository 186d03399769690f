//! Values as Python's `repr` shows them: error texts quote them so.

use super::{Value, float};

impl Value {
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
            Value::Float(number) if number.is_nan() => out.push_str("nan"),
            Value::Float(number) if number.is_infinite() => {
                out.push_str(if *number > 0.0 { "inf" } else { "-inf" });
            }
            Value::Float(number) => {
                let mut text = Vec::new();
                float::write(*number, &mut text);
                out.push_str(&String::from_utf8_lossy(&text));
            }
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

/// Python's `repr` of a string; characters outside ASCII are taken as printable.
pub fn repr_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                out.extend(["\\x", &format!("{:02x}", u32::from(character))]);
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
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
