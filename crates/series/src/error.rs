//! Errors of decoding stored bytes.

/// The result of decoding.
pub type Result<T, E = CodecError> = std::result::Result<T, E>;

/// The bytes are not in a format of this crate. The text is for a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("the bytes end too early")]
    Truncated,
    #[error("the checksum does not match")]
    Checksum,
    #[error("format version {0} is not known")]
    Version(u8),
    #[error("invalid {0}")]
    Invalid(&'static str),
}
