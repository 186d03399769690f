//! Numbers in the format of Prometheus' API: the shortest digits that parse to the same double, formatted as Go does.

use std::io::Write;

/// Within this range of magnitudes zmij writes no exponent.
const FIXED: std::ops::Range<f64> = 1e-4..1e15;

/// Within this range of magnitudes Prometheus writes no exponent.
const PLAIN: std::ops::Range<f64> = 1e-6..1e21;

/// The same in Prometheus' text format.
const TEXT_PLAIN: std::ops::Range<f64> = 1e-4..1e6;

/// Appends a sample's value as in Prometheus' JSON, without the quotes: `1.5`, `-0`, `1e-07`, `+Inf`, `NaN`.
pub fn write_value(value: f64, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if magnitude.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    } else if FIXED.contains(&magnitude) {
        if magnitude.fract() == 0.0 {
            out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
        }
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if PLAIN.contains(&magnitude) {
        write!(out, "{value}").expect("memory takes it");
    } else {
        write_scientific(value, out);
    }
}

/// Go's exponents have a sign and at least two digits.
fn write_scientific(value: f64, out: &mut Vec<u8>) {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("it has an exponent");
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    write!(out, "{digits}e{sign}{exponent:0>2}").expect("memory takes it");
}

/// Appends a sample's value as in Prometheus' text format: as [`write_value`], but with an exponent from a million on and below a
/// ten-thousandth, and zero has no sign.
pub fn write_text_value(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() && value != 0.0 && !TEXT_PLAIN.contains(&value.abs()) {
        write_scientific(value, out);
    } else {
        write_value(value + 0.0, out);
    }
}

/// Appends a time in milliseconds as seconds: `1.5`, `-0.001`, `1435781430`.
pub fn write_time(time_ms: i64, out: &mut Vec<u8>) {
    if time_ms < 0 {
        out.push(b'-');
    }
    let (seconds, fraction) = (time_ms.unsigned_abs() / 1000, time_ms.unsigned_abs() % 1000);
    out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    if fraction != 0 {
        let digits = [fraction / 100, fraction / 10 % 10, fraction % 10].map(|digit| b'0' + digit as u8);
        out.push(b'.');
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        out.extend_from_slice(&digits[..3 - zeros]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(value: f64) -> String {
        let mut out = Vec::new();
        write_value(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_formatted_as_in_go() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (0.000_012_5, "0.0000125"),
            (1e-7, "1e-07"),
            (-1.25e-10, "-1.25e-10"),
            (5e-324, "5e-324"),
            (123_456_789_012_345_680.0, "123456789012345680"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn values_of_texts_are_those_of_prometheus_client() {
        for (number, text) in [
            (-0.0, "0"),
            (123_456.75, "123456.75"),
            (-1_000_000.0, "-1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut out = Vec::new();
            write_text_value(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn times_are_seconds() {
        let time = |milliseconds| {
            let mut out = Vec::new();
            write_time(milliseconds, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            [0, 1, 1500, 10, 1_435_781_430_781, -1].map(time),
            ["0", "0.001", "1.5", "0.01", "1435781430.781", "-0.001"]
        );
        assert_eq!(time(i64::MIN), "-9223372036854775.808");
    }

    proptest! {
        #[test]
        fn values_parse_to_the_same_double(bits: u64) {
            let number = f64::from_bits(bits);
            let text = value(number);
            let read: f64 = text.parse().unwrap();
            prop_assert!(read == number || read.is_nan() && number.is_nan());
            let exponent = text.contains('e');
            prop_assert_eq!(exponent, number.is_finite() && number != 0.0 && !(1e-6..1e21).contains(&number.abs()));
        }
    }
}
