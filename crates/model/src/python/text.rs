//! `repr()` of a text, oslo's booleans, and ids in the forms of `uuid.UUID`.

use uuid::Uuid;

use super::number::with_ascii_digits;

/// Python's `repr` of a string; characters outside ASCII count as printable.
pub fn repr_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                out.extend(["\\x", &format!("{:02x}", u32::from(character))]);
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
}

/// oslo.utils' `bool_from_string(text, strict=True)`; `None` if it raises.
pub fn bool_of_text(text: &str) -> Option<bool> {
    match text.trim_matches(is_space).to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// The whitespace of `str.strip()`: Unicode's, and the separators U+001C to U+001F.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// `uuid.UUID(text)`: a UUID with or without hyphens, braces and `urn:uuid:`, or else 32 characters that `int(text, 16)`
/// accepts.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if let Ok(id) = Uuid::try_parse(text) {
        return Some(id);
    }
    let hex = text.replace("urn:", "").replace("uuid:", "");
    let hex = hex.trim_matches(['{', '}']).replace('-', "");
    if hex.chars().count() == 32 { hexadecimal(&hex).map(Uuid::from_u128) } else { None }
}

/// `int(text, 16)` of a text without hyphens; `None` if Python raises or the number does not fit.
fn hexadecimal(text: &str) -> Option<u128> {
    let text = with_ascii_digits(text.trim());
    let unsigned = text.strip_prefix('+').unwrap_or(&text);
    let digits = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(behind) => behind.strip_prefix('_').unwrap_or(behind),
        None => unsigned,
    };
    // A single underscore may separate two digits.
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits.split('_').all(is_digits) {
        u128::from_str_radix(&digits.replace('_', ""), 16).ok()
    } else {
        None
    }
}

/// `str.expandtabs()`.
pub fn expand_tabs(text: &str) -> String {
    const TAB_COLUMNS: usize = 8;
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for character in text.chars() {
        match character {
            '\t' => {
                let blanks = TAB_COLUMNS - column % TAB_COLUMNS;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            '\n' | '\r' => {
                out.push(character);
                column = 0;
            }
            _ => {
                out.push(character);
                column += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_taken_between_pythons_blanks() {
        assert_eq!(bool_of_text("\u{2003}True\x1c"), Some(true));
        assert_eq!(bool_of_text(" n\n"), Some(false));
        assert_eq!(bool_of_text(""), None);
    }

    #[test]
    fn ids_are_taken_in_pythons_forms() {
        let id = "5dfe182a-51d2-4122-b90b-df0f215b736e";
        let expected = Some(Uuid::try_parse(id).unwrap());
        for text in [
            id.to_owned(),
            id.to_uppercase(),
            id.replace('-', ""),
            format!("{{{id}}}"),
            format!("urn:uuid:{id}"),
            format!("uuid:{id}"),
            "5d-fe182a51d24122b90bdf0f215b736e-".to_owned(),
        ] {
            assert_eq!(parse_uuid(&text), expected, "{text}");
        }
        // Python's results.
        for (text, id) in [
            ("+5dfe182a51d24122b90bdf0f215b736", "05dfe182-a51d-2412-2b90-bdf0f215b736"),
            ("0x5dfe182a51d24122b90bdf0f215b73", "005dfe18-2a51-d241-22b9-0bdf0f215b73"),
            ("0X_dfe182a51d24122b90bdf0f215b73", "000dfe18-2a51-d241-22b9-0bdf0f215b73"),
            ("5dfe182a_51d2_4122_b90b_df0f215b", "00005dfe-182a-51d2-4122-b90bdf0f215b"),
            (" 5dfe182a51d24122b90bdf0f215b73\u{3000}", "005dfe18-2a51-d241-22b9-0bdf0f215b73"),
            (&"\u{665}".repeat(32), "55555555-5555-5555-5555-555555555555"),
        ] {
            assert_eq!(parse_uuid(text), Some(Uuid::try_parse(id).unwrap()), "{text}");
        }
        for text in [
            "",
            "foo",
            &id[1..],
            &"g".repeat(32),
            &"_".repeat(32),
            &" ".repeat(32),
            "5dfe182a51d24122b90bdf0f215b736_",
            "_5dfe182a51d24122b90bdf0f215b736",
            "5dfe__2a51d24122b90bdf0f215b736e",
            "0x__fe182a51d24122b90bdf0f215b73",
            "++dfe182a51d24122b90bdf0f215b736",
            "5dfe 82a51d24122b90bdf0f215b736e",
            "\x1fdfe182a51d24122b90bdf0f215b736e",
            "\u{e9}dfe182a51d24122b90bdf0f215b736e",
        ] {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }
}
