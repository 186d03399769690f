//! Restores a backup into a new data directory, completely or not at all.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::{Figures, MANIFEST, OnProgress, PARTIAL_SUFFIX, copy::copy_whole, manifest::Manifest};
use crate::{
    OpenError,
    data_dir::{self, LOCK_FILE, RESTORING},
    disk::{Disk as _, LocalDisk, if_there, parent_of, with_suffix},
    owner::KeepOwner,
};

/// What a new file system may have at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// `path` itself if it is a backup, otherwise the newest backup in it by `time_of` its name. Without a time, such as after a
/// renaming, it counts only if there is no other.
pub fn newest<T: Ord>(path: &Path, time_of: impl Fn(&OsStr) -> Option<T>) -> Result<PathBuf, OpenError> {
    if path.join(MANIFEST).is_file() {
        return Ok(path.to_owned());
    }
    let mut backups = Vec::new();
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let backup = entry.map_err(OpenError::io(path))?.path();
        // The manifest of an interrupted one may be cut short.
        let is_interrupted = backup.to_string_lossy().ends_with(PARTIAL_SUFFIX);
        if !is_interrupted && backup.join(MANIFEST).is_file() {
            backups.push(backup);
        }
    }
    let time = |backup: &PathBuf| backup.file_name().and_then(&time_of);
    let newest = backups.iter().filter_map(|backup| Some((time(backup)?, backup))).max();
    let reason = match (newest, backups.as_slice()) {
        (Some((_, newest)), _) => return Ok(newest.clone()),
        (None, [only]) => return Ok(only.clone()),
        (None, []) => format!("no backup, and none in it: there is no {MANIFEST}"),
        (None, _) => "the names of its backups do not say which is the newest: name one of them".to_owned(),
    };
    Err(OpenError::invalid(path, reason))
}

/// Copies `backup` to `data_dir`, which must be missing or empty. Changes nothing there before all files
/// match the manifest. Removes leftovers of an interrupted call. Only one restore at a time is possible into a directory
/// ([`OpenError::InUse`]): the copy is locked, and keeps its lock file as the store's.
pub fn restore(backup: &Path, data_dir: &Path, progress: OnProgress<'_>) -> Result<Figures, OpenError> {
    let manifest = Manifest::read(backup)?;
    // The copy lies beside the directory, so its name must not end with a slash or a dot.
    let real = if_there(fs::canonicalize(data_dir)).map_err(OpenError::io(data_dir))?;
    let data_dir = &real.unwrap_or_else(|| data_dir.components().collect());
    if is_mount_point(data_dir).map_err(OpenError::io(data_dir))? {
        return restore_within(&manifest, backup, data_dir, progress);
    }
    check_empty(data_dir, |_| false)?;
    let restoring = with_suffix(data_dir, RESTORING);
    LocalDisk.create_dir(&restoring).map_err(OpenError::io(&restoring))?;
    let _lock = data_dir::lock(&restoring)?;
    clear(&restoring)?;
    let figures = copy_files(&manifest, backup, &restoring, progress)?;
    fs::rename(&restoring, data_dir).map_err(OpenError::io(data_dir))?;
    let parent = parent_of(data_dir);
    LocalDisk.sync_dir(parent).map_err(OpenError::io(parent))?;
    Ok(figures)
}

/// Restores into a mount point. A rename cannot replace it, and the file system beside it may lack space. So the files are
/// copied to the folder [`RESTORING`] within it, and moved up once all are complete. Servers refuse the directory while that
/// folder exists.
fn restore_within(
    manifest: &Manifest,
    backup: &Path,
    data_dir: &Path,
    progress: OnProgress<'_>,
) -> Result<Figures, OpenError> {
    let restoring = data_dir.join(RESTORING);
    let names: BTreeSet<&OsStr> = manifest.files.keys().filter_map(|file| file.iter().next()).collect();
    let is_interrupted = restoring.exists();
    if !is_interrupted {
        check_empty(data_dir, |name| name == LOST_AND_FOUND)?;
        LocalDisk.create_dir(&restoring).map_err(OpenError::io(&restoring))?;
    }
    let _lock = data_dir::lock(&restoring)?;
    let _owner = KeepOwner::of(data_dir);
    if is_interrupted {
        // An interrupted call may have moved some of these files: remove them. Refuse a directory with any other file, and
        // keep the folder, so that servers go on to refuse it, too.
        let is_known = |name: &OsStr| name == RESTORING || name == LOST_AND_FOUND || names.contains(name);
        if let Some(path) = first_unknown(data_dir, is_known)? {
            let reason = "this backup has no such file: restore the backup whose restore was interrupted, or empty the \
                          directory";
            return Err(OpenError::invalid(path, reason));
        }
        names.iter().try_for_each(|name| remove_if_there(&data_dir.join(name)))?;
        clear(&restoring)?;
    }
    let figures = copy_files(manifest, backup, &restoring, progress)?;
    for name in names {
        let to = data_dir.join(name);
        fs::rename(restoring.join(name), &to).map_err(OpenError::io(&to))?;
    }
    LocalDisk.sync_dir(data_dir).map_err(OpenError::io(data_dir))?;
    remove_if_there(&restoring)?;
    LocalDisk.sync_dir(data_dir).map_err(OpenError::io(data_dir))?;
    Ok(figures)
}

