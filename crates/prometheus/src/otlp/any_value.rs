//! The values of attributes as texts, as OpenTelemetry's Go library writes them: texts as they are, numbers in JSON's form, bytes as
//! base64, lists and maps as JSON with sorted keys.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{OtlpError, json};
use crate::protobuf::Fields;

/// Lists and maps within each other.
const DEPTH_MAX: usize = 32;

/// A value, of which the last one that is there counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "names of OTLP")]
struct AnyValue<'a> {
    #[serde(borrow)]
    string_value: Option<Cow<'a, str>>,
    bool_value: Option<bool>,
    #[serde(deserialize_with = "json::optional_signed")]
    int_value: Option<i64>,
    #[serde(deserialize_with = "json::optional_double")]
    double_value: Option<f64>,
    #[serde(borrow)]
    array_value: Option<ArrayValue<'a>>,
    #[serde(borrow)]
    kvlist_value: Option<MapValue<'a>>,
    #[serde(deserialize_with = "json::optional_bytes")]
    bytes_value: Option<Vec<u8>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ArrayValue<'a> {
    #[serde(borrow)]
    values: Vec<AnyValue<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapValue<'a> {
    #[serde(borrow)]
    values: Vec<KeyValue<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: AnyValue<'a>,
}

/// The text of a value in JSON.
pub(super) fn text_of_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    AnyValue::deserialize(deserializer).map(AnyValue::text)
}

/// The text of a value in protobuf. `attributes_left` bounds its parts.
pub(super) fn text_of_protobuf<'a>(
    message: &'a [u8],
    attributes_left: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<Cow<'a, str>, OtlpError> {
    read(message, DEPTH_MAX, attributes_left).map(AnyValue::text)
}

fn read<'a>(
    message: &'a [u8],
    depth_left: usize,
    take: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<AnyValue<'a>, OtlpError> {
    take()?;
    let mut value = AnyValue::default();
    for field in Fields(message) {
        let (number, field) = field?;
        if matches!(number, 1..=7) {
            value = AnyValue::default();
        }
        match number {
            1 => value.string_value = Some(field.text(1)?.into()),
            2 => value.bool_value = Some(field.varint(2)? != 0),
            3 => value.int_value = Some(field.signed(3)?),
            4 => value.double_value = Some(field.double(4)?),
            5 | 6 => {
                let depth_left = depth_left.checked_sub(1).ok_or(OtlpError::TooDeep(DEPTH_MAX))?;
                let parts = Fields(field.bytes(number)?);
                if number == 5 {
                    let mut values = Vec::new();
                    for part in parts {
                        if let (1, part) = part? {
                            values.push(read(part.bytes(1)?, depth_left, take)?);
                        }
                    }
                    value.array_value = Some(ArrayValue { values });
                } else {
                    let mut values = Vec::new();
                    for part in parts {
                        if let (1, part) = part? {
                            values.push(read_entry(part.bytes(1)?, depth_left, take)?);
                        }
                    }
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
    depth_left: usize,
    take: &mut dyn FnMut() -> Result<(), OtlpError>,
) -> Result<KeyValue<'a>, OtlpError> {
    let mut entry = KeyValue::default();
    for field in Fields(message) {
        match field? {
            (1, key) => entry.key = key.text(1)?.into(),
            (2, value) => entry.value = read(value.bytes(2)?, depth_left, take)?,
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
            list_or_map => html_safe(&list_or_map.json().to_string()).into(),
        }
    }

    fn json(self) -> Value {
        match self {
            AnyValue { string_value: Some(text), .. } => text.into(),
            AnyValue { bool_value: Some(value), .. } => value.into(),
            AnyValue { int_value: Some(value), .. } => value.into(),
            // A number that JSON has not is a text, rather than nothing at all.
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

/// A number as Go's encoder of JSON writes it: with an exponent where it is very small or large.
fn double_text(value: f64) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        return if magnitude >= 1e21 { text.replace('e', "e+") } else { text };
    }
    value.to_string()
}

/// Characters with a meaning in HTML, which Go's encoder of JSON escapes.
fn html_safe(json: &str) -> String {
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
    fn values_are_texts_as_gos_library_writes_them() {
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
    fn lists_within_lists_have_a_bound() {
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
