//! What goes wrong in a call.

use std::time::Duration;

/// The server answered, and the answer is a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status, 300 to 599.
    pub status: u16,
    /// The `description` of Gnocchi's JSON error where the body has one as text, else the body itself.
    pub message: String,
    /// How long the server asks to wait (`Retry-After` in whole seconds), with a 429 or 503.
    pub retry_after: Option<Duration>,
}

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The base URL or the user's name cannot be used; no request was made.
    #[error("{0}")]
    InvalidOptions(String),
    /// The server answered with an error status.
    #[error("{method} {path}: {} {}", refused.status, refused.message)]
    Refused { method: &'static str, path: String, refused: Refused },
    /// No answer: not connected, cut off, or too late. A request that changes something may have been carried out.
    #[error("{method} {path}: {reason}")]
    NoAnswer { method: &'static str, path: String, reason: String },
    /// The answer was a success, but not of the form expected.
    #[error("{method} {path}: unexpected answer: {reason}")]
    UnexpectedAnswer { method: &'static str, path: String, reason: String },
}

impl ClientError {
    /// The refusal, where the server answered with one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            ClientError::Refused { refused, .. } => Some(refused),
            _ => None,
        }
    }

    /// The status of a refusal.
    pub fn status(&self) -> Option<u16> {
        self.refused().map(|refused| refused.status)
    }
}
