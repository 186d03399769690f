//! Why Redis did not do what it was asked, sorted by what a driver can do about it.

use redis::{ErrorKind, ServerError, ServerErrorKind};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No answer, or one that asks to come back later. What was asked for may have happened.
    #[error("{0}")]
    Unavailable(String),
    /// `maxmemory` is reached: nothing was done.
    #[error("{0}")]
    NoSpace(String),
    /// Nothing was done, and it would be the same the next time: no permission, a key of another kind.
    #[error("{0}")]
    Refused(String),
}

/// What to do after a server has refused a call without doing anything of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another node has the slot now.
    Moved(String),
    /// Another node has the key already, and the slot soon.
    Ask(String),
    /// The script is not there: it was flushed.
    NoScript,
    /// The server is no master any more.
    NotMaster,
    /// Soon: it loads its data, or the cluster agrees on who has what.
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
            // The disk, too few replicas, or a script that takes long: all may pass.
            "MISCONF" | "NOREPLICAS" | "BUSY" => Refusal::Final(ClientError::Unavailable(text)),
            "UNBLOCKED" => Refusal::NotMaster,
            // A script's error names the refusal of a command within it.
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
