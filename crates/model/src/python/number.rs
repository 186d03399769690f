//! `float()`, `int()` and `str()` of numbers.

/// `float(text)`: surrounding whitespace, underscores between digits, `inf`, `infinity` and `nan` in any case; `None`
/// if Python raises.
pub fn float_of_text(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim_matches(is_space))?;
    // Rust accepts the same forms after that; it has no hexadecimal either.
    text.parse().ok()
}

/// `int(text)`; `None` if Python raises or the number does not fit an `i128`.
pub fn int_of_text(text: &str) -> Option<i128> {
    without_underscores(text.trim_matches(is_space))?.parse().ok()
}

/// `int(number)`; `None` if Python raises, or from 1.7e38 on: an `i128` holds little more.
pub fn int_of_float(number: f64) -> Option<i128> {
    (number.abs() < 1.7e38).then_some(number.trunc() as i128)
}

/// `str(number)`.
pub fn text_of_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    // Rust prints the same digits as Python, and exponents for the same numbers. Python's exponents have a sign and at
    // least two digits.
    let text = format!("{number:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text,
    }
}

/// The whitespace of `str.strip()`: Unicode's, and the separators U+001C to U+001F.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// The text without its underscores; `None` if one of them is not between digits.
fn without_underscores(text: &str) -> Option<String> {
    if !text.contains('_') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let between_digits = |at: usize| {
        at > 0 && bytes[at - 1].is_ascii_digit() && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
    };
    let is_valid = bytes.iter().enumerate().all(|(at, byte)| *byte != b'_' || between_digits(at));
    is_valid.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_python_prints_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e100, "1.5e+100"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1.5e-9, "1.5e-09"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text_of_float(number), text);
        }
    }
}
