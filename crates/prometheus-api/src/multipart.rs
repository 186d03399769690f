//! Forms in parts (`multipart/form-data`), as `curl -F` sends them. Files are ignored, and a malformed form has no
//! fields, as in Prometheus.

use hyper::{HeaderMap, header::CONTENT_TYPE};

/// What separates the parts; `None` if the body is no such form.
pub fn boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = content_type.split(';').next()?.trim();
    let boundary =
        kind.eq_ignore_ascii_case("multipart/form-data").then(|| parameter(content_type, "boundary"));
    boundary.flatten().filter(|boundary| !boundary.is_empty())
}

/// The names and values of a form, in order.
pub fn fields(form: &str, boundary: &str) -> Vec<(String, String)> {
    read(form, boundary).unwrap_or_default()
}

fn read(form: &str, boundary: &str) -> Option<Vec<(String, String)>> {
    let delimiter = format!("\r\n--{boundary}");
    // Any text may precede the first part.
    let behind_text = || form.split_once(delimiter.as_str()).map(|(_, rest)| rest);
    let mut rest = form.strip_prefix(&delimiter[2..]).or_else(behind_text)?;
    let mut fields = Vec::new();
    while !rest.starts_with("--") {
        let part = rest.trim_start_matches([' ', '\t']).strip_prefix("\r\n")?;
        let (part, behind) = part.split_once(delimiter.as_str())?;
        let (head, value) = part.split_once("\r\n\r\n")?;
        fields.extend(field_name(head).map(|name| (name, value.to_owned())));
        rest = behind;
    }
    Some(fields)
}

/// The name in a part's headers; `None` for a file, which has a type or a name of its own.
fn field_name(head: &str) -> Option<String> {
    let headers: Vec<(&str, &str)> = head.split("\r\n").filter_map(|line| line.split_once(':')).collect();
    let value = |wanted: &str| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let disposition = value("Content-Disposition")?;
    let is_form = disposition.split(';').next()?.trim().eq_ignore_ascii_case("form-data");
    let is_file = value("Content-Type").is_some()
        || parameter(disposition, "filename").is_some_and(|name| !name.is_empty());
    if !is_form || is_file {
        return None;
    }
    parameter(disposition, "name").filter(|name| !name.is_empty())
}

/// A parameter behind a header's value: `value; name=text; other="text"`.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let (_, mut rest) = header.split_once(';')?;
    loop {
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = if let Some(quoted) = behind.strip_prefix('"') {
            in_quotes(quoted)?
        } else {
            let (value, behind) = behind.split_at(behind.find(';').unwrap_or(behind.len()));
            (value.trim().to_owned(), behind)
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = behind.trim_start().strip_prefix(';')?;
    }
}

/// A text up to its closing quote, and what is behind that. A backslash escapes the next character.
fn in_quotes(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn boundary_of(content_type: &'static str) -> Option<String> {
        boundary(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]))
    }

    #[test]
    fn the_content_type_has_the_boundary() {
        assert_eq!(boundary_of("multipart/form-data; boundary=xyz").as_deref(), Some("xyz"));
        assert_eq!(
            boundary_of("Multipart/Form-Data; a=\"1;\"; Boundary=\"x;\\\"z\"").as_deref(),
            Some("x;\"z")
        );
        for other in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=x",
            "text/plain",
        ] {
            assert_eq!(boundary_of(other), None, "{other}");
        }
    }

    #[test]
    fn fields_are_read() {
        let part = |headers: &str, value: &str| format!("--b\r\n{headers}\r\n\r\n{value}\r\n");
        let form = [
            "text\r\n".to_owned(),
            part("Content-Disposition: form-data; name=\"query\"", "a\r\nb"),
            part("content-disposition: form-data; name=time", ""),
            part("Content-Disposition: form-data; name=\"file\"; filename=\"f\"", "x"),
            part("Content-Disposition: form-data; name=\"typed\"\r\nContent-Type: text/plain", "x"),
            part("Content-Disposition: form-data", "x"),
            "--b--\r\n".to_owned(),
        ]
        .concat();
        let expected =
            [("query", "a\r\nb"), ("time", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fields(&form, "b"), expected);
        assert_eq!(fields(&form["text\r\n".len()..], "b"), expected);
        // Without its end, with another boundary, and without a part.
        for (form, boundary) in
            [(&form[..form.len() - 6], "b"), (form.as_str(), "c"), ("", "b"), ("--b--", "b")]
        {
            assert!(fields(form, boundary).is_empty(), "{form}");
        }
    }
}
