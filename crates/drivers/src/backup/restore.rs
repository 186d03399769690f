//! Putting a backup back: into a data directory that is not there yet, whole or not at all.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{MANIFEST, copy::copy_whole, make_dir, manifest::Manifest, sync_dir};
use crate::{
    OpenError,
    disk::{parent_of, with_suffix},
};

/// What a data directory is called while it is restored.
const RESTORING_SUFFIX: &str = ".restoring";

/// The backup that `path` names: itself, or the newest one in a place of backups.
pub fn newest(path: &Path) -> Result<PathBuf, OpenError> {
    if path.join(MANIFEST).is_file() {
        return Ok(path.to_owned());
    }
    let mut backups = Vec::new();
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let backup = entry.map_err(OpenError::io(path))?.path();
        if backup.join(MANIFEST).is_file() {
            backups.push(backup);
        }
    }
    backups.into_iter().max().ok_or_else(|| OpenError::Invalid {
        path: path.to_owned(),
        reason: format!("no backup, and none in it: there is no {MANIFEST}"),
    })
}

/// Copies `backup` to `data_dir`, which must be missing or empty, and answers its bytes. What an interrupted call left
/// behind is removed.
pub fn restore(backup: &Path, data_dir: &Path, progress: &mut dyn FnMut(&Path)) -> Result<u64, OpenError> {
    let manifest = Manifest::read(backup)?;
    match fs::remove_dir(data_dir) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            let reason = "not empty: a backup is restored into a directory of its own".to_owned();
            return Err(OpenError::Invalid { path: data_dir.to_owned(), reason });
        }
        Err(source) => return Err(OpenError::Io { path: data_dir.to_owned(), source }),
    }
    let restoring = with_suffix(data_dir, RESTORING_SUFFIX);
    if restoring.exists() {
        fs::remove_dir_all(&restoring).map_err(OpenError::io(&restoring))?;
    }
    for file in manifest.files.keys() {
        let to = restoring.join(file);
        let dir = to.parent().expect("a file lies in a directory");
        make_dir(dir).map_err(OpenError::io(dir))?;
        let source = File::open(backup.join(file)).map_err(OpenError::io(backup.join(file)))?;
        copy_whole(source, &to).map_err(OpenError::io(&to))?;
        progress(file);
    }
    for dir in manifest.files.keys().filter_map(|file| file.parent()) {
        sync_dir(&restoring.join(dir)).map_err(OpenError::io(restoring.join(dir)))?;
    }
    fs::rename(&restoring, data_dir).map_err(OpenError::io(data_dir))?;
    let parent = parent_of(data_dir);
    sync_dir(parent).map_err(OpenError::io(parent))?;
    Ok(manifest.files.values().sum())
}