/// Whether a file system, or a directory of one, is mounted there.
fn is_mount_point(dir: &Path) -> io::Result<bool> {
    let Some(found) = if_there(fs::metadata(dir))? else { return Ok(false) };
    // Linux before 5.8 does not report it for a directory of the same file system.
    let is_root = statx(CWD, dir, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    Ok(is_root || found.dev() != fs::metadata(parent_of(dir))?.dev())
}

fn check_empty(data_dir: &Path, is_ignored: impl Fn(&OsStr) -> bool) -> Result<(), OpenError> {
    if first_unknown(data_dir, is_ignored)?.is_none() {
        return Ok(());
    }
    Err(OpenError::invalid(data_dir, "not empty: a backup is restored into a missing or empty directory"))
}

/// The path of something in the directory whose name is not known.
fn first_unknown(data_dir: &Path, is_known: impl Fn(&OsStr) -> bool) -> Result<Option<PathBuf>, OpenError> {
    let entries = if_there(fs::read_dir(data_dir)).map_err(OpenError::io(data_dir))?;
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(OpenError::io(data_dir))?;
        if !is_known(&entry.file_name()) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Removes what an interrupted call has copied.
fn clear(restoring: &Path) -> Result<(), OpenError> {
    while let Some(path) = first_unknown(restoring, |name| name == LOCK_FILE)? {
        remove_if_there(&path)?;
    }
    Ok(())
}

/// Removes a file, or a directory with all that it has.
fn remove_if_there(path: &Path) -> Result<(), OpenError> {
    let removed = if_there(fs::symlink_metadata(path)).and_then(|found| match found {
        None => Ok(()),
        Some(found) if found.is_dir() => fs::remove_dir_all(path),
        Some(_) => fs::remove_file(path),
    });
    removed.map_err(OpenError::io(path))
}

/// Copies all files durably, and verifies their checksums. Removes the copy if that fails.
fn copy_files(
    manifest: &Manifest,
    backup: &Path,
    to: &Path,
    progress: OnProgress<'_>,
) -> Result<Figures, OpenError> {
    let mut copy = || -> Result<Figures, OpenError> {
        let mut figures = Figures::default();
        for (file, entry) in &manifest.files {
            let (from, to) = (backup.join(file), to.join(file));
            let dir = to.parent().expect("a file lies in a directory");
            LocalDisk.create_dir(dir).map_err(OpenError::io(dir))?;
            let copied = copy_whole(&from, &to, &mut |bytes| {
                figures.copied_bytes += bytes;
                progress(&figures);
            });
            entry.check(&from, copied.map_err(OpenError::io(&from))?)?;
            figures.files += 1;
        }
        for dir in manifest.files.keys().filter_map(|file| file.parent()) {
            LocalDisk.sync_dir(&to.join(dir)).map_err(OpenError::io(to.join(dir)))?;
        }
        Ok(figures)
    };
    // The next call removes what is left.
    copy().inspect_err(|_| drop(remove_if_there(to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backup::manifest::Entry, data_dir::DataDir};

    /// A backup with a file and a folder.
    fn make_backup(root: &Path) -> PathBuf {
        let backup = root.join("backup");
        fs::create_dir_all(backup.join("incoming")).unwrap();
        let names = ["format-version", "incoming/identity"];
        for name in names {
            fs::write(backup.join(name), "1\n").unwrap();
        }
        let entry = Entry { bytes: 2, checksum: Some(crc_fast::crc32_iscsi(b"1\n")), is_final: true };
        Manifest::new(names.map(|name| (PathBuf::from(name), entry)).into()).write(&backup).unwrap();
        backup
    }

    #[test]
    fn a_directory_is_named_with_a_slash_or_a_dot_too() {
        let root = tempfile::tempdir().unwrap();
        let backup = make_backup(root.path());
        for name in ["empty", "dotted"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        for name in ["new/", "empty/", "dotted/."] {
            let data_dir = root.path().join(name);
            restore(&backup, &data_dir, &mut |_| {}).unwrap();
            assert_eq!(fs::read_to_string(data_dir.join("format-version")).unwrap(), "1\n", "{name}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 4, "nothing is left over");
    }

    #[test]
    fn only_one_restore_at_a_time_writes_to_a_directory() {
        type Restore<'a> = &'a dyn Fn(OnProgress<'_>) -> Result<Figures, OpenError>;
        let root = tempfile::tempdir().unwrap();
        let backup = make_backup(root.path());
        let manifest = Manifest::read(&backup).unwrap();
        let disk = root.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let beside = |progress: OnProgress<'_>| restore(&backup, &root.path().join("data"), progress);
        let within = |progress: OnProgress<'_>| restore_within(&manifest, &backup, &disk, progress);
        for restore in [&beside as Restore<'_>, &within] {
            let mut second = None;
            let mut progress = |_: &Figures| {
                second.get_or_insert_with(|| restore(&mut |_| {}));
            };
            assert_eq!(restore(&mut progress).unwrap().files, 2);
            assert!(matches!(second, Some(Err(OpenError::InUse { .. }))), "{second:?}");
        }
    }

    #[test]
    fn an_interrupted_backup_is_not_the_newest() {
        let root = tempfile::tempdir().unwrap();
        let backup = make_backup(root.path());
        let partial = root.path().join("backup.partial");
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join(MANIFEST), "{").unwrap();
        assert_eq!(newest(root.path(), |_| None::<()>).unwrap(), backup);
    }

    #[test]
    fn a_backup_that_was_renamed_is_not_the_newest() {
        let root = tempfile::tempdir().unwrap();
        let rename = |name: &str| {
            let renamed = root.path().join(name);
            fs::rename(make_backup(root.path()), &renamed).unwrap();
            renamed
        };
        let time_of = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
        let renamed = rename("before-upgrade");
        assert_eq!(newest(root.path(), time_of).unwrap(), renamed, "the only one");
        rename("old");
        let refused = newest(root.path(), time_of).unwrap_err().to_string();
        assert!(refused.contains("name one of them"), "{refused}");
        let (_, second) = (rename("1"), rename("2"));
        assert_eq!(newest(root.path(), time_of).unwrap(), second);
        assert_eq!(newest(&renamed, time_of).unwrap(), renamed);
    }

    #[test]
    fn mount_points_are_recognised() {
        let root = tempfile::tempdir().unwrap();
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        assert!(!is_mount_point(root.path()).unwrap());
        assert!(!is_mount_point(&root.path().join("missing")).unwrap());
    }

    #[test]
    fn a_restore_within_a_directory_begins_anew_after_an_interruption() {
        let root = tempfile::tempdir().unwrap();
        let (backup, data_dir) = (make_backup(root.path()), root.path().join("disk"));
        // An interrupted one had moved a folder.
        for name in [LOST_AND_FOUND, RESTORING, "incoming"] {
            fs::create_dir_all(data_dir.join(name)).unwrap();
        }
        fs::write(data_dir.join("incoming/earlier"), "").unwrap();
        let refused = DataDir::open(&data_dir).err().unwrap().to_string();
        assert!(refused.contains("interrupted restore"), "{refused}");
        let manifest = Manifest::read(&backup).unwrap();
        let again = || restore_within(&manifest, &backup, &data_dir, &mut |_| {});
        assert_eq!(again().unwrap().files, 2);
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).unwrap();
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
            entries.map(name).collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(names(&data_dir), ["format-version", "incoming", LOST_AND_FOUND]);
        assert_eq!(names(&data_dir.join("incoming")), ["identity"]);
        DataDir::open(&data_dir).unwrap();
        assert!(again().unwrap_err().to_string().contains("not empty"));
    }

    #[test]
    fn an_interrupted_restore_of_another_backup_keeps_servers_away() {
        let root = tempfile::tempdir().unwrap();
        let (backup, data_dir) = (make_backup(root.path()), root.path().join("disk"));
        // That backup had aggregates, which were moved.
        for name in [RESTORING, "aggregates", "incoming"] {
            fs::create_dir_all(data_dir.join(name)).unwrap();
        }
        let manifest = Manifest::read(&backup).unwrap();
        let again = || restore_within(&manifest, &backup, &data_dir, &mut |_| {});
        let refused = again().unwrap_err().to_string();
        assert!(refused.contains("disk/aggregates") && refused.contains("no such file"), "{refused}");
        let refused = DataDir::open(&data_dir).err().unwrap().to_string();
        assert!(refused.contains("interrupted restore"), "{refused}");
        assert!(data_dir.join("incoming").exists(), "nothing was removed");
        fs::remove_dir(data_dir.join("aggregates")).unwrap();
        assert_eq!(again().unwrap().files, 2);
        DataDir::open(&data_dir).unwrap();
    }
}
