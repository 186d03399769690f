//! Authentication failures and exceeded quotas.

use std::sync::Arc;

use gnudi_indexer::IndexerError;

/// A request refused because of its caller or the caller's quota.
#[derive(Debug)]
pub enum AccessError {
    /// Authentication failed (401); with a challenge, if there is one.
    Unknown { detail: &'static str, challenge: Option<Challenge> },
    /// The caller cannot be authenticated at present (503).
    Unavailable(&'static str),
    /// The caller's project has exceeded a limit (429).
    LimitExceeded { detail: String, retry_after_seconds: u64 },
    /// The index failed to count the project's metrics.
    Indexer(IndexerError),
}

/// What the `WWW-Authenticate` header asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Name and password (RFC 7617).
    Basic,
    /// A token. Holds the header's value, in keystonemiddleware's format; the response's document is
    /// keystonemiddleware's too.
    Keystone(Arc<str>),
}

impl Challenge {
    /// The value of `WWW-Authenticate`.
    pub fn header(&self) -> &str {
        match self {
            Challenge::Basic => "Basic realm=\"gnudi\", charset=\"UTF-8\"",
            Challenge::Keystone(header) => header,
        }
    }
}
