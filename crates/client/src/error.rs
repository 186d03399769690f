//! Errors of calls.

use std::time::Duration;

/// The server responded with an error status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status, 300 to 599.
    pub status: u16,
    /// The `description` of Gnocchi's JSON error if it is a text, else the body itself; of a redirect where it leads.
    pub message: String,
    /// The server's `Retry-After` (whole seconds) with a 429 or 503.
    pub retry_after: Option<Duration>,
}

/// The result of a call.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Invalid base URL or user name; no request was made.
    #[error("{0}")]
    InvalidOptions(String),
    /// The server answered with an error status.
    #[error("{method} {path}: {} {}", refused.status, refused.message)]
    Refused { method: &'static str, path: String, refused: Refused },
    /// No response: not connected, cut off, or timed out. The server may have executed the request.
    #[error("{method} {path}: {reason}")]
    NoAnswer { method: &'static str, path: String, reason: String },
    /// A success status, but an unexpected body.
    #[error("{method} {path}: unexpected answer: {reason}")]
    UnexpectedAnswer { method: &'static str, path: String, reason: String },
}

impl ClientError {
    /// The error response, if the server responded with one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            ClientError::Refused { refused, .. } => Some(refused),
            _ => None,
        }
    }

    /// The status of the error response.
    pub fn status(&self) -> Option<u16> {
        self.refused().map(|refused| refused.status)
    }
}
