//! Gnocchi's `to_timespan`: seconds, or a text in the format of the package pytimeparse.

use gnudi_model::Timespan;

use super::float;
use crate::json::Value;

/// A positive timespan.
///
/// # Errors
/// Gnocchi's error text if it is invalid.
pub fn timespan(value: &Value) -> Result<Timespan, &'static str> {
    let span = match (float(value), value) {
        (_, Value::Null) => return Err("Invalid timespan"),
        (Some(seconds), _) if seconds.is_nan() => return Err("cannot convert float NaN to integer"),
        (Some(seconds), _) => Timespan::from_secs_f64(seconds).ok_or("Timespan is too long")?,
        (None, Value::Str(text)) => Timespan::parse(text).ok_or("Unable to parse timespan")?,
        (None, _) => return Err("Unable to parse timespan"),
    };
    if span.0 <= 0 {
        return Err("Timespan must be positive");
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_seconds_or_words() {
        let minute = Ok(Timespan::from_secs(60));
        assert_eq!(timespan(&Value::Int(60)), minute);
        assert_eq!(timespan(&Value::Float(60.0)), minute);
        assert_eq!(timespan(&Value::from("60")), minute);
        assert_eq!(timespan(&Value::from("1 minute")), minute);
        assert_eq!(timespan(&Value::Bool(true)), Ok(Timespan::from_secs(1)));
        for (value, expected) in [
            (Value::Null, "Invalid timespan"),
            (Value::from("x"), "Unable to parse timespan"),
            (Value::from(""), "Unable to parse timespan"),
            (Value::Array(vec![]), "Unable to parse timespan"),
            (Value::from("nan"), "cannot convert float NaN to integer"),
            (Value::from("inf"), "Timespan is too long"),
            (Value::Int(0), "Timespan must be positive"),
            (Value::Float(1e-10), "Timespan must be positive"),
            (Value::from("-5 minutes"), "Timespan must be positive"),
        ] {
            assert_eq!(timespan(&value), Err(expected), "{value:?}");
        }
    }
}
