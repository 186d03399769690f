//! `repr()` of a text, oslo's booleans, and ids in the forms of `uuid.UUID`.

use uuid::Uuid;

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
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// `uuid.UUID(text)`: a UUID with or without hyphens, braces and `urn:uuid:`.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if let Ok(id) = Uuid::try_parse(text) {
        return Some(id);
    }
    let hex = text.replace("urn:", "").replace("uuid:", "");
    let hex = hex.trim_matches(['{', '}']).replace('-', "");
    (hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| Uuid::try_parse(&hex).ok())
        .flatten()
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
        for text in ["", "foo", &id[1..], "g".repeat(32).as_str(), "+5dfe182a51d24122b90bdf0f215b736"] {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }
}
