//! Quotes texts like Go's `%q`, which is valid in the language.

use std::fmt::Write;

/// A text in quotes, with Go's escapes.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\x0c' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\x0b' => write!(quoted, "\\v"),
            ' '..='~' => write!(quoted, "{c}"),
            '\0'..='\x7f' => write!(quoted, "\\x{code:02x}"),
            _ if is_printable(c) => write!(quoted, "{c}"),
            _ if code < 0x10000 => write!(quoted, "\\u{code:04x}"),
            _ => write!(quoted, "\\U{code:08x}"),
        };
    }
    quoted.push('"');
    quoted
}

/// Whether a character beyond ASCII is printable. Combining marks at the beginning of a text would be escaped.
fn is_printable(c: char) -> bool {
    ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_in_go() {
        for (text, expected) in [
            ("a b", r#""a b""#),
            ("\"\\\n\t\0\x7f", r#""\"\\\n\t\x00\x7f""#),
            ("süd 温度", r#""süd 温度""#),
            ("\u{301}", "\"\u{301}\""),
            ("\u{200b}\u{e0001}", r#""\u200b\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
