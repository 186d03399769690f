//! Percent-encoding like Python's `urllib.parse`.

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// `quote(text, safe)`: leaves letters, digits, `_.-~` and the characters of `safe`, which are ASCII.
pub fn quote(text: &str, safe: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || safe.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let digit = |half: u8| char::from(HEX_DIGITS[usize::from(half)]);
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// `quote_plus(text)`, for names and values of a query string.
pub fn quote_plus(text: &str) -> String {
    quote(text, " ").replace(' ', "+")
}

/// `unquote_to_bytes(text)`: invalid escapes stay as they are.
pub fn unquote(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let decoded = if bytes[at] == b'%' { escaped(&bytes[at + 1..]) } else { None };
        out.push(decoded.unwrap_or(bytes[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    out
}

/// `unquote_plus(text)`; invalid UTF-8 becomes replacement characters.
pub fn unquote_plus(text: &str) -> String {
    String::from_utf8_lossy(&unquote(&text.replace('+', " "))).into_owned()
}

/// [`unquote`], but `None` if a `%` does not begin a valid escape.
pub fn unquote_strict(text: &str) -> Option<Vec<u8>> {
    let mut escapes = text.as_bytes().split(|byte| *byte == b'%').skip(1);
    escapes.all(|behind| escaped(behind).is_some()).then(|| unquote(text))
}

/// What need not be encoded in a path besides letters, digits and `_.-~`; `%` begins escapes.
const PATH_SAFE: &str = "!$&'()*+,;=:@/%";
/// The same in a query.
const QUERY_SAFE: &str = "!$&'()*+,;=:@/?%";

/// A URL as `requests` sends it: without spaces around it, dot segments and a fragment, and with other characters than
/// those of URLs encoded.
pub fn request_url(url: &str) -> String {
    let url: String = url.trim().chars().filter(|letter| !matches!(letter, '\t' | '\r' | '\n')).collect();
    let url = url.split('#').next().unwrap_or_default();
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let host_at = place.find("://").map_or(0, |scheme| scheme + 3);
    let path_at = place[host_at..].find('/').map_or(place.len(), |slash| host_at + slash);
    let (host, path) = place.split_at(path_at);
    let mut sent = format!("{host}{}", component(&without_dot_segments(path), PATH_SAFE));
    if let Some(query) = query {
        sent.push('?');
        sent += &component(query, QUERY_SAFE);
    }
    sent
}

/// If a `%` begins no escape, none does, and all are encoded.
fn component(text: &str, safe: &str) -> String {
    let is_escaped = unquote_strict(text).is_some();
    quote(text, if is_escaped { safe } else { safe.trim_end_matches('%') })
}

fn without_dot_segments(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    if path.starts_with('/') && kept.first().is_none_or(|first| !first.is_empty()) {
        kept.insert(0, "");
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    kept.join("/")
}

/// The byte of two hexadecimal digits at the start.
fn escaped(behind: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_pythons() {
        assert_eq!(quote("/archive_policy/a b:é~", "/"), "/archive_policy/a%20b%3A%C3%A9~");
        assert_eq!(quote("a/b ?é", ""), "a%2Fb%20%3F%C3%A9");
        assert_eq!(quote_plus("name:asc x/y+z"), "name%3Aasc+x%2Fy%2Bz");
    }

    #[test]
    fn unquoting_leaves_what_is_no_escape() {
        for (text, expected) in [
            ("", ""),
            ("a%20b+c", "a b+c"),
            ("%2f%2F%C3%A9", "//é"),
            ("%zz%4%", "%zz%4%"),
            ("%%41", "%A"),
            ("%+f", "%+f"),
        ] {
            assert_eq!(unquote(text), expected.as_bytes(), "{text}");
        }
        assert_eq!(unquote("%ff"), [0xff]);
        assert_eq!(unquote_plus("a+b%2B%ff"), "a b+\u{fffd}");
    }

    #[test]
    fn urls_are_sent_as_by_requests() {
        for (url, sent) in [
            ("http://a:1", "http://a:1"),
            ("http://a:1/v1/x?y=z", "http://a:1/v1/x?y=z"),
            ("http://a/v3/p/../x/./y?z=../q", "http://a/v3/x/y?z=../q"),
            ("http://a/v1/../../x", "http://a/x"),
            ("http://a/v1/x/..", "http://a/v1/"),
            ("http://a/x y/é?n=a b&m=\"<", "http://a/x%20y/%C3%A9?n=a%20b&m=%22%3C"),
            ("http://a/x%20y?z=%zz", "http://a/x%20y?z=%25zz"),
            ("http://a/x?z=100%&y=%20", "http://a/x?z=100%25&y=%2520"),
            ("http://a/x?a=[1]&b={c}|d^e`", "http://a/x?a=%5B1%5D&b=%7Bc%7D%7Cd%5Ee%60"),
            (" http://a/x\n", "http://a/x"),
            ("http://a/x?y#z", "http://a/x?y"),
            ("http://a?x=/../y", "http://a?x=/../y"),
        ] {
            assert_eq!(request_url(url), sent);
        }
    }

    #[test]
    fn a_strict_url_has_only_escapes() {
        assert_eq!(unquote_strict("a%40b"), Some(b"a@b".to_vec()));
        for text in ["%", "%4", "%zz", "a%20%", "%%41", "%+f"] {
            assert_eq!(unquote_strict(text), None, "{text}");
        }
    }
}
