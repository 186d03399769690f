//! `repr()` of a text, and ids as `uuid.UUID` reads them.

use uuid::Uuid;

/// Python's `repr` of a string; characters outside ASCII are taken as printable.
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
