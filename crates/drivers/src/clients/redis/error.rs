//! Errors of Redis, sorted by how a driver handles them.

use redis::{ErrorKind, ServerError, ServerErrorKind};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No response, or a request to retry later. The call may have taken effect.
    #[error("{0}")]
    Unavailable(String),
    /// `maxmemory` is reached; the call had no effect.
    #[error("{0}")]
    NoSpace(String),
    /// Permanent and without effect: no permission, a key of another type.
    #[error("{0}")]
    Refused(String),
}

/// How to handle a call that a server rejected without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another node has the slot now.
    Moved(String),
    /// Another node has the key already, and will have the slot.
    Ask(String),
    /// The script is not loaded: scripts were flushed.
    NoScript,
    /// By the server's clock the call was given up before it arrived.
    Late,
    /// The server is no longer a master.
    NotMaster,
    /// Retry soon: the server loads its data, or the cluster reassigns slots.
    Later(String),
    Final(ClientError),
}

pub(super) fn refusal(error: &ServerError) -> Refusal {
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    match error.kind() {
        Some(ServerErrorKind::Moved) => Refusal::Moved(target(error)),
        Some(ServerErrorKind::Ask) => Refusal::Ask(target(error)),
        Some(ServerErrorKind::NoScript) => Refusal::NoScript,
        Some(ServerErrorKind::ReadOnly) => Refusal::NotMaster,
        Some(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown,
        ) => Refusal::Later(text),
        _ => match error.code() {
            "OOM" => Refusal::Final(ClientError::NoSpace(text)),
            // A full disk, too few replicas, or a slow script: all temporary.
            "MISCONF" | "NOREPLICAS" | "BUSY" => Refusal::Final(ClientError::Unavailable(text)),
            "UNBLOCKED" => Refusal::NotMaster,
            "LATE" => Refusal::Late,
            // A script's error contains the error of a command within it.
            _ if text.contains("-READONLY") => Refusal::NotMaster,
            _ if text.contains("-OOM") => Refusal::Final(ClientError::NoSpace(text)),
            _ if text.contains("-MISCONF") || text.contains("-NOREPLICAS") => {
                Refusal::Final(ClientError::Unavailable(text))
            }
            _ => Refusal::Final(ClientError::Refused(text)),
        },
    }
}

/// The address in a redirection, `slot host:port`.
fn target(error: &ServerError) -> String {
    error.details().unwrap_or_default().rsplit(' ').next().unwrap_or_default().to_owned()
}

/// For errors of the connection itself.
pub(super) fn connection_error(place: &str, error: &redis::RedisError) -> ClientError {
    let text = format!("{place}: {error}");
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => ClientError::Refused(text),
        _ => match error.code() {
            Some("WRONGPASS" | "NOAUTH" | "NOPERM") => ClientError::Refused(text),
            _ => ClientError::Unavailable(text),
        },
    }
}
