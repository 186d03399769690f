//! Checks and rewrites the two small files of a data directory: its format version, and the id of its index.

use std::path::Path;

use uuid::Uuid;

use super::{Emit, Finding, keep_copy};
use crate::{
    OpenError,
    data_dir::{FORMAT_VERSION, INDEX_ID, VERSION_FILE, known_version},
    disk::{Disk as _, LocalDisk, if_there, read_id, replace_file},
};

/// Which of the files need repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainFiles {
    version: bool,
    index_id: bool,
}

/// Checks the small files of the data directory `dir`; `index` is its index's id, if readable.
pub fn check(dir: &Path, index: Option<Uuid>, emit: Emit<'_>) -> Result<PlainFiles, OpenError> {
    let mut wrong = PlainFiles::default();
    let path = dir.join(VERSION_FILE);
    match known_version(&LocalDisk, dir)? {
        Some(Ok(_)) => {}
        Some(Err(_)) => {
            wrong.version = true;
            emit(Finding::of(
                &path,
                "no format version: the store is not opened",
                "it is copied to the quarantine and rewritten",
            ));
        }
        None => {
            wrong.version = true;
            emit(Finding::of(&path, "missing", "it is rewritten").left_over());
        }
    }
    let path = dir.join(INDEX_ID);
    let what = match (read_id(&LocalDisk, &path, "id of an index"), index) {
        (Err(OpenError::Invalid { reason, .. }), _) => reason,
        (Err(error), _) => return Err(error),
        (Ok(Some(found)), Some(index)) if found != index => {
            format!("the measures belong to the index {found}, but the one beside them is {index}")
        }
        _ => return Ok(wrong),
    };
    wrong.index_id = true;
    let repair = "it is copied to the quarantine and rewritten, if the index knows metrics of this store";
    emit(Finding::of(&path, format!("{what}: the store is not opened"), repair));
    Ok(wrong)
}

impl PlainFiles {
    /// Rewrites the files that need repair; `index` is the id of the store's index, if certain.
    pub(super) fn repair(self, dir: &Path, index: Option<Uuid>) -> Result<(), OpenError> {
        let mut texts = Vec::new();
        if self.version {
            texts.push((VERSION_FILE, format!("{FORMAT_VERSION}\n")));
        }
        if let Some(index) = index.filter(|_| self.index_id) {
            texts.push((INDEX_ID, format!("{index}\n")));
        }
        for (name, text) in texts {
            let path = dir.join(name);
            if_there(keep_copy(dir, &path)).map_err(OpenError::io(&path))?;
            replace_file(&LocalDisk, &path, text.as_bytes()).map_err(OpenError::io(&path))?;
        }
        LocalDisk.sync_dir(dir).map_err(OpenError::io(dir))
    }
}
