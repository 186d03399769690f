//! The owner of a store's files. Root runs `gnudi export gnocchi` or `gnudi verify --repair` on a store whose server is
//! another user: what root creates there would keep that server from starting.

use std::{
    ffi::CStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, open, openat, statat},
    io::{Errno, Result},
    process::geteuid,
};

/// What is in a directory and not of the store: a new file system may have the last at its root.
const OTHERS: [&CStr; 3] = [c".", c"..", c"lost+found"];
/// A symbolic link leads out of the store.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// When dropped, gives all that belongs to root in a directory of another user to that user. To be dropped before the
/// directory's lock.
#[derive(Debug)]
pub struct KeepOwner(PathBuf);

impl KeepOwner {
    pub fn of(dir: &Path) -> Self {
        Self(dir.to_owned())
    }
}

impl Drop for KeepOwner {
    fn drop(&mut self) {
        if !geteuid().is_root() {
            return;
        }
        if let Err(error) = give_all(&self.0) {
            tracing::warn!("{}: some files may still belong to root: {error}", self.0.display());
        }
    }
}

fn give_all(path: &Path) -> Result<()> {
    let dir = match open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        dir => dir?,
    };
    let found = fstat(&dir)?;
    let (owner, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
    if owner.is_root() { Ok(()) } else { give_within(&dir, owner, group) }
}

fn give_within(dir: &OwnedFd, owner: Uid, group: Gid) -> Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if OTHERS.contains(&name) {
            continue;
        }
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_dir {
            give_within(&openat(dir, name, DIRECTORY, Mode::empty())?, owner, group)?;
        }
        // A file with several names may also be outside of the directory.
        let is_here = is_dir || found.st_nlink == 1;
        if is_here && Uid::from_raw(found.st_uid).is_root() {
            chownat(dir, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, chown, symlink},
    };

    use crate::data_dir::DataDir;

    const USER: u32 = 12_345;
    const GROUP: u32 = 23_456;

    #[test]
    fn what_root_creates_in_a_store_belongs_to_its_user() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("outside"), "").unwrap();
        fs::write(path("linked"), "").unwrap();
        fs::create_dir(path("store")).unwrap();
        if chown(path("store"), Some(USER), Some(GROUP)).is_err() {
            return; // Only root can do this.
        }
        let dir = DataDir::open(&path("store")).unwrap();
        fs::create_dir_all(path("store/incoming/quarantine")).unwrap();
        fs::write(path("store/incoming/quarantine/kept"), "").unwrap();
        fs::create_dir(path("store/lost+found")).unwrap();
        fs::write(path("store/another"), "").unwrap();
        chown(path("store/another"), Some(USER + 1), Some(GROUP)).unwrap();
        symlink(path("outside"), path("store/link")).unwrap();
        fs::hard_link(path("linked"), path("store/linked")).unwrap();
        drop(dir);
        let owner = |name: &str| fs::metadata(path(name)).unwrap().uid();
        for name in ["store/lock", "store/format-version", "store/incoming/quarantine/kept"] {
            assert_eq!((name, owner(name)), (name, USER));
            assert_eq!(fs::metadata(path(name)).unwrap().gid(), GROUP, "{name}");
        }
        assert_eq!(owner("store/another"), USER + 1, "it does not belong to root");
        for name in ["outside", "linked", "store/lost+found"] {
            assert_eq!((name, owner(name)), (name, 0), "it is not of the store");
        }
    }
}
