//! `NaN`, `Infinity` and `-Infinity`: Python's `json` writes and reads them, and JSON has no such numbers.
//!
//! They become the texts that Python's `str` gives for them. What expects a number takes these texts, too, as Python's
//! `float` does.

use std::borrow::Cow;

/// How Python's `json` writes them, and the texts that they become.
const NONFINITE: [(&str, &str); 3] = [("NaN", "\"nan\""), ("Infinity", "\"inf\""), ("-Infinity", "\"-inf\"")];

/// The document with texts for these numbers; borrowed if it has none. All else is left to the parser.
pub fn nonfinite_as_texts(document: &str) -> Cow<'_, str> {
    if !document.contains("NaN") && !document.contains("Infinity") {
        return Cow::Borrowed(document);
    }
    let mut out = String::with_capacity(document.len());
    let mut rest = document;
    while let Some(place) = rest.find(['"', 'N', 'I', '-']) {
        let (before, here) = rest.split_at(place);
        out.push_str(before);
        let found = NONFINITE.iter().find_map(|(number, text)| Some((here.strip_prefix(*number)?, *text)));
        rest = if let Some((after, text)) = found.filter(|(after, _)| !is_before_colon(after)) {
            out.push_str(text);
            after
        } else {
            let length = if here.starts_with('"') { text_length(here) } else { 1 };
            let (kept, after) = here.split_at(length);
            out.push_str(kept);
            after
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether a key ends here: keys are texts.
fn is_before_colon(after: &str) -> bool {
    after.trim_ascii_start().starts_with(':')
}

/// Bytes of the text that begins with this quote, both quotes included; all of them if it does not end.
fn text_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            // The next character is escaped.
            b'\\' => 2,
            _ => 1,
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
        ] {
            let read: Value = serde_json::from_str(&nonfinite_as_texts(document)).unwrap();
            assert_eq!(read, expected, "{document}");
        }
        assert!(matches!(nonfinite_as_texts(r#"{"a": [-1, "N"]}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn what_python_refuses_stays_invalid() {
        let numbers = ["-NaN", "nan", "inf", "+Infinity", "1NaN", "NaN1", "[NaN NaN]"];
        let others = ["{NaN: 1}", "{Infinity :1}", "\"NaN", "\"NaN\\"];
        for document in numbers.into_iter().chain(others) {
            let read = serde_json::from_str::<Value>(&nonfinite_as_texts(document));
            assert!(read.is_err(), "{document}");
        }
    }

    proptest! {
        #[test]
        fn documents_without_them_stay_as_they_are(text in r#"[NaInfity"\\:, é-]{0,30}"#) {
            let document = json!([text, { "key": text }]).to_string();
            prop_assert_eq!(&*nonfinite_as_texts(&document), &document);
            // Nor does any text cause a panic.
            nonfinite_as_texts(&text);
        }
    }
}
