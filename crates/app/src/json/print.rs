//! Writes JSON as Python's `json.dumps` does by default: `, ` and `: `, ASCII only.

use super::{Value, float};

impl Value {
    /// The document as text.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        String::from_utf8(out).expect("only ASCII was written")
    }

    /// Appends the document.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::BigInt(digits) => out.extend_from_slice(digits.as_bytes()),
            Value::Float(number) => float::write(*number, out),
            Value::Str(text) => write_string(text, out),
            Value::Array(items) => write_joined(*b"[]", items, out, Value::write_json),
            Value::Object(entries) => write_joined(*b"{}", entries, out, |(key, value), out| {
                write_string(key, out);
                out.extend_from_slice(b": ");
                value.write_json(out);
            }),
        }
    }
}

/// Appends the items, each as `write` appends it, with `, ` between them and in brackets.
pub fn write_joined<T>(
    [open, close]: [u8; 2],
    items: &[T],
    out: &mut Vec<u8>,
    write: impl Fn(&T, &mut Vec<u8>),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        write(item, out);
    }
    out.push(close);
}

/// Appends a string literal.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(text, out);
    }
    out.push(b'"');
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_python_does() {
        let value = Value::object([
            (
                "a\"\\\n",
                Value::Array(vec![Value::Int(-1), Value::Float(2.0), Value::Bool(true), Value::Null]),
            ),
            ("é€😀\u{7f}\u{1}", Value::object([])),
            ("big", Value::BigInt("-123456789012345678901234567890".to_owned())),
            ("empty", Value::Array(vec![])),
        ]);
        assert_eq!(
            value.to_json(),
            r#"{"a\"\\\n": [-1, 2.0, true, null], "\u00e9\u20ac\ud83d\ude00\u007f\u0001": {}, "big": -123456789012345678901234567890, "empty": []}"#
        );
    }
}
