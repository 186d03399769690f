//! Halves of surrogate pairs (`\ud800` alone): Python's `json` writes and reads them, and UTF-8 has no such characters.
//!
//! They become U+FFFD, the replacement character. All else of the document is kept.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use super::json_of_python;

/// Bytes of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = 6;

/// The document without halves of surrogate pairs; borrowed if it has none.
pub fn halves_replaced(document: &str) -> Cow<'_, str> {
    if !document.contains("\\ud") && !document.contains("\\uD") {
        return Cow::Borrowed(document);
    }
    let bytes = document.as_bytes();
    let mut out = String::new();
    // The end of what has been copied.
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let place = at + found;
        at = match (unit(bytes, place), unit(bytes, place + ESCAPE_BYTES)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => place + 2 * ESCAPE_BYTES,
            (Some(0xD800..=0xDFFF), _) => {
                out.push_str(&document[copied..place]);
                out.push_str("\\ufffd");
                copied = place + ESCAPE_BYTES;
                copied
            }
            // The next character is escaped.
            _ => place + 2,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(document);
    }
    out.push_str(&document[copied..]);
    Cow::Owned(out)
}

/// The UTF-16 code unit of the escape at this place, if there is one.
fn unit(bytes: &[u8], place: usize) -> Option<u32> {
    let digits = bytes.get(place..place + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    let value = |all: u32, digit: &u8| Some(all << 4 | char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, value)
}

/// Parses a response that Python may have written, with numbers that JSON lacks, too: they become texts.
pub fn parse<T: DeserializeOwned>(document: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(document).or_else(|error| {
        match std::str::from_utf8(document).map(json_of_python) {
            Ok(Cow::Owned(whole)) => serde_json::from_str(&whole),
            _ => Err(error),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn halves_become_the_replacement_character() {
        for (document, expected) in [
            (r#"["\ud800", "a\uDFFFb", 1]"#, json!(["\u{fffd}", "a\u{fffd}b", 1])),
            (r#"{"\ud83dé": "\ud83d\ude00"}"#, json!({"\u{fffd}é": "😀"})),
            (r#""\ude00\ud83d""#, json!("\u{fffd}\u{fffd}")),
            (r#""\ud83d\ud83d\ude00\ude00""#, json!("\u{fffd}😀\u{fffd}")),
            (r#""\ud83d\u0041\ud83d\\ude00""#, json!("\u{fffd}A\u{fffd}\\ude00")),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&halves_replaced(document)).unwrap(), expected);
            assert_eq!(parse::<Value>(document.as_bytes()).unwrap(), expected, "{document}");
        }
        for whole in [r#""\\ud800""#, r#""\ud83d\ude00""#, r#""\\\\uDC00""#, "\\ud8", "\\udxyz", "\\é\\ud"] {
            assert!(matches!(halves_replaced(whole), Cow::Borrowed(_)), "{whole}");
        }
    }

    #[test]
    fn numbers_that_json_lacks_cost_a_response_nothing_else() {
        let document = br#"{"a": [NaN, -Infinity], "b": 1e999, "c": "\ud800 NaN", "d": 1}"#;
        let expected = json!({"a": ["nan", "-inf"], "b": "inf", "c": "\u{fffd} NaN", "d": 1});
        assert_eq!(parse::<Value>(document).unwrap(), expected);
        assert!(parse::<Value>(b"[nan]").is_err());
    }

    proptest! {
        #[test]
        fn all_else_stays_as_it_is(text in any::<String>(), document in r#"[\\"ud8cDC0é]{0,30}"#) {
            let whole = json!([text, { "key": text }]).to_string();
            prop_assert_eq!(&*halves_replaced(&whole), &whole);
            // Nor does any text cause a panic.
            halves_replaced(&document);
        }
    }
}
