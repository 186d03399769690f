//! Formats values as Python does: `str()`, `repr()`, and `json.dumps` with its spaces and escapes.

use std::{fmt::Write as _, io};

use gnudi_model::python::{repr_str, text_of_float};
use serde::Serialize;
use serde_json::{Map, Number, Value, ser::Formatter};

/// `str(value)` of a JSON value.
pub fn str(value: &Value) -> String {
    let mut out = String::new();
    push_str(&mut out, value);
    out
}

/// Appends [`str`] to `out`.
pub fn push_str(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => out.push_str(text),
        value => push_repr(out, value),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    push_repr(&mut out, value);
    out
}

pub fn push_repr(out: &mut String, value: &Value) {
    push(out, value, |out, text| out.push_str(&repr_str(text)), |entries| entries.iter().collect());
}

/// `repr` of a value whose texts are UTF-8 bytes, and whose maps are sorted.
pub fn push_repr_of_bytes(out: &mut String, value: &Value) {
    push(out, value, push_bytes, sorted);
}

type Entries<'a> = Vec<(&'a String, &'a Value)>;

/// A map's entries sorted by name.
pub fn sorted(entries: &Map<String, Value>) -> Entries<'_> {
    let mut entries: Entries<'_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    entries
}

fn push(
    out: &mut String,
    value: &Value,
    push_text: fn(&mut String, &str),
    ordered: fn(&Map<String, Value>) -> Entries<'_>,
) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => push_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                push(out, item, push_text, ordered);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (at, (key, value)) in ordered(entries).into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                push_text(out, key);
                out.push_str(": ");
                push(out, value, push_text, ordered);
            }
            out.push('}');
        }
    }
}

fn push_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => out.push_str(&text_of_float(float)),
        _ => out.push_str(&number.to_string()),
    }
}

/// `repr(text.encode())`.
fn push_bytes(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push('b');
    out.push(quote);
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => {
                if char::from(byte) == quote {
                    out.push('\\');
                }
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push(quote);
}

/// The text of `json.dumps(value)`.
pub fn json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, PythonJson);
    value.serialize(&mut serializer).expect("maps have texts for keys, and memory takes all");
    String::from_utf8(out).expect("JSON is text")
}

/// A space after commas and colons, and ASCII only.
struct PythonJson;

impl Formatter for PythonJson {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(text_of_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut start = 0;
        for (at, character) in fragment.char_indices() {
            if matches!(character, ' '..='~') {
                continue;
            }
            writer.write_all(&fragment.as_bytes()[start..at])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            start = at + character.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[start..])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let value = json!({"b": [1, -2.0, 1e16, true, null, "it's"], "a": "é\u{7f}\n\"'"});
        assert_eq!(repr(&value), r#"{'b': [1, -2.0, 1e+16, True, None, "it's"], 'a': 'é\x7f\n"\''}"#);
        let mut bytes = String::new();
        push_repr_of_bytes(&mut bytes, &value);
        assert_eq!(bytes, r#"{b'a': b'\xc3\xa9\x7f\n"\'', b'b': [1, -2.0, 1e+16, True, None, b"it's"]}"#);
        assert_eq!(
            super::json(&value),
            r#"{"b": [1, -2.0, 1e+16, true, null, "it's"], "a": "\u00e9\u007f\n\"'"}"#
        );
        assert_eq!(super::json(&"\u{1f600}\u{1f}"), r#""\ud83d\ude00\u001f""#);
    }
}
