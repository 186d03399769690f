//! Files that are read again when somebody changes them, without a restart: certificates, passwords.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};

/// How often the files are looked at.
const LOOK_DELAY: Duration = Duration::from_secs(5);

/// Changes when a file does; `None` of a file that cannot be looked at.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Some files, as they were when they were last read, whatever came of it.
#[derive(Debug)]
pub struct Followed {
    paths: Vec<PathBuf>,
    stamps: Mutex<Vec<Stamp>>,
}

impl Followed {
    /// To be called before the files are read for the first time, so that no change is missed.
    pub fn new(paths: &[&Path]) -> Self {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        let stamps = Mutex::new(stamps(&paths));
        Followed { paths, stamps }
    }

    /// Calls `reload` on SIGHUP and when a file has changed; returns only where no signal handler can be installed.
    pub async fn follow(&self, mut reload: impl FnMut()) -> io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            let told = tokio::select! {
                _ = hangup.recv() => true,
                () = tokio::time::sleep(LOOK_DELAY) => false,
            };
            let now = stamps(&self.paths);
            let has_changed = std::mem::replace(&mut *self.stamps.lock(), now.clone()) != now;
            if told || has_changed {
                reload();
            }
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}
