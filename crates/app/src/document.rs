//! Error responses: JSON, HTML or plain text, as Gnocchi's web stack (pecan on `WebOb`) writes them.
//!
//! The default is JSON: `{"code": 404, "title": "Not Found", "description": ...}`. A client whose `Accept`
//! names a text type gets Gnocchi's format, and one without `Accept` plain text. Unlike in Gnocchi, which sends
//! HTML, `*/*` gets JSON: programs that read JSON send it.

use gnudi_access::Challenge;
use gnudi_server::acceptable;
use hyper::StatusCode;

use crate::{error::ApiError, json::Value};

/// The limit on a text in the response: it may quote a large request.
const TEXT_CHARACTERS_MAX: usize = 8_192;

/// The parts of a request that an error's document depends on.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    pub method: &'a str,
    /// `None` if the header is absent.
    pub accept: Option<&'a str>,
    pub content_type: &'a str,
}

/// The content type and the text of an error's document.
pub fn of(error: &ApiError, asked: RequestFacts<'_>) -> (&'static str, String) {
    if let Some(Challenge::Keystone(_)) = error.challenge {
        return ("application/json", unauthenticated().to_json());
    }
    let accept = asked.accept.unwrap_or("");
    // JSON clients may add text types: `application/json, text/plain, */*`.
    let asks_for_json_first = accept.trim_start().to_ascii_lowercase().starts_with("application/json");
    let wants_text =
        accept.is_empty() || (accept.to_ascii_lowercase().contains("text/") && !asks_for_json_first);
    let preferred = acceptable(accept, &["text/plain", "text/html", "application/json"]);
    if !wants_text || preferred.first() == Some(&"application/json") {
        let document = Value::object([
            ("code", Value::Int(i64::from(error.status.as_u16()))),
            ("title", title(error.status).into()),
            ("description", bounded(&error.detail)),
        ]);
        return ("application/json", document.to_json());
    }
    let status = format!("{} {}", error.status.as_u16(), title(error.status));
    match acceptable(accept, &["text/html", "application/json"]).first() {
        Some(&"text/html") => {
            let body = body(error, asked, escape);
            let page = format!(
                "<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n  <h1>{status}</h1>\n  {body}\n </body>\n</html>"
            );
            ("text/html; charset=UTF-8", page)
        }
        Some(_) => {
            let document = Value::object([
                ("message", body(error, asked, str::to_owned).into()),
                ("code", status.into()),
                ("title", title(error.status).into()),
            ]);
            ("application/json", document.to_json())
        }
        None => {
            let body = strip_tags(&body(error, asked, str::to_owned));
            ("text/plain; charset=UTF-8", format!("{status}\n\n{body}"))
        }
    }
}

/// keystonemiddleware in front of the API sends this document itself, always as JSON.
fn unauthenticated() -> Value {
    let error = Value::object([
        ("code", Value::Int(i64::from(StatusCode::UNAUTHORIZED.as_u16()))),
        ("title", title(StatusCode::UNAUTHORIZED).into()),
        ("message", "The request you have made requires authentication.".into()),
    ]);
    Value::object([("error", error)])
}

/// `WebOb`'s title of a status, where it differs from the registered one.
fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
        _ => status.canonical_reason().unwrap_or("Unknown"),
    }
}

fn body(error: &ApiError, asked: RequestFacts<'_>, escape: impl Fn(&str) -> String) -> String {
    let detail = match bounded(&error.detail) {
        Value::Null => String::new(),
        Value::Str(text) => escape(&text),
        other => escape(&other.repr()),
    };
    match error.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            format!(
                "The method {} is not allowed for this resource. <br /><br />\n{detail}",
                escape(asked.method)
            )
        }
        StatusCode::NOT_ACCEPTABLE => format!(
            "The resource could not be generated that was acceptable to your browser\n(content of type {}. <br /><br />\n{detail}",
            escape(asked.accept.unwrap_or("")),
        ),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => format!(
            "The request media type {} is not supported by this server.\n<br /><br />\n{detail}",
            escape(asked.content_type),
        ),
        status => format!("{}<br /><br />\n{detail}\n\n", explanation(status)),
    }
}

fn explanation(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "This server could not verify that you are authorized to access the document you requested. Either you supplied \
             the wrong credentials (e.g., bad password), or your browser does not understand how to supply the \
             credentials required."
        }
        StatusCode::FORBIDDEN => "Access was denied to this resource.",
        StatusCode::NOT_FOUND => "The resource could not be found.",
        StatusCode::REQUEST_TIMEOUT => {
            "The server has waited too long for the request to be sent by the client."
        }
        StatusCode::CONFLICT => "There was a conflict when trying to complete your request.",
        StatusCode::PRECONDITION_FAILED => "Request precondition failed.",
        StatusCode::PAYLOAD_TOO_LARGE => "The body of your request was too large for this server.",
        StatusCode::TOO_MANY_REQUESTS => "The client has sent too many requests in a given amount of time",
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED => {
            "The server has either erred or is incapable of performing the requested operation."
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            "The server is currently unavailable. Please try again at a later time."
        }
        _ => {
            "The server could not comply with the request since it is either malformed or otherwise incorrect."
        }
    }
}

