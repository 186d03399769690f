//! Prometheus' escaping of names that do not match `[a-zA-Z_:][a-zA-Z0-9_:]*` (value encoding): the prefix `U__`, each
//! invalid character as its hexadecimal code point between underscores, and each underscore doubled.

use std::fmt::Write;

const PREFIX: &str = "U__";

/// The maximum number of digits of a code point.
const DIGITS_MAX: usize = 6;

/// Whether a name is valid without escaping: `[a-zA-Z_:][a-zA-Z0-9_:]*`.
pub fn is_plain(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Unescapes a name. Returns it unchanged if it is not an escaped name.
pub fn unescape(name: &str) -> String {
    unescaped(name).unwrap_or_else(|| name.to_owned())
}

fn unescaped(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix(PREFIX)?;
    let mut out = String::with_capacity(rest.len());
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character != '_' {
            out.push(character);
        } else if let Some(after) = rest.strip_prefix('_') {
            out.push('_');
            rest = after;
        } else {
            let (digits, after) = rest.split_once('_')?;
            if digits.is_empty() || digits.len() > DIGITS_MAX || digits.starts_with('+') {
                return None;
            }
            out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
            rest = after;
        }
    }
    Some(out)
}

/// Escapes a name. Returns it unchanged if it is valid without escaping.
pub fn escape(name: &str) -> String {
    if is_plain(name) {
        return name.to_owned();
    }
    let mut out = PREFIX.to_owned();
    for (at, character) in name.chars().enumerate() {
        match character {
            '_' => out.push_str("__"),
            _ if character.is_ascii_alphabetic() || character == ':' => out.push(character),
            _ if character.is_ascii_digit() && at > 0 => out.push(character),
            _ => write!(out, "_{:x}_", u32::from(character)).expect("a String takes it"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_escaped_as_prometheus_does() {
        assert_eq!(unescape("U__http_2e_status"), "http.status");
        assert_eq!(unescape("U__my__label"), "my_label");
        assert_eq!(escape("http.status_code"), "U__http_2e_status__code");
        for name in ["job", "U__", "U__x_", "U__x_zz_", "U__x_110000_", "U__x_d800_", "U__x_1234567_"] {
            let expected = if name == "U__" { "" } else { name };
            assert_eq!(unescape(name), expected);
        }
    }

    proptest! {
        #[test]
        fn escaped_names_unescape_to_the_same(name in "[^U]\\PC*") {
            prop_assert!(is_plain(&escape(&name)));
            prop_assert_eq!(unescape(&escape(&name)), name);
        }
    }
}
