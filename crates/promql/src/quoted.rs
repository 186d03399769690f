//! Prints texts and characters like Go's `%q`, which is valid in the language, and `%#U`.

use std::fmt::{self, Write};

/// A text in quotes, with Go's escapes.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = escape(c, '"', &mut quoted);
    }
    quoted.push('"');
    quoted
}

/// A character in quotes, with Go's escapes.
pub(crate) fn quoted_char(c: char) -> String {
    let mut quoted = String::from("'");
    let _ = escape(c, '\'', &mut quoted);
    quoted.push('\'');
    quoted
}

/// A character's number; behind it the character, if it is printable.
pub(crate) fn code_point(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    if is_printable(c) { format!("{code} '{c}'") } else { code }
}

fn escape(c: char, quote: char, out: &mut String) -> fmt::Result {
    let code = u32::from(c);
    match c {
        _ if c == quote || c == '\\' => write!(out, "\\{c}"),
        '\x07' => out.write_str("\\a"),
        '\x08' => out.write_str("\\b"),
        '\x0c' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\x0b' => out.write_str("\\v"),
        _ if is_printable(c) => out.write_char(c),
        '\0'..='\x7f' => write!(out, "\\x{code:02x}"),
        _ if code < 0x10000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    }
}

/// Whether Go prints a character as it is. Combining marks at the beginning of a text would be escaped.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
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

    #[test]
    fn characters_are_quoted_as_in_go() {
        for (c, expected) in [
            ('a', "'a'"),
            ('\'', r"'\''"),
            ('"', "'\"'"),
            ('\x01', r"'\x01'"),
            ('\0', r"'\x00'"),
            ('\u{301}', "'\u{301}'"),
            ('\u{200b}', r"'\u200b'"),
        ] {
            assert_eq!(quoted_char(c), expected);
        }
        assert_eq!((code_point('g').as_str(), code_point('\n').as_str()), ("U+0067 'g'", "U+000A"));
    }
}
