//! Requests refused by the HTTP layer, before the application sees them.

use hyper::StatusCode;

/// The response to a request that violates HTTP or a limit of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRefusal {
    pub status: StatusCode,
    pub text: String,
}

impl HttpRefusal {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        HttpRefusal { status, text: text.into() }
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        HttpRefusal::new(StatusCode::BAD_REQUEST, text)
    }

    pub(crate) fn too_large(text: impl Into<String>) -> Self {
        HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}
