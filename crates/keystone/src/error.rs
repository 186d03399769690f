//! Errors of requests to Keystone.

pub type Result<T, E = KeystoneError> = std::result::Result<T, E>;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeystoneError {
    /// Invalid options; the text names the option.
    #[error("{0}")]
    InvalidOptions(String),
    /// Keystone rejects these credentials: retrying is pointless until somebody changes something.
    #[error("{0}")]
    Refused(String),
    /// No response, or one that says that Keystone is not available: retry later.
    #[error("{0}")]
    Unavailable(String),
    /// An invalid response to one request, which says nothing about others.
    #[error("{0}")]
    InvalidResponse(String),
}
