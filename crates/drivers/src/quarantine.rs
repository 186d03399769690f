//! Where damaged bytes are set aside: each find is logged with its file and offset, counted, and copied to a file of its
//! own, for whoever looks into it. Nothing here tries to repair.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::disk::{Disk, read_file, replace_file};

/// Beyond it damage is reported and counted, but no longer copied.
pub const QUARANTINE_BYTES_MAX: u64 = 256 << 20;

pub struct Quarantine {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    found: AtomicU64,
    copied_bytes: Mutex<u64>,
    /// File and offset of what was reported, so that a place that is read again is not.
    known: Mutex<HashSet<(PathBuf, u64)>>,
}

/// How many places are remembered; beyond it some may be reported more than once.
const KNOWN_MAX: usize = 10_000;

impl Quarantine {
    /// `dir` is made when the first damage is found.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, found: AtomicU64::new(0), copied_bytes: Mutex::new(0), known: Mutex::default() }
    }

    /// Finds since the start, for `/metrics`.
    pub fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// Reports `bytes`, found damaged at `offset` of `file`: once, however often they are read. They are copied once,
    /// also across restarts.
    pub fn report(&self, what: &str, file: &Path, offset: u64, bytes: &[u8]) {
        let mut known = self.known.lock();
        if known.len() < KNOWN_MAX && !known.insert((file.to_owned(), offset)) {
            return;
        }
        drop(known);
        self.found.fetch_add(1, Ordering::Relaxed);
        tracing::error!(file = %file.display(), offset, length = bytes.len(), "damaged {what}: set aside");
        self.copy(file, offset, bytes);
    }

    /// Copies `bytes` that a crash explains, but damage would too: no alarm, no count.
    pub fn set_aside(&self, what: &str, file: &Path, offset: u64, bytes: &[u8]) {
        tracing::warn!(file = %file.display(), offset, length = bytes.len(), "{what}, as a crash leaves it: set aside");
        self.copy(file, offset, bytes);
    }

    fn copy(&self, file: &Path, offset: u64, bytes: &[u8]) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let copy = self.dir.join(format!("{name}.{offset}"));
        if bytes.is_empty() || read_file(&*self.disk, &copy).is_ok_and(|earlier| earlier == bytes) {
            return;
        }
        let mut copied_bytes = self.copied_bytes.lock();
        if *copied_bytes + bytes.len() as u64 > QUARANTINE_BYTES_MAX {
            tracing::error!("{} is full: the bytes are not copied", self.dir.display());
            return;
        }
        let copied = self.disk.create_dir(&self.dir).and_then(|()| replace_file(&*self.disk, &copy, bytes));
        match copied {
            Ok(()) => *copied_bytes += bytes.len() as u64,
            Err(error) => tracing::error!("the bytes could not be copied to {}: {error}", copy.display()),
        }
    }
}
