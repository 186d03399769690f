//! Why a caller is not let in, or not now.

use std::sync::Arc;

use gnudi_indexer::IndexerError;

/// A request that is not served for who sends it, or for how much of it there is.
#[derive(Debug)]
pub enum AccessError {
    /// Nobody knows who calls; what is missing, and how callers make themselves known, where they can.
    Unknown { detail: &'static str, challenge: Option<Challenge> },
    /// Who calls cannot be found out at present.
    Unavailable(&'static str),
    /// The caller's project has used its share up, and is welcome again after so many seconds.
    LimitExceeded { detail: String, retry_after_seconds: u64 },
    /// The index does not say how many metrics the project has.
    Indexer(IndexerError),
}

/// What a caller who is not known is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Name and password (RFC 7617).
    Basic,
    /// A token; the header's value, as keystonemiddleware has it, which also says so in a document of its own.
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
