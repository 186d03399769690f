//! Restores a backup into a new data directory, completely or not at all.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Figures, MANIFEST, OnProgress, copy::copy_whole, make_dir, manifest::Manifest, sync_dir};
use crate::{
    OpenError,
    disk::{if_there, parent_of, with_suffix},
};

/// Name suffix of a directory being restored.
const RESTORING_SUFFIX: &str = ".restoring";

/// `path` itself if it is a backup, otherwise the newest backup in it.
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

/// Copies `backup` to `data_dir`, which must be missing or empty. Changes nothing there before all files
/// match the manifest. Removes leftovers of an interrupted call.
pub fn restore(backup: &Path, data_dir: &Path, progress: OnProgress<'_>) -> Result<Figures, OpenError> {
    let manifest = Manifest::read(backup)?;
    check_empty(data_dir)?;
    // The copy lies beside the directory, so its name must not end with a slash or a dot.
    let real = if_there(fs::canonicalize(data_dir)).map_err(OpenError::io(data_dir))?;
    let data_dir = &real.unwrap_or_else(|| data_dir.components().collect());
    let restoring = with_suffix(data_dir, RESTORING_SUFFIX);
    remove_if_there(&restoring)?;
    let figures = match copy_files(&manifest, backup, &restoring, progress) {
        Ok(figures) => figures,
        Err(error) => {
            // The next call removes what is left.
            remove_if_there(&restoring).ok();
            return Err(error);
        }
    };
    fs::rename(&restoring, data_dir).map_err(OpenError::io(data_dir))?;
    let parent = parent_of(data_dir);
    sync_dir(parent).map_err(OpenError::io(parent))?;
    Ok(figures)
}

fn check_empty(data_dir: &Path) -> Result<(), OpenError> {
    let entries = if_there(fs::read_dir(data_dir)).map_err(OpenError::io(data_dir))?;
    if entries.is_some_and(|mut entries| entries.next().is_some()) {
        let reason = "not empty: a backup is restored into a directory of its own".to_owned();
        return Err(OpenError::Invalid { path: data_dir.to_owned(), reason });
    }
    Ok(())
}

fn remove_if_there(dir: &Path) -> Result<(), OpenError> {
    if_there(fs::remove_dir_all(dir)).map(drop).map_err(OpenError::io(dir))
}

/// Copies all files durably, and verifies their checksums.
fn copy_files(
    manifest: &Manifest,
    backup: &Path,
    to: &Path,
    progress: OnProgress<'_>,
) -> Result<Figures, OpenError> {
    let mut figures = Figures::default();
    for (file, entry) in &manifest.files {
        let (from, to) = (backup.join(file), to.join(file));
        let dir = to.parent().expect("a file lies in a directory");
        make_dir(dir).map_err(OpenError::io(dir))?;
        let copied = copy_whole(&from, &to, &mut |bytes| {
            figures.copied_bytes += bytes;
            progress(&figures);
        });
        entry.check(&from, copied.map_err(OpenError::io(&from))?)?;
        figures.files += 1;
    }
    for dir in manifest.files.keys().filter_map(|file| file.parent()) {
        sync_dir(&to.join(dir)).map_err(OpenError::io(to.join(dir)))?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::Entry;

    #[test]
    fn a_directory_is_named_with_a_slash_or_a_dot_too() {
        let root = tempfile::tempdir().unwrap();
        let backup = root.path().join("backup");
        for name in ["backup", "empty", "dotted"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        fs::write(backup.join("format-version"), "1\n").unwrap();
        let entry = Entry { bytes: 2, checksum: Some(crc_fast::crc32_iscsi(b"1\n")), is_final: true };
        Manifest::new([("format-version".into(), entry)].into()).write(&backup).unwrap();
        for name in ["new/", "empty/", "dotted/."] {
            let data_dir = root.path().join(name);
            restore(&backup, &data_dir, &mut |_| {}).unwrap();
            assert_eq!(fs::read_to_string(data_dir.join("format-version")).unwrap(), "1\n", "{name}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 4, "nothing is left over");
    }
}
