//! What every part of gnudi that calls others over HTTP/1.1 and HTTPS has in common: a pool of connections, one request with
//! its answer within limits of time and size, and whose certificates are believed.
//!
//! It deliberately does not retry, log in or judge answers: that is for the callers, who know what they ask.

mod basic;
mod client;
mod trust;

pub use basic::basic_authorization;
pub use bytes::Bytes;
pub use client::{Answer, HttpClient, HttpError, HttpOptions, with_causes};
pub use hyper::{HeaderMap, Method, Request, StatusCode, Uri, header, http::Error as RequestError};
pub use trust::{ClientIdentity, Trust, TrustError};
