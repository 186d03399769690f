//! Validates attribute values as Gnocchi does, with voluptuous' error texts.

use gnudi_app::{
    json::Value,
    python,
    schema::{Checked, Invalid, string},
};
use gnudi_model::{
    AttributeKind, AttributeValue, Timestamp,
    python::{datetime, parse_uuid},
};

/// Validates a value of this kind. Times may be relative to `now`.
pub(crate) fn check(kind: AttributeKind, value: &Value, now: Timestamp) -> Checked<AttributeValue> {
    match kind {
        AttributeKind::String { min_length, max_length } => {
            let text = string(value)?;
            let length = text.chars().count();
            if length < min_length as usize {
                return Err(Invalid::new(format!("length of value must be at least {min_length}")));
            }
            if length > max_length as usize {
                return Err(Invalid::new(format!("length of value must be at most {max_length}")));
            }
            if text.contains('\0') {
                return Err(Invalid::new("not a valid value"));
            }
            Ok(AttributeValue::String(text.into()))
        }
        AttributeKind::Uuid => uuid(value),
        AttributeKind::Number { min, max } => number(value, min, max).map(AttributeValue::Number),
        AttributeKind::Bool => match value {
            Value::Bool(flag) => Ok(AttributeValue::Bool(*flag)),
            _ => Err(Invalid::new("expected bool")),
        },
        AttributeKind::Datetime => match python::timestamps([value].into_iter(), now) {
            Ok(times) => Ok(AttributeValue::Datetime(datetime(times[0]))),
            Err(error) => Err(Invalid::new(error.text())),
        },
    }
}

/// The error texts are those of Python's `uuid.UUID`.
fn uuid(value: &Value) -> Checked<AttributeValue> {
    let of_type = |name: &str| format!("'{name}' object has no attribute 'replace'");
    let message = match value {
        Value::Str(text) => match parse_uuid(text) {
            Some(id) => return Ok(AttributeValue::Uuid(id)),
            None => "badly formed hexadecimal UUID string".to_owned(),
        },
        Value::Null => "one of the hex, bytes, bytes_le, fields, or int arguments must be given".to_owned(),
        Value::Bool(_) => of_type("bool"),
        Value::Int(_) | Value::BigInt(_) => of_type("int"),
        Value::Float(_) => of_type("float"),
        Value::Array(_) => of_type("list"),
        Value::Object(_) => of_type("dict"),
    };
    Err(Invalid::new(message))
}

/// A number within the bounds; booleans are numbers in Python.
fn number(value: &Value, min: Option<f64>, max: Option<f64>) -> Checked<f64> {
    let number = real(value).ok_or_else(|| Invalid::new("expected Real"))?;
    if number.is_nan() {
        return Err(Invalid::new("not a valid value"));
    }
    if let Some(min) = min.filter(|min| number < *min) {
        return Err(Invalid::new(format!("value must be at least {}", plain(min))));
    }
    if let Some(max) = max.filter(|max| number > *max) {
        return Err(Invalid::new(format!("value must be at most {}", plain(max))));
    }
    Ok(number)
}

/// A real number in Python's sense, as a double.
pub(crate) fn real(value: &Value) -> Option<f64> {
    if matches!(value, Value::Str(_)) { None } else { python::float(value) }
}

/// Whole numbers up to this are shown without a point.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A bound as it was most likely written: without a point if it is whole.
pub(crate) fn bound(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        Value::Int(number as i64)
    } else {
        Value::Float(number)
    }
}

fn plain(number: f64) -> String {
    bound(number).to_json()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use gnudi_app::json;

    const NOW: Timestamp = Timestamp(1_795_262_538_818_469_123);

    fn of(kind: AttributeKind, text: &str) -> Result<AttributeValue, String> {
        check(kind, &json::parse(text.as_bytes()).unwrap(), NOW).map_err(|invalid| invalid.reason())
    }

    #[test]
    fn values_are_of_their_kind() {
        let string = AttributeKind::String { min_length: 1, max_length: 3 };
        let number = AttributeKind::Number { min: Some(-1.0), max: Some(2.5) };
        let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
        let microsecond = |seconds: i64, micros: i64| {
            AttributeValue::Datetime(Timestamp(seconds * 1_000_000_000 + micros * 1_000))
        };
        for (kind, text, expected) in [
            (string, "\"éèê\"", AttributeValue::String("éèê".into())),
            (number, "-1", AttributeValue::Number(-1.0)),
            (number, "2.5", AttributeValue::Number(2.5)),
            (number, "true", AttributeValue::Number(1.0)),
            (AttributeKind::Bool, "false", AttributeValue::Bool(false)),
            (
                AttributeKind::Uuid,
                "\"5DFE182A51D24122B90BDF0F215B736E\"",
                AttributeValue::Uuid(Uuid::try_parse(id).unwrap()),
            ),
            (AttributeKind::Datetime, "\"2014-01-01T01:02:03.1234567\"", microsecond(1_388_538_123, 123_457)),
            (AttributeKind::Datetime, "1.5", microsecond(1, 500_000)),
            (AttributeKind::Datetime, "\"-1 minute\"", microsecond(1_795_262_478, 818_469)),
        ] {
            assert_eq!(of(kind, text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_values_are_refused_in_voluptuous_words() {
        let string = AttributeKind::String { min_length: 1, max_length: 3 };
        let number = AttributeKind::Number { min: Some(-1.0), max: Some(2.5) };
        let any = AttributeKind::Number { min: None, max: None };
        for (kind, text, reason) in [
            (string, "null", "expected str"),
            (string, "\"\"", "length of value must be at least 1"),
            (string, "\"abcd\"", "length of value must be at most 3"),
            (string, "\"a\\u0000\"", "not a valid value"),
            (number, "\"1\"", "expected Real"),
            (number, "-1.5", "value must be at least -1"),
            (number, "3", "value must be at most 2.5"),
            (any, "NaN", "not a valid value"),
            (any, &format!("1{}", "0".repeat(400)), "expected Real"),
            (AttributeKind::Bool, "1", "expected bool"),
            (AttributeKind::Uuid, "\"x\"", "badly formed hexadecimal UUID string"),
            (AttributeKind::Uuid, "5", "'int' object has no attribute 'replace'"),
            (AttributeKind::Uuid, "{}", "'dict' object has no attribute 'replace'"),
            (
                AttributeKind::Uuid,
                "null",
                "one of the hex, bytes, bytes_le, fields, or int arguments must be given",
            ),
            (AttributeKind::Datetime, "\"foo\"", "Unable to convert timestamps"),
            (AttributeKind::Datetime, "-1", "Timestamp must be after Epoch"),
            (AttributeKind::Datetime, "null", "Unable to convert timestamps"),
        ] {
            assert_eq!(of(kind, text), Err(reason.to_owned()), "{text}");
        }
    }
}
