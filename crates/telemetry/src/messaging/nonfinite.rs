//! Replaces numbers that Python's `json` accepts and `serde_json` refuses: `NaN`, `Infinity` and `-Infinity`,
//! and numbers beyond the range of floats.
//!
//! Each becomes the text that Python's `str` gives for the number that Python reads: `1e999` is infinite, and
//! integers keep all digits. Readers of numbers accept these texts, too, as Python's `float` does.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::unescape::next_special;

/// How Python's `json` writes them, and the texts that they become.
const NONFINITE: [(&str, &str); 3] = [("NaN", "\"nan\""), ("Infinity", "\"inf\""), ("-Infinity", "\"-inf\"")];

/// Python refuses integers of more digits.
pub const INTEGER_DIGITS_MAX: usize = 4300;

/// The document with texts for these numbers; borrowed if it has none. All else is left to the parser.
pub fn nonfinite_as_texts(document: &str) -> Cow<'_, str> {
    let bytes = document.as_bytes();
    if !document.contains("NaN") && !document.contains("Infinity") && !may_be_beyond_floats(bytes) {
        return Cow::Borrowed(document);
    }
    let mut out = String::new();
    // The offsets up to which the document is copied, and up to which it is read.
    let (mut copied, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        let (length, text) = match byte {
            b'"' => (text_length(&document[at..]), None),
            b'N' | b'I' | b'-' | b'0'..=b'9' => number(&document[at..]),
            _ => (1, None),
        };
        if let Some(text) = text.filter(|_| !is_before_colon(&document[at + length..])) {
            out.push_str(&document[copied..at]);
            out.push_str(&text);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(document);
    }
    out.push_str(&document[copied..]);
    Cow::Owned(out)
}

/// The length in bytes of what begins like a number, at least one, and the text that replaces it, if any.
fn number(here: &str) -> (usize, Option<Cow<'static, str>>) {
    if let Some(&(number, text)) = NONFINITE.iter().find(|(number, _)| here.starts_with(*number)) {
        return (number.len(), Some(Cow::Borrowed(text)));
    }
    let is_of_number = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let length = here.bytes().position(|byte| !is_of_number(byte)).unwrap_or(here.len());
    (length.max(1), beyond_floats(&here[..length]))
}

/// The text that replaces a number beyond the range of floats; `None` for other numbers, and for what is no number.
fn beyond_floats(number: &str) -> Option<Cow<'static, str>> {
    let is_beyond = may_be_beyond_floats(number.as_bytes())
        && serde_json::from_str::<IgnoredAny>(number).is_ok()
        && serde_json::from_str::<f64>(number).is_err();
    if !is_beyond {
        return None;
    }
    if number.contains(['.', 'e', 'E']) {
        return Some(Cow::Borrowed(if number.starts_with('-') { "\"-inf\"" } else { "\"inf\"" }));
    }
    let digits = number.trim_start_matches('-').len();
    (digits <= INTEGER_DIGITS_MAX).then(|| Cow::Owned(format!("\"{number}\"")))
}

/// Whether these bytes may contain a number beyond the range of floats. Such a number has an exponent of three digits,
/// or so many digits that at least one chunk of 64 bytes consists of digits only.
fn may_be_beyond_floats(bytes: &[u8]) -> bool {
    let is_exponent = |window: &[u8]| {
        matches!(window, [b'0'..=b'9', b'e' | b'E', b'0'..=b'9' | b'+', b'0'..=b'9', b'0'..=b'9'])
    };
    bytes.windows(5).any(is_exponent)
        || bytes.chunks_exact(64).any(|chunk| chunk.iter().all(u8::is_ascii_digit))
}

/// Whether what precedes `after` is a key of an object. It stays unchanged, since keys must be texts.
fn is_before_colon(after: &str) -> bool {
    after.trim_ascii_start().starts_with(':')
}

/// The length in bytes of the JSON text that begins with this quote, both quotes included; of the rest if the text does
/// not end.
fn text_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(special) = next_special(bytes, at) {
        at = match bytes[special] {
            b'"' => return special + 1,
            // The next character is escaped.
            b'\\' => special + 2,
            _ => special + 1,
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn numbers_that_json_lacks_become_texts() {
        for (document, expected) in [
            ("NaN", json!("nan")),
            (" -Infinity ", json!("-inf")),
            (
                r#"{"a": [NaN,Infinity, -Infinity], "b":NaN}"#,
                json!({"a": ["nan", "inf", "-inf"], "b": "nan"}),
            ),
            (r#"{"NaN": "a NaN \" NaN \\", "x": NaN}"#, json!({"NaN": "a NaN \" NaN \\", "x": "nan"})),
            (r#"["é\u00e9", -1, Infinity]"#, json!(["éé", -1, "inf"])),
            (
                r#"{"1e999": 1e999, "b": ["-1e999",-1.5E+400]}"#,
                json!({"1e999": "inf", "b": ["-1e999", "-inf"]}),
            ),
            ("1e9999999999999999999 ", json!("inf")),
        ] {
            let read: Value = serde_json::from_str(&nonfinite_as_texts(document)).unwrap();
            assert_eq!(read, expected, "{document}");
        }
        for digits in ["9".repeat(400), format!("-{}", "9".repeat(400))] {
            let read: Value = serde_json::from_str(&nonfinite_as_texts(&format!("[{digits}]"))).unwrap();
            assert_eq!(read, json!([digits]));
        }
        let many = format!("[{}, 1e308, 1e-999, 1e+100]", "9".repeat(300));
        for document in [r#"{"a": [-1, "N"]}"#, &many, r#""3e999""#] {
            assert!(matches!(nonfinite_as_texts(document), Cow::Borrowed(_)), "{document}");
        }
    }

    #[test]
    fn what_python_refuses_stays_invalid() {
        let numbers = ["-NaN", "nan", "inf", "+Infinity", "1NaN", "NaN1", "[NaN NaN]"];
        let others = ["{NaN: 1}", "{Infinity :1}", "\"NaN", "\"NaN\\"];
        let long = "1".repeat(INTEGER_DIGITS_MAX + 1);
        let beyond = ["{1e999: 1}", "01e999", "1e999x", "--1e999", "1.e999", "1e999 1e999", &long];
        for document in numbers.into_iter().chain(others).chain(beyond) {
            let read = serde_json::from_str::<Value>(&nonfinite_as_texts(document));
            assert!(read.is_err(), "{document}");
        }
    }

    proptest! {
        #[test]
        fn documents_without_them_stay_as_they_are(text in r#"[NaInfity0-9eE+."\\:, é-]{0,30}"#) {
            let document = json!([text, { "key": text }]).to_string();
            prop_assert_eq!(&*nonfinite_as_texts(&document), &document);
            // Nor does any text cause a panic.
            nonfinite_as_texts(&text);
        }
    }
}
