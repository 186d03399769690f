//! Earlier backups in the same place, whose files need not be copied again.
//!
//! A file is the same if the store no longer changes it, neither then nor now, and it has the same length and
//! modification time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    MANIFEST, PARTIAL_SUFFIX,
    copy::{is_same_file, link, looks_alike},
    manifest::{Entry, Manifest},
};
use crate::{OpenError, data_dir::VERSION_FILE, disk::if_there};

/// The backups in a place.
#[derive(Default)]
pub(super) struct Earlier {
    /// Complete ones, newest first.
    whole: Vec<(PathBuf, Manifest)>,
    /// Directories of interrupted ones.
    interrupted: Vec<PathBuf>,
    /// Why others are not used.
    pub damaged: Vec<OpenError>,
}

impl Earlier {
    pub fn find(place: &Path) -> Result<Self, OpenError> {
        let mut found = Self::default();
        let mut backups = Vec::new();
        for entry in fs::read_dir(place).map_err(OpenError::io(place))? {
            let path = entry.map_err(OpenError::io(place))?.path();
            if is_interrupted(&path) {
                found.interrupted.push(path);
            } else if path.join(MANIFEST).is_file() {
                backups.push(path);
            }
        }
        backups.sort();
        for path in backups.into_iter().rev() {
            match Manifest::read(&path) {
                Ok(manifest) => found.whole.push((path, manifest)),
                Err(error) => found.damaged.push(error),
            }
        }
        Ok(found)
    }

    /// The earlier manifests' entry for `file`, if it is the same inode as `now`.
    pub fn entry_of(&self, file: &Path, now: &fs::Metadata) -> Option<Entry> {
        self.finals(file).find_map(|(path, entry)| {
            fs::metadata(path).is_ok_and(|then| is_same_file(&then, now)).then_some(entry)
        })
    }

    /// Links `file` of an interrupted backup as `to`, if it matches `now`; false if there is none.
    pub fn link_interrupted(&self, file: &Path, now: &fs::Metadata, to: &Path) -> bool {
        self.interrupted.iter().any(|dir| link_alike(&dir.join(file), now, to))
    }

    /// Links `file` of a complete backup as `to`, if it matches `now`; its manifest entry, or `None` if there is none.
    pub fn link_whole(&self, file: &Path, now: &fs::Metadata, to: &Path) -> Option<Entry> {
        self.finals(file).find_map(|(path, entry)| link_alike(&path, now, to).then_some(entry))
    }

    /// The paths and entries of `file` in its final state, newest backup first.
    fn finals(&self, file: &Path) -> impl Iterator<Item = (PathBuf, Entry)> {
        self.whole.iter().filter_map(move |(dir, manifest)| {
            let entry = manifest.files.get(file).filter(|entry| entry.is_final)?;
            Some((dir.join(file), *entry))
        })
    }

    /// Removes the interrupted backups, but for an empty directory that another program has filled meanwhile.
    pub fn remove_interrupted(&self) -> Result<(), OpenError> {
        let mut interrupted = self.interrupted.iter().filter(|path| is_interrupted(path));
        interrupted.try_for_each(|path| remove(path).map_err(OpenError::io(path)))
    }
}

/// Whether this is an interrupted backup, not something of another program: a directory with such a name that is empty, or
/// has the first file of a data directory. A path that cannot be read is another user's, or gone by now.
fn is_interrupted(path: &Path) -> bool {
    let has_name = path.to_string_lossy().ends_with(PARTIAL_SUFFIX);
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    has_name
        && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
        && (path.join(VERSION_FILE).is_file() || is_empty())
}

/// Removes an interrupted backup.
fn remove(path: &Path) -> io::Result<()> {
    clear(path)?;
    if_there(fs::remove_file(path.join(VERSION_FILE)))?;
    fs::remove_dir(path)
}

/// Removes all but the file by which it is recognised: if this process is killed here, the next backup removes the rest.
fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != VERSION_FILE {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn link_alike(path: &Path, now: &fs::Metadata, to: &Path) -> bool {
    fs::metadata(path).is_ok_and(|then| looks_alike(&then, now)) && link(path, to).is_ok_and(|done| done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interrupted_backups_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for dir in ["empty.partial", "begun.partial", "others.partial"] {
            fs::create_dir(path(dir)).unwrap();
        }
        for file in ["begun.partial/format-version", "others.partial/image", "file.partial"] {
            fs::write(path(file), "1").unwrap();
        }
        Earlier::find(place.path()).unwrap().remove_interrupted().unwrap();
        let mut left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["file.partial", "others.partial"]);
    }

    #[test]
    fn what_others_do_in_the_place_fails_no_backup() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("empty.partial")).unwrap();
        let earlier = Earlier::find(place.path()).unwrap();
        assert_eq!(earlier.interrupted, [path("empty.partial")]);
        // The directory was another program's, which now fills it.
        fs::write(path("empty.partial/image"), "1").unwrap();
        earlier.remove_interrupted().unwrap();
        assert!(path("empty.partial/image").exists());
        // A directory that was removed since the place was listed.
        assert!(!is_interrupted(&path("gone.partial")));
    }

    #[test]
    fn a_removal_that_is_interrupted_is_completed() {
        let place = tempfile::tempdir().unwrap();
        let partial = place.path().join("begun.partial");
        fs::create_dir_all(partial.join("aggregates/runs")).unwrap();
        fs::write(partial.join("format-version"), "1\n").unwrap();
        fs::write(partial.join("manifest.json"), "{").unwrap();
        clear(&partial).unwrap();
        let left: Vec<_> = fs::read_dir(&partial).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["format-version"]);
        Earlier::find(place.path()).unwrap().remove_interrupted().unwrap();
        assert!(!partial.exists());
    }
}