/// Truncates texts in the detail to [`TEXT_CHARACTERS_MAX`]; they may quote the request.
fn bounded(detail: &Value) -> Value {
    match detail {
        Value::Str(text) => match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}...", &text[..end]).into(),
            None => detail.clone(),
        },
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), bounded(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(bounded).collect()),
        other => other.clone(),
    }
}

/// Escapes a text for HTML, as ASCII.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            '\0'..='\u{7f}' => out.push(character),
            _ => out.extend(["&#", &u32::from(character).to_string(), ";"]),
        }
    }
    out
}

/// Converts HTML to plain text as `WebOb` does: `<br>` becomes a line break, a line break a space; other tags are
/// removed.
fn strip_tags(html: &str) -> String {
    let text = html.replace('\n', " ").replace('\r', "");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(open) = rest.find('<') {
        let Some(length) = rest[open..].find('>') else { break };
        out.push_str(&rest[..open]);
        let tag = &rest[open..=open + length];
        if tag.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("<br")) {
            out.push('\n');
        }
        rest = &rest[open + length + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: &ApiError, accept: Option<&str>) -> (&'static str, String) {
        of(error, RequestFacts { method: "PUT", accept, content_type: "text/x" })
    }

    #[test]
    fn a_client_gets_the_form_it_prefers() {
        let error = ApiError::not_found("Metric <é> does not exist");
        let json = r#"{"code": 404, "title": "Not Found", "description": "Metric <\u00e9> does not exist"}"#;
        for accept in [
            "application/json",
            "application/*",
            "application/json, */*;q=0.1",
            "application/json, text/plain, */*",
            "Application/JSON,text/html",
            "*/*",
            "foo/bar",
        ] {
            assert_eq!(shown(&error, Some(accept)), ("application/json", json.to_owned()), "{accept}");
        }
        for accept in ["text/html", "text/html,application/json", "text/*"] {
            let (content_type, text) = shown(&error, Some(accept));
            assert_eq!(content_type, "text/html; charset=UTF-8", "{accept}");
            assert_eq!(
                text,
                "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  \
                 The resource could not be found.<br /><br />\nMetric &lt;&#233;&gt; does not exist\n\n\n </body>\n</html>"
            );
        }
        for accept in [None, Some(""), Some("text/plain")] {
            let (content_type, text) = shown(&ApiError::not_found("No métric"), accept);
            assert_eq!(content_type, "text/plain; charset=UTF-8");
            assert_eq!(text, "404 Not Found\n\nThe resource could not be found.\n\n No métric  ");
        }
    }

    #[test]
    fn a_request_is_not_repeated_at_any_length() {
        let long = "é".repeat(TEXT_CHARACTERS_MAX + 1);
        for detail in [
            Value::from(long.as_str()),
            Value::object([("cause", long.as_str().into())]),
            Value::Array(vec![long.as_str().into()]),
        ] {
            for accept in ["application/json", "text/html", "text/plain"] {
                let (_, text) = shown(&ApiError::bad_request(detail.clone()), Some(accept));
                assert!(text.contains("...") && text.len() < TEXT_CHARACTERS_MAX * 8, "{accept}");
            }
        }
        let fits = "x".repeat(TEXT_CHARACTERS_MAX);
        assert!(shown(&ApiError::bad_request(fits.as_str()), Some("*/*")).1.contains(&fits));
    }

    #[test]
    fn some_statuses_name_what_was_asked() {
        let error = ApiError::method_not_allowed(vec!["GET"]);
        assert_eq!(
            shown(&error, Some("text/plain")).1,
            "405 Method Not Allowed\n\nThe method PUT is not allowed for this resource. \n\n "
        );
        let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "");
        assert_eq!(
            shown(&error, Some("text/plain")).1,
            "415 Unsupported Media Type\n\nThe request media type text/x is not supported by this server. \n\n "
        );
        let error = ApiError::new(StatusCode::NOT_ACCEPTABLE, Value::Null);
        assert_eq!(
            shown(&error, Some("text/plain, foo/bar")).1,
            "406 Not Acceptable\n\nThe resource could not be generated that was acceptable to your browser (content of type text/plain, foo/bar. \n\n "
        );
    }

    #[test]
    fn objects_show_as_python_writes_them() {
        let error = ApiError::argument("start", "Must be a datetime or a timestamp");
        assert_eq!(
            shown(&error, Some("text/plain")).1,
            "400 Bad Request\n\nThe server could not comply with the request since it is either malformed or otherwise \
             incorrect.\n\n {'cause': 'Argument value error', 'detail': 'start', 'reason': 'Must be a datetime or a \
             timestamp'}  "
        );
    }
}
