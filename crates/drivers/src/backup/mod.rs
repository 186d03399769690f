//! Backups of an embedded store, also of one that a server has open, and putting one back.
//!
//! A place of backups is a directory; each backup in it is a directory of its own, with the layout of a data directory and
//! [`MANIFEST`], which is written last. A backup without one is not whole, and the next backup removes it.
//!
//! Nothing is asked of the server: files are copied in an order in which every state that the copy can catch is one that a
//! crash could have left.
//!
//! 1. The log of measures, before the aggregates: what is trimmed from it meanwhile is in aggregates that are copied later.
//! 2. The log of aggregates, before the runs: what is released from it meanwhile is in a run that is copied later.
//! 3. The runs. They never change, so they are linked where the file system allows it; of an earlier backup otherwise, if it
//!    has them.
//! 4. The index, by its database (the caller's): every metric whose measures were copied is in it, unless it was deleted.
//!
//! Invariant: all that was acknowledged before the backup began is in it, once. What was acknowledged while it was made may
//! be in it. Aggregates may be newer than the log of measures; so the copied log ends with an empty segment whose number
//! exceeds all positions that the aggregates carry.

mod copy;
mod manifest;
mod restore;

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use self::{
    copy::{copy_growing, copy_small, link_or_copy},
    manifest::Manifest,
};
pub use self::{
    manifest::MANIFEST,
    restore::{newest, restore},
};
use crate::{
    OpenError,
    aggregates::local::{log_dir, run_files, runs_dir},
    data_dir,
    disk::{Disk as _, LocalDisk},
    segments,
};

/// What a backup is called while it is made.
const PARTIAL_SUFFIX: &str = ".partial";
const LOCK_FILE: &str = "lock";
/// How often the runs are listed again because merges went on; each time all but the new ones are there already.
const LISTINGS_MAX: usize = 100;

/// What was done for a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub files: u64,
    pub copied_bytes: u64,
    /// Of files that the backup shares with the store or with an earlier backup.
    pub linked_bytes: u64,
}

/// A backup that is being made. Dropped before [`Backup::finish`], it leaves a directory that the next one removes.
pub struct Backup {
    place: PathBuf,
    name: String,
    /// Earlier backups, newest first.
    earlier: Vec<PathBuf>,
    figures: Figures,
    _lock: File,
}

