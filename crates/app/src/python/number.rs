//! `float()` and `int()`.

pub use gnudi_model::python::float_of_text;
use gnudi_model::python::{int_of_float, int_of_text};

use crate::json::Value;

/// `float(value)`; `None` where Python raises.
pub fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Int(number) => Some(*number as f64),
        Value::BigInt(digits) => digits.parse().ok().filter(|number: &f64| number.is_finite()),
        Value::Float(number) => Some(*number),
        Value::Str(text) => float_of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `int(value)`; `None` if Python raises or the number does not fit an `i128`.
pub fn int(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(flag) => Some(i128::from(*flag)),
        Value::Int(number) => Some(i128::from(*number)),
        Value::BigInt(digits) => digits.parse().ok(),
        Value::Float(number) => int_of_float(*number),
        Value::Str(text) => int_of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_pythons() {
        for (text, expected) in [
            ("4.2", 4.2),
            (" 1e3\n", 1000.0),
            ("1_000.5", 1000.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
            ("1e400", f64::INFINITY),
        ] {
            assert_eq!(float_of_text(text), Some(expected), "{text}");
        }
        assert!(float_of_text("nan").unwrap().is_nan());
        assert!(float_of_text("-NaN").unwrap().is_nan());
        for text in ["", " ", "_1", "1_", "1__0", "1_.5", "0x10", "1e", "4,2", "four", "infinit", "1 2", "."]
        {
            assert_eq!(float_of_text(text), None, "{text}");
        }
        assert_eq!(float(&Value::Bool(true)), Some(1.0));
        assert_eq!(float(&Value::Null), None);
        assert_eq!(float(&Value::BigInt("1".repeat(400))), None);
        assert_eq!(
            float(&Value::BigInt("18446744073709551617".to_owned())),
            Some(18_446_744_073_709_551_616.0)
        );
    }

    #[test]
    fn integers_are_pythons() {
        for (value, expected) in [
            (Value::from(" 1_0 "), Some(10)),
            (Value::from("+3"), Some(3)),
            (Value::from("3.7"), None),
            (Value::Float(-3.7), Some(-3)),
            (Value::Float(f64::NAN), None),
            (Value::Float(f64::INFINITY), None),
            (Value::Bool(true), Some(1)),
            (Value::Null, None),
        ] {
            assert_eq!(int(&value), expected, "{value:?}");
        }
    }
}
