//! Floats as Python's `repr` prints them, and with it every number that Gnocchi's API shows.
//!
//! The shortest digits that read back as the same double come from zmij; its layout is Python's too between 1e-4 and 1e16.
//! Outside, Python writes exponents of at least two digits (`1e-05`, `1.5e+16`); `NaN` and `Infinity` as in JSON.

/// Within this range of magnitudes, zmij and Python use the same fixed notation.
const FIXED: std::ops::Range<f64> = 1e-4..1e16;

/// Appends `value` as JSON text, at most 24 bytes.
#[inline]
pub fn write(value: f64, out: &mut Vec<u8>) {
    if FIXED.contains(&value.abs()) || value == 0.0 {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        write_unusual(value, out);
    }
}

#[cold]
fn write_unusual(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        let text: &[u8] = if value.is_nan() {
            b"NaN"
        } else if value > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        };
        out.extend_from_slice(text);
        return;
    }
    if value < 0.0 {
        out.push(b'-');
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs()).as_bytes();
    // Whatever notation the digits came in: `0.d1d2...dn * 10^point`.
    let (mantissa, exponent) = match text.iter().position(|byte| *byte == b'e') {
        Some(at) => (&text[..at], exponent(&text[at + 1..])),
        None => (text, 0),
    };
    let whole = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let digits: Vec<u8> = mantissa.iter().copied().filter(|byte| *byte != b'.').collect();
    let leading_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let last = digits.iter().rposition(|digit| *digit != b'0').expect("the value is not zero");
    let digits = &digits[leading_zeros..=last];
    let exponent = whole as i32 - leading_zeros as i32 - 1 + exponent;
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
}

/// A decimal exponent with an optional sign.
fn exponent(text: &[u8]) -> i32 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    let magnitude = digits.fold(0, |number, digit| number * 10 + i32::from(digit - b'0'));
    if text.first() == Some(&b'-') { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn looks_as_python_prints_it() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (60.0, "60.0"),
            (4.2, "4.2"),
            (-1.5, "-1.5"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (0.000_01, "1e-05"),
            (-0.000_099_9, "-9.99e-05"),
            (1e-7, "1e-07"),
            (1.5e-10, "1.5e-10"),
            (5e-324, "5e-324"),
            (2.225_073_858_507_201_4e-308, "2.2250738585072014e-308"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (-12_345_678_901_234_567_000.0, "-1.2345678901234567e+19"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (123_456_789.125, "123456789.125"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_double(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = text(value);
            prop_assert!(text.len() <= 24);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
