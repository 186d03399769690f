//! Converts attribute values to texts, like OpenTelemetry's Go library: texts are unchanged, numbers are formatted as
//! in JSON, bytes are base64, lists and maps are JSON with sorted keys.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{OtlpError, json};
use crate::{
    number::write_value,
    protobuf::{Fields, repeated},
};

/// The maximum depth of nested lists and maps in protobuf. In JSON, `serde_json` limits the depth.
const DEPTH_MAX: usize = 32;

/// A value; one field should be set. Of several fields the last one counts in protobuf, and in JSON the first in the
/// order of `AnyValue::text`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "names of OTLP")]
struct AnyValue<'a> {
    #[serde(borrow, alias = "string_value", deserialize_with = "json::optional_text")]
    string_value: Option<Cow<'a, str>>,
    #[serde(alias = "bool_value")]
    bool_value: Option<bool>,
    #[serde(deserialize_with = "json::optional_number", alias = "int_value")]
    int_value: Option<i64>,
    #[serde(deserialize_with = "json::optional_number", alias = "double_value")]
    double_value: Option<f64>,
    #[serde(borrow, alias = "array_value")]
    array_value: Option<ArrayValue<'a>>,
    #[serde(borrow, alias = "kvlist_value")]
    kvlist_value: Option<MapValue<'a>>,
    #[serde(deserialize_with = "json::optional_bytes", alias = "bytes_value")]
    bytes_value: Option<Vec<u8>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ArrayValue<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    values: Vec<AnyValue<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapValue<'a> {
    #[serde(borrow, deserialize_with = "json::or_default")]
    values: Vec<KeyValue<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    key: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::or_default")]
    value: AnyValue<'a>,
}

/// Decodes a value from JSON and converts it to a text.
pub(super) fn text_of_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    json::or_default(deserializer).map(AnyValue::text)
}

/// Decodes a value from protobuf and converts it to a text. `take_attribute` is called for the value and for each
/// nested one; its error stops the decoding.
pub(super) fn text_of_protobuf<'a>(
    message: &'a [u8],
    take_attribute: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<Cow<'a, str>, OtlpError> {
    read(message, DEPTH_MAX, take_attribute).map(AnyValue::text)
}

fn read<'a>(
    message: &'a [u8],
    depth_remaining: usize,
    take_attribute: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<AnyValue<'a>, OtlpError> {
    take_attribute()?;
    let mut value = AnyValue::default();
    for field in Fields(message) {
        let (number, field) = field?;
        if matches!(number, 1..=7) {
            value = AnyValue::default();
        }
        match number {
            1 => value.string_value = Some(field.lossy_text(1)?),
            2 => value.bool_value = Some(field.varint(2)? != 0),
            3 => value.int_value = Some(field.signed(3)?),
            4 => value.double_value = Some(field.double(4)?),
            5 | 6 => {
                let depth_remaining = depth_remaining.checked_sub(1).ok_or(OtlpError::TooDeep(DEPTH_MAX))?;
                let parts = field.bytes(number)?;
                if number == 5 {
                    let values = repeated(1, parts, |part| read(part, depth_remaining, take_attribute))?;
                    value.array_value = Some(ArrayValue { values });
                } else {
                    let values =
                        repeated(1, parts, |part| read_entry(part, depth_remaining, take_attribute))?;
                    value.kvlist_value = Some(MapValue { values });
                }
            }
            7 => value.bytes_value = Some(field.bytes(7)?.to_vec()),
            _ => {}
        }
    }
    Ok(value)
}

fn read_entry<'a>(
    message: &'a [u8],
    depth_remaining: usize,
    take_attribute: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<KeyValue<'a>, OtlpError> {
    let mut entry = KeyValue::default();
    for field in Fields(message) {
        match field? {
            (1, key) => entry.key = key.lossy_text(1)?,
            (2, value) => entry.value = read(value.bytes(2)?, depth_remaining, take_attribute)?,
            _ => {}
        }
    }
    Ok(entry)
}

