//! Reloads files when they change, without a restart: certificates, passwords.

use std::{
    fmt::Display,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

/// The interval between polls of the files.
const LOOK_DELAY: Duration = Duration::from_secs(5);

/// Time of the last change, size and inode of a file; `None` if there is none. The time is that of the inode: a file that
/// only gets another mode or owner may become readable by that, and its content keeps its time.
type Stamp = Option<(i64, i64, u64, u64)>;

/// Watched files, with their stamps as of the last load, whether or not it succeeded.
#[derive(Debug)]
pub struct Followed {
    paths: Vec<PathBuf>,
    stamps: Mutex<Vec<Stamp>>,
}

impl Followed {
    /// Call this before the first load, so that no change is missed.
    pub fn new(paths: &[&Path]) -> Self {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        let stamps = Mutex::new(stamps(&paths));
        Followed { paths, stamps }
    }

    /// Calls `reload`, which reads `what`, on SIGHUP and when a file changes; after a failure with each poll, since that may
    /// pass without a change of the files: a process may have too many files open. Logs failures, one that repeats once.
    /// Returns only if no signal handler can be installed.
    pub async fn follow<E: Display>(
        &self,
        what: &str,
        mut reload: impl FnMut() -> Result<(), E>,
    ) -> io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut failure: Option<String> = None;
        loop {
            let hung_up = tokio::select! {
                _ = hangup.recv() => true,
                () = tokio::time::sleep(LOOK_DELAY) => false,
            };
            let now = stamps(&self.paths);
            let has_changed = std::mem::replace(&mut *self.stamps.lock(), now.clone()) != now;
            let is_asked = hung_up || has_changed;
            if !is_asked && failure.is_none() {
                continue;
            }
            let reason = reload().err().map(|error| error.to_string());
            if let Some(error) = &reason
                && (is_asked || reason != failure)
            {
                tracing::error!(error, "cannot reload {what}; what was read before stays in use");
            }
            failure = reason;
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.ctime(), metadata.ctime_nsec(), metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, thread};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_read_is_read_again_without_another_change() {
        let path = std::env::temp_dir().join(format!("gnudi-followed-again-{}", std::process::id()));
        fs::write(&path, "old").unwrap();
        let followed = Followed::new(&[&path]);
        fs::write(&path, "another").unwrap();
        let mut reloads = 0;
        let reload = || {
            reloads += 1;
            if reloads < 3 { Err("too many open files") } else { Ok(()) }
        };
        let following = followed.follow("it", reload);
        assert!(tokio::time::timeout(10 * LOOK_DELAY, following).await.is_err(), "it goes on");
        assert_eq!(reloads, 3);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_becomes_readable_has_changed() {
        let path = std::env::temp_dir().join(format!("gnudi-followed-{}", std::process::id()));
        fs::write(&path, "a certificate").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let before = stamps(std::slice::from_ref(&path));
        assert_eq!(stamps(std::slice::from_ref(&path)), before);
        // Longer than the kernel's clock for files stands still.
        thread::sleep(Duration::from_millis(50));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_ne!(stamps(std::slice::from_ref(&path)), before);
        fs::remove_file(&path).unwrap();
    }
}
