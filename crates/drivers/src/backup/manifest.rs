//! `backup.json`: marks a backup as complete, and lists its files.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    OpenError,
    disk::{Disk as _, LocalDisk},
};

/// The name of the manifest in a backup.
pub const MANIFEST: &str = "backup.json";
/// The format that is written, and the newest that can be read. Version 1 had no checksums.
const FORMAT_VERSION: u32 = 2;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format_version: u32,
    /// By path within the backup.
    pub files: BTreeMap<PathBuf, Entry>,
}

/// What manifests of all formats have.
#[derive(Deserialize)]
struct Named {
    format_version: u32,
}

/// A file of the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EntryForm")]
pub(super) struct Entry {
    pub bytes: u64,
    /// CRC32C of the whole file; `None` in format 1.
    pub checksum: Option<u32>,
    /// Whether the store no longer changes the file.
    pub is_final: bool,
}

/// Both formats: an object, or the length alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum EntryForm {
    Length(u64),
    Whole { bytes: u64, checksum: u32, is_final: bool },
}

impl From<EntryForm> for Entry {
    fn from(form: EntryForm) -> Self {
        match form {
            EntryForm::Length(bytes) => Self { bytes, checksum: None, is_final: false },
            EntryForm::Whole { bytes, checksum, is_final } => {
                Self { bytes, checksum: Some(checksum), is_final }
            }
        }
    }
}

impl Manifest {
    pub fn new(files: BTreeMap<PathBuf, Entry>) -> Self {
        Self { format_version: FORMAT_VERSION, files }
    }

    /// Writes it into `dir` durably, and syncs the names of all files.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(MANIFEST);
        fs::write(&path, serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        File::open(&path)?.sync_all()?;
        for parent in self.files.keys().filter_map(|file| file.parent()) {
            LocalDisk.sync_dir(&dir.join(parent))?;
        }
        LocalDisk.sync_dir(dir)
    }

    /// Reads the manifest in `dir`, and checks all files' lengths.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(MANIFEST);
        let text = fs::read(&path).map_err(OpenError::io(&path))?;
        let invalid =
            |error: serde_json::Error| OpenError::invalid(&path, format!("not a manifest: {error}"));
        // A newer format may change everything but this.
        let Named { format_version: found } = serde_json::from_slice(&text).map_err(invalid)?;
        if found > FORMAT_VERSION {
            return Err(OpenError::TooNew { path, found, known: FORMAT_VERSION });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(invalid)?;
        for (file, entry) in &manifest.files {
            let is_within = file.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if !is_within {
                let reason = format!("it names {}, which is not a file of the backup", file.display());
                return Err(OpenError::invalid(path, reason));
            }
            let path = dir.join(file);
            let found = fs::metadata(&path).map_err(OpenError::io(&path))?.len();
            if found != entry.bytes {
                let reason =
                    format!("{found} bytes, but {MANIFEST} says {}: the backup is damaged", entry.bytes);
                return Err(OpenError::invalid(path, reason));
            }
        }
        Ok(manifest)
    }
}

impl Entry {
    /// Fails if `found`, the checksum of the file `path`, is not the recorded one.
    pub fn check(&self, path: &Path, found: u32) -> Result<(), OpenError> {
        match self.checksum.filter(|wanted| *wanted != found) {
            None => Ok(()),
            Some(wanted) => {
                let reason = format!(
                    "the checksum is {found:08x}, but {MANIFEST} says {wanted:08x}: the backup is damaged"
                );
                Err(OpenError::invalid(path, reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "1234").unwrap();
        let path = dir.path().join(MANIFEST);
        fs::write(&path, r#"{"format_version": 1, "files": {"a": 4}}"#).unwrap();
        let old = Manifest::read(dir.path()).unwrap().files[Path::new("a")];
        assert_eq!(old, Entry { bytes: 4, checksum: None, is_final: false });
        old.check(&path, 7).expect("nothing to compare with");
        let entry = Entry { bytes: 4, checksum: Some(7), is_final: true };
        let new = Manifest::new([("a".into(), entry)].into());
        new.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), new);
        entry.check(&path, 7).unwrap();
        assert!(entry.check(&path, 8).unwrap_err().to_string().contains("the checksum is 00000008"));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (text, reason) in [
            ("{", "not a manifest"),
            ("3", "not a manifest"),
            (r#"{"files": {}}"#, "not a manifest"),
            (r#"{"format_version": 3, "files": {}}"#, "has format version 3, but"),
            (r#"{"format_version": 3, "parts": ["of another form"]}"#, "has format version 3, but"),
            (r#"{"format_version": 2, "parts": []}"#, "not a manifest"),
            (
                r#"{"format_version": 2, "files": {"../a": {"bytes": 0, "checksum": 0, "is_final": true}}}"#,
                "../a",
            ),
            (r#"{"format_version": 2, "files": {"a": {"bytes": 5, "checksum": 0, "is_final": true}}}"#, "a"),
        ] {
            fs::write(dir.path().join(MANIFEST), text).unwrap();
            let error = Manifest::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
