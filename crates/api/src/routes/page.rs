//! The web page: `/` for clients that accept HTML, and its files.
//!
//! `gnudi_page` holds the files. The page uses this API like any other client.

use gnudi_access::AuthMode;
use gnudi_page::File;
use gnudi_server::acceptable;
use hyper::{
    Method, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderName,
        HeaderValue, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
    http::request::Parts,
};

use crate::routes::prelude::*;

/// The page is revalidated on each load, so that an update of gnudi takes effect at once.
const PAGE_CACHE_CONTROL: &str = "no-cache";
/// A file's name contains a hash of its content.
const FILE_CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

/// Whether the client prefers HTML to JSON.
pub(super) fn is_wanted(parts: &Parts) -> bool {
    let accept = parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    reads
        && accept.is_some_and(|accept| {
            acceptable(accept, &["application/json", "text/html"]).first() == Some(&"text/html")
        })
}

/// `/` as HTML. Without the trailing slash, a redirect to it: the page's URLs are relative.
pub(super) fn index(call: &Call<'_>) -> Response {
    if !call.parts.uri.path().ends_with('/') {
        let to_slash = reply::with_header(reply::bare(StatusCode::FOUND), LOCATION, &call.links().to("/"));
        return reply::with_header(to_slash, VARY, "Accept");
    }
    let auth_mode = &call.app.options().auth_mode;
    let settings = escaped(&settings(auth_mode).to_json());
    let text = gnudi_page::INDEX.replace(gnudi_page::SETTINGS, &settings);
    let tag = format!("\"{}\"", sha1_smol::Sha1::from(&text).digest());
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut answer = if has_tag(call.parts, &tag) {
        reply::bare(StatusCode::NOT_MODIFIED)
    } else {
        reply::with_body(StatusCode::OK, html, text.into_bytes())
    };
    answer = reply::with_header(answer, ETAG, &tag);
    for (name, value) in [
        (CACHE_CONTROL, PAGE_CACHE_CONTROL),
        (VARY, "Accept"),
        (CONTENT_SECURITY_POLICY, &security_policy(auth_mode)),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        answer = reply::with_header(answer, name, value);
    }
    guarded(answer)
}

/// `/page/<file>`
pub async fn file(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let name = call.parameter("file");
    let file = gnudi_page::file(name).ok_or_else(|| ApiError::not_found(""))?;
    let tag = format!("\"{name}\"");
    let mut answer = if has_tag(call.parts, &tag) {
        reply::bare(StatusCode::NOT_MODIFIED)
    } else {
        body(file, call.parts)
    };
    for (name, value) in
        [(ETAG, tag.as_str()), (CACHE_CONTROL, FILE_CACHE_CONTROL), (VARY, "Accept-Encoding")]
    {
        answer = reply::with_header(answer, name, value);
    }
    Ok(guarded(answer))
}

/// The file in the best encoding that the client accepts.
fn body(file: &'static File, parts: &Parts) -> Response {
    let (encoding, bytes) = match encoding(parts) {
        Some("br") => (Some("br"), file.brotli),
        Some("gzip") => (Some("gzip"), file.gzip),
        _ => (None, file.plain),
    };
    let answer = reply::with_body(StatusCode::OK, HeaderValue::from_static(file.content_type()), bytes);
    match encoding {
        Some(encoding) => reply::with_header(answer, CONTENT_ENCODING, encoding),
        None => answer,
    }
}

/// The best offered encoding that the client names, without refusing it (`q=0`).
fn encoding(parts: &Parts) -> Option<&'static str> {
    let header = parts.headers.get(ACCEPT_ENCODING)?.to_str().ok()?;
    let takes = |encoding: &str| {
        header.split(',').any(|item| {
            let (name, quality) = item.split_once(';').unwrap_or((item, "q=1"));
            let quality = quality.trim().trim_start_matches("q=").parse().unwrap_or(0.0_f64);
            name.trim().eq_ignore_ascii_case(encoding) && quality > 0.0
        })
    };
    ["br", "gzip"].into_iter().find(|encoding| takes(encoding))
}

fn has_tag(parts: &Parts, tag: &str) -> bool {
    let header = parts.headers.get(IF_NONE_MATCH).and_then(|header| header.to_str().ok());
    header.is_some_and(|header| header.split(',').any(|known| known.trim().trim_start_matches("W/") == tag))
}

/// The page's settings: how to authenticate.
fn settings(auth_mode: &AuthMode) -> Value {
    let auth = match auth_mode {
        AuthMode::Basic { passwords } => {
            Value::object([("mode", "basic".into()), ("passwords", Value::Bool(passwords.is_some()))])
        }
        AuthMode::RemoteUser(_) => Value::object([("mode", "remoteuser".into())]),
        AuthMode::Keystone(keystone) => {
            Value::object([("mode", "keystone".into()), ("uri", keystone.www_authenticate_uri().into())])
        }
    };
    Value::object([("version", env!("CARGO_PKG_VERSION").into()), ("auth", auth)])
}

/// Escapes a text for an attribute in double quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page may load only its own files and connect only to this server; with Keystone also to Keystone, for
/// tokens.
fn security_policy(auth_mode: &AuthMode) -> String {
    let keystone = match auth_mode {
        AuthMode::Keystone(keystone) => origin(keystone.www_authenticate_uri()),
        AuthMode::Basic { .. } | AuthMode::RemoteUser(_) => None,
    };
    let keystone = keystone.map_or(String::new(), |origin| format!(" {origin}"));
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{keystone}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
}

/// The origin (scheme and host) of a URL; `None` if a security policy may not contain it.
fn origin(address: &str) -> Option<&str> {
    let host_at = address.find("://")? + 3;
    let end = address[host_at..].find('/').map_or(address.len(), |slash| host_at + slash);
    let origin = &address[..end];
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:/[]_".contains(&byte);
    (origin.len() > host_at && origin.bytes().all(is_plain)).then_some(origin)
}

/// Security headers of all files: no framing, no content sniffing.
fn guarded(answer: Response) -> Response {
    let answer = reply::with_header(answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    let answer = reply::with_header(answer, REFERRER_POLICY, "no-referrer");
    reply::with_header(answer, HeaderName::from_static("cross-origin-resource-policy"), "same-origin")
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_who_would_rather_have_html_gets_the_page() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        for (accept, expected) in [
            (browser, true),
            ("text/html", true),
            ("*/*", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("application/json;q=0.5, text/html", true),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(is_wanted(&parts(&[("accept", accept)])), expected, "{accept}");
        }
        assert!(!is_wanted(&parts(&[])));
    }

    #[test]
    fn encodings_are_those_that_the_client_names() {
        for (header, expected) in [
            ("gzip, deflate, br", Some("br")),
            ("gzip;q=1.0, *;q=0", Some("gzip")),
            ("br;q=0, GZIP", Some("gzip")),
            ("identity", None),
            ("", None),
        ] {
            assert_eq!(encoding(&parts(&[("accept-encoding", header)])), expected, "{header}");
        }
        assert_eq!(encoding(&parts(&[])), None);
    }

    #[test]
    fn a_policy_names_keystone_s_origin_and_nothing_that_could_be_read_as_more() {
        for (address, expected) in [
            ("https://keystone.example.net:5000/v3", Some("https://keystone.example.net:5000")),
            ("http://[::1]:5000", Some("http://[::1]:5000")),
            ("https://a.example;script-src *", None),
            ("https://a.example b", None),
            ("https:///v3", None),
            ("keystone", None),
        ] {
            assert_eq!(origin(address), expected, "{address}");
        }
    }
}
