//! The HTTP/1.1 and HTTPS client of all parts of gnudi: a connection pool, requests with limits of time and size, and
//! trusted certificates.
//!
//! It deliberately does not retry, log in or interpret responses: callers do.

mod client;
mod quick_ack;
mod trust;

pub use bytes::Bytes;
pub use client::{Answer, HttpClient, HttpError, HttpOptions, with_causes};
pub use hyper::{HeaderMap, Method, Request, StatusCode, Uri, header, http::Error as RequestError};
pub use trust::{ClientIdentity, Trust, TrustError};

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// The value of an `Authorization` header for basic authentication (RFC 7617), hidden from debug output. `user` must
/// not contain a colon, which would begin the password.
pub fn basic_authorization(user: &str, password: &str) -> header::HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut value = header::HeaderValue::try_from(text).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}
