//! Why a query has no result: the error types of Prometheus' HTTP API, with Prometheus' texts.

use std::fmt;

/// The `errorType` of Prometheus' HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The query cannot be parsed, or refers to something that does not exist.
    BadData,
    /// The query cannot be evaluated on this data, or exceeds a limit.
    Execution,
    /// The deadline has passed.
    Timeout,
    /// The caller has cancelled.
    Canceled,
}

impl ErrorKind {
    /// The name in the HTTP API.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::BadData => "bad_data",
            ErrorKind::Execution => "execution",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Canceled => "canceled",
        }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a query, to be shown to its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub text: String,
}

impl Error {
    pub(crate) fn bad_data(text: impl Into<String>) -> Error {
        Error { kind: ErrorKind::BadData, text: text.into() }
    }

    pub(crate) fn execution(text: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Execution, text: text.into() }
    }

    pub(crate) fn same_labelset() -> Error {
        Error::execution("vector cannot contain metrics with the same labelset")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Why the caller interrupts an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    Timeout,
    Canceled,
}

impl From<Interrupt> for Error {
    fn from(interrupt: Interrupt) -> Error {
        let (kind, what) = match interrupt {
            Interrupt::Timeout => (ErrorKind::Timeout, "timed out"),
            Interrupt::Canceled => (ErrorKind::Canceled, "was canceled"),
        };
        Error { kind, text: format!("query {what} in expression evaluation") }
    }
}
