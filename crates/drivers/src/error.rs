//! Errors of opening a store, and the reason why a task has no result.

use std::{io, panic::resume_unwind, path::PathBuf};

use tokio::task::JoinError;

/// Why a task that nobody aborts has no output: the runtime has cancelled it, since it is shutting down.
///
/// # Panics
/// As the task did, if it has panicked.
pub fn stopping(error: JoinError) -> String {
    if let Ok(panic) = error.try_into_panic() {
        resume_unwind(panic);
    }
    "the process is stopping".to_owned()
}

/// Each names the directory or file that the operator has to check.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the directory's lock.
    #[error("the data directory {} is in use by another process", dir.display())]
    InUse { dir: PathBuf },
    /// Written by a newer program; opening it could lose data that this version does not know.
    #[error("{} has format version {found}, but this program knows versions up to {known} only", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
    /// The content is not what the name implies.
    #[error("{}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    /// A shared engine does not respond, or refuses; `engine` is its name without the password.
    #[error("{engine}: {reason}")]
    Engine { engine: String, reason: String },
    /// The place holds another cluster's data: two configurations name the same pool, bucket or prefix.
    #[error(
        "{place} belongs to another cluster ({found}, this one is {own}): give each its own pool, bucket, database or prefix"
    )]
    OtherCluster { place: String, found: uuid::Uuid, own: uuid::Uuid },
    /// A move to this place is not complete.
    #[error("{place} is not complete: `gnudi move` copies aggregates to it; use it once that has finished")]
    Filling { place: String },
    /// A move away from it has begun its cut-over, or is complete.
    #[error(
        "the aggregates were moved from {place} to another engine, or are being moved: [storage] must name that one"
    )]
    Closed { place: String },
    /// The cluster has another store of aggregates, or had one here.
    #[error(
        "{place} {fault}: [storage] must name the same pool, bucket, folder or prefix on all hosts, and a folder must be mounted; if the aggregates are to begin anew there, or were moved there, run `gnudi upgrade --replace-aggregates`"
    )]
    OtherStore { place: String, fault: &'static str },
    /// Nothing to move.
    #[error("{place} holds no aggregates")]
    Empty { place: String },
    /// A part of a log cannot be read, and may have been acknowledged.
    #[error(
        "{}: {source}; if the device does not recover, `gnudi verify --repair` gives up what is there",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl OpenError {
    /// For `map_err`: an I/O error at `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| OpenError::Io { path, source }
    }

    pub(crate) fn invalid(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        OpenError::Invalid { path: path.into(), reason: reason.into() }
    }

    /// For `map_err`: a part of the log's file `path` cannot be read.
    pub(crate) fn unreadable(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| OpenError::Unreadable { path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::task::JoinHandle;

    use super::*;

    #[tokio::test]
    async fn a_cancelled_task_has_a_reason_and_a_panic_goes_on() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        assert_eq!(stopping(cancelled.await.unwrap_err()), "the process is stopping");
        let failing: JoinHandle<()> = tokio::spawn(async { panic!("a defect") });
        let failed = failing.await.unwrap_err();
        let panic = catch_unwind(AssertUnwindSafe(|| stopping(failed))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
    }
}
