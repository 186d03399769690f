//! Converts Python's JSON with bare `NaN`, `Infinity` and `-Infinity` to JSON, by quoting them.
//!
//! The caller has to interpret such texts where numbers are expected.

use std::borrow::Cow;

const WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The converted document; borrowed if nothing had to be quoted.
pub(crate) fn quoted(body: &[u8]) -> Cow<'_, [u8]> {
    let mut out: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while at < body.len() {
        if body[at] == b'"' {
            at = end_of_string(body, at);
            continue;
        }
        let Some(word) = WORDS.iter().find(|word| body[at..].starts_with(word)) else {
            at += 1;
            continue;
        };
        let out = out.get_or_insert_default();
        out.extend_from_slice(&body[copied..at]);
        out.push(b'"');
        out.extend_from_slice(word);
        out.push(b'"');
        at += word.len();
        copied = at;
    }
    match out {
        None => Cow::Borrowed(body),
        Some(mut out) => {
            out.extend_from_slice(&body[copied..]);
            Cow::Owned(out)
        }
    }
}

/// The end of the string that begins at `start`; the document's end if it is not closed.
fn end_of_string(body: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < body.len() {
        match body[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_outside_of_strings_is_put_in_quotes() {
        for (text, expected) in [
            ("[]", "[]"),
            (r#"{"NaN": "a\"NaN", "b": [1, NaN]}"#, r#"{"NaN": "a\"NaN", "b": [1, "NaN"]}"#),
            ("[Infinity,-Infinity,-1]", r#"["Infinity","-Infinity",-1]"#),
            (r#"["never ends NaN"#, r#"["never ends NaN"#),
            (r#"["\"#, r#"["\"#),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&quoted(text.as_bytes())), expected, "{text}");
        }
    }
}