impl Backup {
    /// Begins the backup `name` in the directory `place`, which is made where it is missing. One backup at a time may be made
    /// in a place ([`OpenError::InUse`]).
    pub fn begin(place: &Path, name: &str) -> Result<Self, OpenError> {
        make_dir(place).map_err(OpenError::io(place))?;
        let lock_path = place.join(LOCK_FILE);
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(OpenError::io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { dir: place.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(OpenError::Io { path: lock_path, source }),
        }
        let mut earlier = Vec::new();
        for entry in fs::read_dir(place).map_err(OpenError::io(place))? {
            let path = entry.map_err(OpenError::io(place))?.path();
            if path.join(MANIFEST).is_file() {
                earlier.push(path);
            } else if path.to_string_lossy().ends_with(PARTIAL_SUFFIX) {
                fs::remove_dir_all(&path).map_err(OpenError::io(&path))?;
            }
        }
        earlier.sort();
        earlier.reverse();
        let backup = Self {
            place: place.to_owned(),
            name: name.to_owned(),
            earlier,
            figures: Figures::default(),
            _lock: lock,
        };
        if backup.path().exists() {
            let reason = "there is a backup of this name already".to_owned();
            return Err(OpenError::Invalid { path: backup.path(), reason });
        }
        make_dir(&backup.partial()).map_err(OpenError::io(backup.partial()))?;
        Ok(backup)
    }

    /// Where the backup will be.
    pub fn path(&self) -> PathBuf {
        self.place.join(&self.name)
    }

    /// Where the caller puts the copy of the index: after [`Backup::copy_store`].
    pub fn index(&self) -> PathBuf {
        self.partial().join(data_dir::INDEX)
    }

    fn partial(&self) -> PathBuf {
        self.place.join(format!("{}{PARTIAL_SUFFIX}", self.name))
    }

    /// Copies all but the index of the store in `data_dir`. `progress` is told each file's name when it is there.
    pub fn copy_store(&mut self, data_dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), OpenError> {
        let to = self.partial();
        self.copy_plain_files(data_dir, &to, progress)?;
        let (incoming, incoming_copy) = (data_dir.join(data_dir::INCOMING), to.join(data_dir::INCOMING));
        self.copy_plain_files(&incoming, &incoming_copy, progress)?;
        self.copy_log(&incoming, &incoming_copy, progress)?;
        let (aggregates, aggregates_copy) =
            (data_dir.join(data_dir::AGGREGATES), to.join(data_dir::AGGREGATES));
        self.copy_log(&log_dir(&aggregates), &log_dir(&aggregates_copy), progress)?;
        self.copy_runs(&runs_dir(&aggregates), &runs_dir(&aggregates_copy), progress)?;
        // After the runs: what they say of the store is not older than the store.
        self.copy_plain_files(&aggregates, &aggregates_copy, progress)?;
        segments::continue_behind(&incoming, &incoming_copy)
    }

    /// Small files that are replaced as a whole: versions, identities, checkpoints.
    fn copy_plain_files(
        &mut self,
        from: &Path,
        to: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), OpenError> {
        make_dir(to).map_err(OpenError::io(to))?;
        for name in file_names(from).map_err(OpenError::io(from))? {
            let is_plain = segments::number_of(&name).is_none()
                && !data_dir::NOT_COPIED.contains(&name.as_str())
                && ![".tmp", ".spare", ".unreadable"].iter().any(|suffix| name.ends_with(suffix));
            if !is_plain {
                continue;
            }
            if let Some(bytes) =
                copy_small(&from.join(&name), &to.join(&name)).map_err(OpenError::io(from.join(&name)))?
            {
                self.count(&name, bytes, 0, progress);
            }
        }
        Ok(())
    }

    /// The segments of a log, oldest first, so that only the last one can end in the middle.
    fn copy_log(&mut self, from: &Path, to: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), OpenError> {
        make_dir(to).map_err(OpenError::io(to))?;
        for number in segments::numbers(from).map_err(OpenError::io(from))? {
            let name = segments::file_name(number);
            let copied = copy_growing(&from.join(&name), &to.join(&name));
            if let Some(bytes) = copied.map_err(OpenError::io(from.join(&name)))? {
                self.count(&name, bytes, 0, progress);
            }
        }
        Ok(())
    }

    /// The runs that together have everything: a listing counts once it is the same before and after its files are there, since
    /// a merged run appears before those that it replaces go.
    fn copy_runs(&mut self, from: &Path, to: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), OpenError> {
        make_dir(to).map_err(OpenError::io(to))?;
        let mut there = BTreeSet::new();
        for _ in 0..LISTINGS_MAX {
            let listed = run_files(from).map_err(OpenError::io(from))?;
            for name in &listed {
                if !there.contains(name) && self.copy_run(from, to, name, progress)? {
                    there.insert(name.clone());
                }
            }
            if run_files(from).map_err(OpenError::io(from))? == listed && listed.is_subset(&there) {
                for replaced in there.difference(&listed) {
                    fs::remove_file(to.join(replaced)).map_err(OpenError::io(to.join(replaced)))?;
                }
                return Ok(());
            }
        }
        let reason = format!("its files changed {LISTINGS_MAX} times while they were copied: try again");
        Err(OpenError::Invalid { path: from.to_owned(), reason })
    }

    /// Whether it was still there.
    fn copy_run(
        &mut self,
        from: &Path,
        to: &Path,
        name: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<bool, OpenError> {
        let relative = runs_dir(Path::new(data_dir::AGGREGATES)).join(name);
        let earlier: Vec<PathBuf> = self.earlier.iter().map(|backup| backup.join(&relative)).collect();
        let done = link_or_copy(&from.join(name), &to.join(name), &earlier);
        let Some(bytes) = done.map_err(OpenError::io(from.join(name)))? else { return Ok(false) };
        self.count(name, bytes.copied, bytes.linked, progress);
        Ok(true)
    }

    fn count(&mut self, name: &str, copied: u64, linked: u64, progress: &mut dyn FnMut(&str)) {
        self.figures.files += 1;
        self.figures.copied_bytes += copied;
        self.figures.linked_bytes += linked;
        progress(name);
    }

    /// Makes the backup durable and gives it its name, once the index is in its place.
    pub fn finish(mut self) -> Result<Figures, OpenError> {
        let (partial, path) = (self.partial(), self.path());
        let index = self.index();
        let index_bytes = fs::metadata(&index).map_err(OpenError::io(&index))?.len();
        self.count(data_dir::INDEX, index_bytes, 0, &mut |_| {});
        let manifest = Manifest::of(&partial).map_err(OpenError::io(&partial))?;
        manifest.write(&partial).map_err(OpenError::io(&partial))?;
        fs::rename(&partial, &path).map_err(OpenError::io(&path))?;
        sync_dir(&self.place).map_err(OpenError::io(&self.place))?;
        Ok(self.figures)
    }
}

/// A directory for its owner only, and its parents, durably.
fn make_dir(path: &Path) -> io::Result<()> {
    LocalDisk.create_dir(path)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The names of the files in a directory; none where there is no directory.
fn file_names(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // One that is gone by now is none.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}
