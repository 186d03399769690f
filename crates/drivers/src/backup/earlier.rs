//! What earlier backups in the same place have: files that need not be copied again.
//!
//! A file counts as the same if the store does not change it any more, then or now, and it has the same length and time of change.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    MANIFEST, PARTIAL_SUFFIX,
    copy::{is_same_file, link, looks_alike},
    manifest::{Entry, Manifest},
};
use crate::OpenError;

/// The backups in a place.
#[derive(Default)]
pub(super) struct Earlier {
    /// That are whole, newest first.
    whole: Vec<(PathBuf, Manifest)>,
    /// What interrupted ones left.
    interrupted: Vec<PathBuf>,
    /// What is wrong with those that are not whole.
    pub damaged: Vec<OpenError>,
}

/// A file that is shared with an earlier backup.
pub(super) struct Linked {
    /// What the manifest says of it, if there is one.
    pub entry: Option<Entry>,
}

impl Earlier {
    pub fn find(place: &Path) -> Result<Self, OpenError> {
        let mut found = Self::default();
        let mut backups = Vec::new();
        for entry in fs::read_dir(place).map_err(OpenError::io(place))? {
            let path = entry.map_err(OpenError::io(place))?.path();
            if path.to_string_lossy().ends_with(PARTIAL_SUFFIX) {
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

    /// What the manifest of an earlier backup says of `file`, if it is the same file of the file system as `now`.
    pub fn entry_of(&self, file: &Path, now: &fs::Metadata) -> Option<Entry> {
        self.finals(file).find_map(|(path, entry)| {
            fs::metadata(path).is_ok_and(|then| is_same_file(&then, now)).then_some(entry)
        })
    }

    /// Shares `file` of an earlier backup, which looks as `now`, under the name `to`, also of one that was interrupted; `None`
    /// where there is none.
    pub fn link(&self, file: &Path, now: &fs::Metadata, to: &Path) -> Option<Linked> {
        let whole = self.link_whole(file, now, to).map(|entry| Linked { entry: Some(entry) });
        whole.or_else(|| {
            let found = self.interrupted.iter().any(|dir| link_alike(&dir.join(file), now, to));
            found.then_some(Linked { entry: None })
        })
    }

    /// As [`Earlier::link`], of backups that are whole.
    pub fn link_whole(&self, file: &Path, now: &fs::Metadata, to: &Path) -> Option<Entry> {
        self.finals(file).find_map(|(path, entry)| link_alike(&path, now, to).then_some(entry))
    }

    /// Where backups have `file` in its final state, newest first.
    fn finals(&self, file: &Path) -> impl Iterator<Item = (PathBuf, Entry)> {
        self.whole.iter().filter_map(move |(dir, manifest)| {
            let entry = manifest.files.get(file).filter(|entry| entry.is_final)?;
            Some((dir.join(file), *entry))
        })
    }

    /// Removes what interrupted backups left.
    pub fn remove_interrupted(&self) -> Result<(), OpenError> {
        self.interrupted.iter().try_for_each(|path| fs::remove_dir_all(path).map_err(OpenError::io(path)))
    }
}

fn link_alike(path: &Path, now: &fs::Metadata, to: &Path) -> bool {
    fs::metadata(path).is_ok_and(|then| looks_alike(&then, now)) && link(path, to).is_ok_and(|done| done)
}
