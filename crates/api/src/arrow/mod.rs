//! Arrow IPC streams as an alternative to JSON: content negotiation, requests and responses.
//!
//! A request declares a stream in `Content-Type`, a client asks for one in `Accept`. Errors are always JSON.
//! `gnudi_arrow` encodes and decodes the streams.

pub(crate) mod list;
pub(crate) mod measures;
pub(crate) mod series;

use gnudi_app::{ApiError, Result, json::Value, query::Query, request};
use gnudi_arrow::{Compression, MEDIA_TYPE, read::ReadError};
use gnudi_server::{ReplyBody, Response, acceptable, reply};
use hyper::{
    header::{ACCEPT, HeaderValue},
    http::request::Parts,
};

/// The media types on offer, the default first.
pub const OFFERS: [&str; 2] = ["application/json", MEDIA_TYPE];

/// Whether the client prefers a stream; JSON wins a tie.
pub fn is_wanted(parts: &Parts) -> bool {
    let accept = parts.headers.get(ACCEPT).map_or("", |accept| accept.to_str().unwrap_or_default());
    accept.to_ascii_lowercase().contains("arrow") && acceptable(accept, &OFFERS).first() == Some(&MEDIA_TYPE)
}

/// Whether the body is declared as a stream.
pub fn is_sent(parts: &Parts) -> bool {
    request::expect(parts, MEDIA_TYPE).is_ok()
}

/// The compression of the response: the argument `compression`.
///
/// # Errors
/// 400 for an unknown compression.
pub fn compression(query: &Query) -> Result<Compression> {
    let refuse = || ApiError::argument("compression", "Must be 'none', 'lz4' or 'zstd'");
    let name = query.single("compression", refuse)?.unwrap_or("none");
    Compression::from_name(name).ok_or_else(refuse)
}

/// 200, with a stream.
pub fn ok(stream: impl Into<ReplyBody>) -> Response {
    reply::with_body(hyper::StatusCode::OK, HeaderValue::from_static(MEDIA_TYPE), stream)
}

/// The error for an invalid or too large stream.
fn unreadable(error: ReadError) -> ApiError {
    match error {
        ReadError::Malformed(text) => ApiError::bad_request(Value::cause_and_reason(
            "Unable to decode body",
            text,
            Value::Array(Vec::new()),
        )),
        ReadError::TooLarge(text) => ApiError::too_large(text),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::CONTENT_TYPE;

    use super::*;

    fn parts(accept: &str, content_type: &str) -> Parts {
        let request = hyper::Request::builder().header(ACCEPT, accept).header(CONTENT_TYPE, content_type);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_who_asks_for_a_stream_gets_one() {
        for (accept, expected) in [
            (MEDIA_TYPE, true),
            ("Application/VND.apache.Arrow.stream; q=0.5", true),
            ("application/vnd.apache.arrow.stream;q=0.9, application/json;q=0.5", true),
            ("application/json, application/vnd.apache.arrow.stream", false),
            ("application/vnd.apache.arrow.stream, */*;q=0.1", true),
            ("application/vnd.apache.arrow.file", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(is_wanted(&parts(accept, "")), expected, "{accept}");
        }
        for (content_type, expected) in [
            (MEDIA_TYPE, true),
            ("Application/vnd.apache.arrow.Stream; charset=x", true),
            ("application/vnd.apache.arrow.file", false),
            ("application/json", false),
        ] {
            assert_eq!(is_sent(&parts("", content_type)), expected, "{content_type}");
        }
    }
}
