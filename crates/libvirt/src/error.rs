//! What can go wrong: the library is missing, a name is impossible, or libvirt refused.

use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `VIR_ERR_INTERNAL_ERROR`, `VIR_ERR_SYSTEM_ERROR`, `VIR_ERR_NO_DOMAIN`, `VIR_ERR_NO_DOMAIN_METADATA`.
const INTERNAL_ERROR: i32 = 1;
const SYSTEM_ERROR: i32 = 38;
const NO_DOMAIN: i32 = 42;
const NO_DOMAIN_METADATA: i32 = 80;
/// `VIR_FROM_RPC`, `VIR_FROM_REMOTE`.
const FROM_RPC: i32 = 7;
const FROM_REMOTE: i32 = 13;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library is not there, or is not libvirt.
    #[error("{} cannot be loaded: is the package libvirt0 installed? ({reason})", library.display())]
    Library { library: PathBuf, reason: String },
    /// A name with a NUL byte, which libvirt would cut there.
    #[error("{what} contains a NUL byte")]
    Nul { what: &'static str },
    /// What was tried and on what, and libvirt's own words with its numbers (`virErrorNumber`, `virErrorDomain`).
    #[error("{operation}: {message}")]
    Failed { operation: String, code: i32, domain: i32, message: String },
}

impl Error {
    /// Whether the connection is gone: connecting again may help.
    pub fn is_disconnection(&self) -> bool {
        matches!(
            self,
            Error::Failed { code: INTERNAL_ERROR | SYSTEM_ERROR, domain: FROM_RPC | FROM_REMOTE, .. }
        )
    }

    /// Whether there is no such domain (any more).
    pub fn is_no_domain(&self) -> bool {
        matches!(self, Error::Failed { code: NO_DOMAIN, .. })
    }

    /// Whether the domain has no metadata under the name that was asked for.
    pub fn is_no_metadata(&self) -> bool {
        matches!(self, Error::Failed { code: NO_DOMAIN_METADATA, .. })
    }
}
