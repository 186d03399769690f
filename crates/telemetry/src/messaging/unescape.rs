//! Unescapes a JSON text inside a JSON text: one pass over every message in the 2.0 envelope.
//!
//! Runs without backslashes are copied as they are. It validates only what is needed for the result to be a valid text.

/// Unescapes the text that begins after the opening quote, at `text[0]`. Returns it and the bytes consumed, closing
/// quote included. `None` if it is not a valid JSON text.
pub fn unescape(text: &str) -> Option<(String, usize)> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(bytes.len());
    let mut run = 0;
    let mut at = 0;
    loop {
        at = next_special(bytes, at)?;
        match bytes[at] {
            b'"' => {
                out.push_str(&text[run..at]);
                return Some((out, at + 1));
            }
            b'\\' => {
                out.push_str(&text[run..at]);
                at += 2;
                match *bytes.get(at - 1)? {
                    // By far the most frequent.
                    b'"' => out.push('"'),
                    b'\\' => out.push('\\'),
                    b'/' => out.push('/'),
                    b'n' => out.push('\n'),
                    b't' => out.push('\t'),
                    b'r' => out.push('\r'),
                    b'b' => out.push('\u{8}'),
                    b'f' => out.push('\u{c}'),
                    b'u' => at += push_unicode(bytes, at, &mut out)?,
                    _ => return None,
                }
                run = at;
            }
            // Control characters must be escaped.
            _ => return None,
        }
    }
}

/// The offset of the next quote, backslash or control character; checks eight bytes at a time.
pub fn next_special(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\'))) | controls;
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).map(|index| at + index)
}

/// Decodes what follows `\u`, with the second surrogate of a pair. Returns the bytes consumed.
fn push_unicode(bytes: &[u8], at: usize, out: &mut String) -> Option<usize> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(at)?;
    if !(0xD800..0xE000).contains(&first) {
        out.push(char::from_u32(first)?);
        return Some(4);
    }
    let second = unit(at + 6)
        .filter(|second| bytes.get(at + 4..at + 6) == Some(b"\\u") && (0xDC00..0xE000).contains(second))?;
    let is_first = (0xD800..0xDC00).contains(&first);
    out.push(char::from_u32(0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF)).filter(|_| is_first)?);
    Some(10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `serde_json`'s result, for comparison.
    fn reference(text: &str) -> Option<(String, usize)> {
        let whole = format!("\"{text}");
        let mut values = serde_json::Deserializer::from_str(&whole).into_iter::<String>();
        let value = values.next()?.ok()?;
        Some((value, values.byte_offset() - 1))
    }

    #[test]
    fn texts_are_taken_out() {
        for text in [
            "\"",
            "abc\" rest",
            "{\\\"a\\\": \\\"b\\\\\\\"c\\\\n\\\"}\",",
            "\\u00e9\\ud83d\\ude00é\"",
            "\\u0000\"",
            "",
            "abc",
            "\\",
            "\\x\"",
            "\\u12\"",
            "\\ud83d\"",
            "\\ud83d\\u0041\"",
            "\\ude00\\ud83d\"",
            "a\nb\"",
            "a\u{7f}b\"",
            "12345678\"",
            "1234567\\\"9\"",
            "\\/\\b\\f\\r\\t\\n\"",
        ] {
            assert_eq!(unescape(text), reference(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_come_back_as_they_went_in(text in any::<String>(), rest in any::<String>()) {
            let quoted = serde_json::to_string(&text).unwrap();
            let length = quoted.len() - 1;
            prop_assert_eq!(unescape(&format!("{}{rest}", &quoted[1..])), Some((text, length)));
        }

        #[test]
        fn any_text_is_read_as_serde_json_reads_it(text in r#"[a-d"\\/bfnrtu0-9dDeE \x00-\x21é]{0,40}"#) {
            prop_assert_eq!(unescape(&text), reference(&text));
        }
    }
}
