//! `backup.json`: that a backup is whole, and of what files it consists.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{file_names, sync_dir};
use crate::OpenError;

/// The name of the manifest in a backup.
pub const MANIFEST: &str = "backup.json";
/// What this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format_version: u32,
    /// Bytes of each file, by its path within the backup.
    pub files: BTreeMap<PathBuf, u64>,
}

impl Manifest {
    /// Of all files below `dir`.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        collect(dir, Path::new(""), &mut files)?;
        Ok(Self { format_version: FORMAT_VERSION, files })
    }

    /// Writes it into `dir`, durably, together with the names of all files.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(MANIFEST);
        fs::write(&path, serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        File::open(&path)?.sync_all()?;
        for parent in self.files.keys().filter_map(|file| file.parent()) {
            sync_dir(&dir.join(parent))?;
        }
        sync_dir(dir)
    }

    /// Of the backup in `dir`, all of whose files have the length that it says.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(MANIFEST);
        let text = fs::read(&path).map_err(OpenError::io(&path))?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| OpenError::Invalid {
            path: path.clone(),
            reason: format!("not a manifest: {error}"),
        })?;
        if manifest.format_version > FORMAT_VERSION {
            return Err(OpenError::TooNew { path, found: manifest.format_version, known: FORMAT_VERSION });
        }
        for (file, bytes) in &manifest.files {
            let path = dir.join(file);
            let found = fs::metadata(&path).map_err(OpenError::io(&path))?.len();
            if found != *bytes {
                let reason = format!("{found} bytes, but {MANIFEST} says {bytes}: the backup is damaged");
                return Err(OpenError::Invalid { path, reason });
            }
        }
        Ok(manifest)
    }
}

fn collect(root: &Path, below: &Path, files: &mut BTreeMap<PathBuf, u64>) -> io::Result<()> {
    let dir = root.join(below);
    for name in file_names(&dir)? {
        files.insert(below.join(&name), fs::metadata(dir.join(&name))?.len());
    }
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(root, &below.join(entry.file_name()), files)?;
        }
    }
    Ok(())
}
