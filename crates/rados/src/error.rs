//! Errors: the library is missing, a name is invalid, or an operation failed.

use std::{ffi::c_int, io, path::PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library is missing, or is not librados.
    #[error("{} cannot be loaded: is the package librados2 installed? ({reason})", library.display())]
    Library { library: PathBuf, reason: String },
    /// A name or key with a NUL byte, which librados would truncate.
    #[error("{what} contains a NUL byte")]
    Nul { what: &'static str },
    /// The operation and its object, such as "write pool/object", with librados' error number.
    #[error("{operation}: {source}")]
    Failed { operation: String, source: io::Error },
}

impl Error {
    /// From a negative return code of librados.
    pub(crate) fn failed(operation: String, code: c_int) -> Self {
        Error::Failed { operation, source: io::Error::from_raw_os_error(code.saturating_neg()) }
    }

    /// For callers that branch on it: `NotFound`, `AlreadyExists` or `TimedOut` of a failed operation, `Unsupported` if
    /// the library is missing, `InvalidInput` for a NUL byte.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Library { .. } => io::ErrorKind::Unsupported,
            Error::Nul { .. } => io::ErrorKind::InvalidInput,
            Error::Failed { source, .. } => source.kind(),
        }
    }

    /// Whether the cluster refuses this client for a time, whatever it sends: a new one is another client to the cluster.
    pub fn is_blocklisted(&self) -> bool {
        /// `EBLOCKLISTED`, which is Linux' `ESHUTDOWN`.
        const BLOCKLISTED: i32 = 108;
        matches!(self, Error::Failed { source, .. } if source.raw_os_error() == Some(BLOCKLISTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_operation_and_has_a_kind() {
        for (code, kind, text) in [
            (-2, io::ErrorKind::NotFound, "No such file or directory"),
            (-17, io::ErrorKind::AlreadyExists, "File exists"),
            (-110, io::ErrorKind::TimedOut, "timed out"),
        ] {
            let error = Error::failed("create pool/obj.1".to_owned(), code);
            assert_eq!(error.kind(), kind);
            let message = error.to_string();
            assert!(message.starts_with("create pool/obj.1: ") && message.contains(text), "{message}");
        }
    }

    #[test]
    fn a_blocklisted_client_is_known_by_the_code() {
        assert!(Error::failed("read".to_owned(), -108).is_blocklisted());
        assert!(!Error::failed("read".to_owned(), -110).is_blocklisted());
        assert!(!Error::Nul { what: "a name" }.is_blocklisted());
    }

    #[test]
    fn an_impossible_code_is_still_an_error() {
        assert!(Error::failed("read".to_owned(), c_int::MIN).to_string().starts_with("read: "));
    }
}
