//! Errors: the library is missing, a name is invalid, or a call failed.

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
    /// The library is missing, or is not libvirt.
    #[error("{} cannot be loaded: is the package libvirt0 installed? ({reason})", library.display())]
    Library { library: PathBuf, reason: String },
    /// A name with a NUL byte, which libvirt would truncate.
    #[error("{what} contains a NUL byte")]
    Nul { what: &'static str },
    /// The operation and its object, with libvirt's message and codes (`virErrorNumber`, `virErrorDomain`).
    #[error("{operation}: {message}")]
    Failed { operation: String, code: i32, domain: i32, message: String },
}

impl Error {
    /// Whether the connection is broken: reconnecting may help.
    pub fn is_disconnection(&self) -> bool {
        matches!(
            self,
            Error::Failed { code: INTERNAL_ERROR | SYSTEM_ERROR, domain: FROM_RPC | FROM_REMOTE, .. }
        )
    }

    /// Whether the domain does not exist (any more).
    pub fn is_no_domain(&self) -> bool {
        matches!(self, Error::Failed { code: NO_DOMAIN, .. })
    }

    /// Whether the domain has no metadata in this namespace.
    pub fn is_no_metadata(&self) -> bool {
        matches!(self, Error::Failed { code: NO_DOMAIN_METADATA, .. })
    }
}
