//! `float()`, `int()` and `str()` of numbers.

use std::borrow::Cow;

/// `float(text)`: surrounding whitespace, underscores between digits, digits of any script, `inf`, `infinity` and `nan`
/// in any case; `None` if Python raises. The whitespace is Unicode's: unlike `str.strip()`, without U+001C to U+001F.
pub fn float_of_text(text: &str) -> Option<f64> {
    let digits = with_ascii_digits(text.trim());
    // Rust accepts the same forms after that; it has no hexadecimal either.
    without_underscores(&digits)?.parse().ok()
}

/// `int(text)`; `None` if Python raises or the number does not fit an `i128`.
pub fn int_of_text(text: &str) -> Option<i128> {
    let digits = with_ascii_digits(text.trim());
    without_underscores(&digits)?.parse().ok()
}

/// The text with ASCII's digits in place of those of other scripts.
pub(crate) fn with_ascii_digits(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| ascii_digit(character).unwrap_or(character)).collect())
}

/// The digit that a decimal digit of any script means.
fn ascii_digit(character: char) -> Option<char> {
    let zero = ZEROS.chars().take_while(|zero| *zero <= character).last()?;
    char::from_digit(u32::from(character) - u32::from(zero), 10)
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

/// Unicode's decimal digits (category Nd of Unicode 14, Python 3.11): the zero of each script, which the other nine
/// follow.
const ZEROS: &str = "\
    \u{30}\u{660}\u{6f0}\u{7c0}\u{966}\u{9e6}\u{a66}\u{ae6}\u{b66}\u{be6}\u{c66}\u{ce6}\u{d66}\u{de6}\
    \u{e50}\u{ed0}\u{f20}\u{1040}\u{1090}\u{17e0}\u{1810}\u{1946}\u{19d0}\u{1a80}\u{1a90}\u{1b50}\
    \u{1bb0}\u{1c40}\u{1c50}\u{a620}\u{a8d0}\u{a900}\u{a9d0}\u{a9f0}\u{aa50}\u{abf0}\u{ff10}\u{104a0}\
    \u{10d30}\u{11066}\u{110f0}\u{11136}\u{111d0}\u{112f0}\u{11450}\u{114d0}\u{11650}\u{116c0}\u{11730}\
    \u{118e0}\u{11950}\u{11c50}\u{11d50}\u{11da0}\u{16a60}\u{16ac0}\u{16b50}\u{1d7ce}\u{1d7d8}\u{1d7e2}\
    \u{1d7ec}\u{1d7f6}\u{1e140}\u{1e2f0}\u{1e950}\u{1fbf0}";

/// The text without its underscores; `None` if one of them is not between digits.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let between_digits = |at: usize| {
        at > 0 && bytes[at - 1].is_ascii_digit() && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
    };
    let is_valid = bytes.iter().enumerate().all(|(at, byte)| *byte != b'_' || between_digits(at));
    is_valid.then(|| Cow::Owned(text.replace('_', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_any_script_are_digits() {
        for (text, expected) in [
            ("\u{663}", Some(3.0)),
            ("-1\u{663}_\u{6f5}.5e\u{661}", Some(-1355.0)),
            ("\u{3000}\u{ff11}\u{ff12}\n", Some(12.0)),
            ("\u{1d7ff}", Some(9.0)),
            ("\u{1fbf9}", Some(9.0)),
            // Neither a superscript nor an Arabic decimal separator.
            ("\u{b2}", None),
            ("\u{663}\u{66b}\u{665}", None),
            ("\u{66a}", None),
            ("\u{1fbfa}", None),
            ("\u{a0}1\x0b", Some(1.0)),
            ("\x1f1", None),
            ("\u{a0}1\x1c", None),
        ] {
            assert_eq!(float_of_text(text), expected, "{text}");
        }
        assert_eq!(int_of_text("\u{663}_\u{661}"), Some(31));
        assert_eq!((int_of_text("\u{a0}1\n"), int_of_text("1\x1f")), (Some(1), None));
        assert!(ZEROS.chars().is_sorted());
        for zero in ZEROS.chars() {
            assert_eq!((ascii_digit(zero), zero.is_numeric()), (Some('0'), true), "{zero:?}");
        }
    }

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