impl<'a> AnyValue<'a> {
    fn text(self) -> Cow<'a, str> {
        match self {
            AnyValue { string_value: Some(text), .. } => text,
            AnyValue { bool_value: Some(value), .. } => value.to_string().into(),
            AnyValue { int_value: Some(value), .. } => value.to_string().into(),
            AnyValue { double_value: Some(value), .. } => double_text(value).into(),
            AnyValue { bytes_value: Some(bytes), .. } => BASE64_STANDARD.encode(bytes).into(),
            AnyValue { array_value: None, kvlist_value: None, .. } => "".into(),
            list_or_map => escape_html(&list_or_map.json().to_string()).into(),
        }
    }

    /// The value as an element of a list or map.
    fn json(self) -> Value {
        match self {
            AnyValue { string_value: Some(text), .. } => text.into(),
            AnyValue { bool_value: Some(value), .. } => value.into(),
            AnyValue { int_value: Some(value), .. } => value.into(),
            // JSON has no NaN or infinity: they become texts, so that they are not lost.
            AnyValue { double_value: Some(value), .. } if !value.is_finite() => double_text(value).into(),
            AnyValue { double_value: Some(value), .. } => {
                serde_json::from_str(&double_text(value)).unwrap_or(Value::Null)
            }
            AnyValue { bytes_value: Some(bytes), .. } => BASE64_STANDARD.encode(bytes).into(),
            AnyValue { array_value: Some(list), .. } => list.values.into_iter().map(AnyValue::json).collect(),
            AnyValue { kvlist_value: Some(map), .. } => {
                let sorted: BTreeMap<String, Value> = map
                    .values
                    .into_iter()
                    .map(|entry| (entry.key.into_owned(), entry.value.json()))
                    .collect();
                Value::Object(sorted.into_iter().collect())
            }
            _ => Value::Null,
        }
    }
}

/// Formats a number like Go's JSON encoder: its exponents have no leading zero. Values that are not finite become `NaN`, `+Inf` or `-Inf`.
fn double_text(value: f64) -> String {
    let mut text = Vec::new();
    write_value(value, &mut text);
    String::from_utf8_lossy(&text).replace("e-0", "e-")
}

/// Escapes the same characters as Go's JSON encoder: those with a meaning in HTML, and two line separators.
fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{put_bytes, put_message};

    fn of_json(json: &str) -> String {
        let value: AnyValue<'_> = serde_json::from_str(json).unwrap();
        value.text().into_owned()
    }

    #[test]
    fn values_are_formatted_as_in_go() {
        for (json, text) in [
            ("{}", ""),
            (r#"{"stringValue":"a<b"}"#, "a<b"),
            (r#"{"boolValue":true}"#, "true"),
            (r#"{"intValue":"-7"}"#, "-7"),
            (r#"{"intValue":7}"#, "7"),
            (r#"{"doubleValue":1}"#, "1"),
            (r#"{"doubleValue":0.1}"#, "0.1"),
            (r#"{"doubleValue":1e21}"#, "1e+21"),
            (r#"{"doubleValue":1.5e-7}"#, "1.5e-7"),
            (r#"{"doubleValue":"NaN"}"#, "NaN"),
            (r#"{"bytesValue":"AQI="}"#, "AQI="),
            (r#"{"intValue":null,"doubleValue":null,"bytesValue":null,"boolValue":null}"#, ""),
            (r#"{"arrayValue":{"values":null}}"#, "[]"),
            (
                r#"{"arrayValue":{"values":[{"intValue":1},{"stringValue":"<"},{},{"doubleValue":1e30}]}}"#,
                r#"[1,"\u003c",null,1e+30]"#,
            ),
            (
                r#"{"kvlistValue":{"values":[{"key":"b","value":{"boolValue":false}},{"key":"a","value":{"arrayValue":{}}}]}}"#,
                r#"{"a":[],"b":false}"#,
            ),
        ] {
            assert_eq!(of_json(json), text, "{json}");
        }
    }

    #[test]
    fn the_depth_of_nested_lists_is_limited() {
        let nested = |depth: usize| {
            let mut message = Vec::new();
            put_bytes(1, b"x", &mut message);
            for _ in 0..depth {
                let mut outer = Vec::new();
                put_message(5, &mut outer, |out| put_bytes(1, &message, out));
                message = outer;
            }
            text_of_protobuf(&message, &mut || Ok(())).map(Cow::into_owned)
        };
        assert_eq!(nested(2).unwrap(), r#"[["x"]]"#);
        assert!(nested(DEPTH_MAX).is_ok());
        assert!(matches!(nested(DEPTH_MAX + 1), Err(OtlpError::TooDeep(_))));
    }
}
