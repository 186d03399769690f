//! Backs up an embedded store, also while a server has it open, and restores backups.
//!
//! A backup place is a directory; each backup in it is a directory with the layout of a data directory and
//! [`MANIFEST`], which is written last and has each file's checksum. A backup without a manifest is
//! incomplete: the next backup reuses its files and removes it.
//!
//! The server is not involved: files are copied in such an order that every state which the copy can catch
//! could also result from a crash.
//!
//! 1. The log of measures before the aggregates: records trimmed from it meanwhile are in aggregates that
//!    are copied later.
//! 2. The log of aggregates before the runs: segments released meanwhile are in a run that is copied later.
//! 3. The runs. They are immutable, so they are hard-linked if the file system allows it, from an earlier
//!    backup otherwise if it has them. Immutable segments of the logs are linked from an earlier backup
//!    (`earlier`).
//! 4. The index, by its database (the caller's): it has every metric whose measures were copied, unless it
//!    was deleted.
//!
//! Invariant: a backup has everything acknowledged before it began, once. It may have what was acknowledged
//! while it was made. Aggregates may be newer than the log of measures; so the copied log ends with an empty
//! segment whose number exceeds all positions that the aggregates have.

mod copy;
mod earlier;
mod manifest;
mod restore;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use self::{
    copy::{checksum, copy_growing, copy_small, copy_whole, link},
    earlier::Earlier,
    manifest::{Entry, Manifest},
};
pub use self::{
    manifest::MANIFEST,
    restore::{newest, restore},
};
use crate::{
    OpenError,
    aggregates::local::{log_dir, run_files, runs_dir},
    data_dir,
    disk::{Disk as _, LocalDisk, if_there, with_suffix},
    segments,
};

/// Name suffix of an unfinished backup.
const PARTIAL_SUFFIX: &str = ".partial";
/// How often the runs are listed again because of merges; each time only new ones are copied.
const LISTINGS_MAX: usize = 100;

/// Counters so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub files: u64,
    /// Bytes of copied files.
    pub copied_bytes: u64,
    /// Bytes of files linked to the store or to an earlier backup.
    pub kept_bytes: u64,
    /// Bytes read for checksums.
    pub checked_bytes: u64,
}

/// Called after each file, and each mebibyte of it.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Figures);

/// A backup being made. If dropped before [`Backup::finish`], only what the next one reuses stays, and is removed by that.
pub struct Backup {
    place: PathBuf,
    /// Of the finished backup.
    path: PathBuf,
    /// Of the unfinished one.
    partial: PathBuf,
    earlier: Earlier,
    /// The manifest's entries so far.
    known: BTreeMap<PathBuf, Entry>,
    /// Files that the store no longer changes.
    finals: BTreeSet<PathBuf>,
    figures: Figures,
    _lock: File,
}

impl Backup {
    /// Begins the backup `name` in the directory `place`, which is created if missing. Only one backup at a
    /// time is possible in a place ([`OpenError::InUse`]).
    pub fn begin(place: &Path, name: &str) -> Result<Self, OpenError> {
        LocalDisk.create_dir(place).map_err(OpenError::io(place))?;
        let lock = data_dir::lock(place)?;
        let earlier = Earlier::find(place)?;
        let path = place.join(name);
        let partial = with_suffix(&path, PARTIAL_SUFFIX);
        // Before there is a value: dropping it would remove files of the interrupted backup.
        if path.exists() || partial.exists() {
            return Err(OpenError::invalid(path, "there is a backup of this name already"));
        }
        LocalDisk.create_dir(&partial).map_err(OpenError::io(&partial))?;
        Ok(Self {
            place: place.to_owned(),
            path,
            partial,
            earlier,
            known: BTreeMap::new(),
            finals: BTreeSet::new(),
            figures: Figures::default(),
            _lock: lock,
        })
    }

    /// Why earlier backups in the same place are not used.
    pub fn damaged(&self) -> &[OpenError] {
        &self.earlier.damaged
    }

    /// The path of the finished backup.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Where the caller must put the copy of the index, after [`Backup::copy_store`].
    pub fn index(&self) -> PathBuf {
        self.partial.join(data_dir::INDEX)
    }

    /// Copies everything but the index of the store in `data_dir`.
    pub fn copy_store(&mut self, data_dir: &Path, progress: OnProgress<'_>) -> Result<(), OpenError> {
        // Of a store of a newer program this one may copy only a part, and call that complete.
        data_dir::refuse_newer(data_dir)?;
        self.copy_plain_files(data_dir, Path::new(""), progress)?;
        let incoming = Path::new(data_dir::INCOMING);
        self.copy_log(data_dir, incoming, progress)?;
        // After the log, so that segments which were trimmed meanwhile do not count as lost.
        self.copy_plain_files(data_dir, incoming, progress)?;
        let aggregates = Path::new(data_dir::AGGREGATES);
        self.copy_log(data_dir, &log_dir(aggregates), progress)?;
        self.copy_runs(data_dir, &runs_dir(aggregates), progress)?;
        // After the runs, so that they do not describe an older state of the store.
        self.copy_plain_files(data_dir, aggregates, progress)?;
        segments::continue_behind(&data_dir.join(incoming), &self.partial.join(incoming))?;
        // Their runs are in this one. Also if this one fails: otherwise each that fails would leave some space less.
        drop(self.earlier.remove_interrupted());
        Ok(())
    }

    /// The small files in the folder `dir` that are replaced atomically: versions, identities, checkpoints.
    fn copy_plain_files(
        &mut self,
        data_dir: &Path,
        dir: &Path,
        progress: OnProgress<'_>,
    ) -> Result<(), OpenError> {
        let (from, to) = self.folders(data_dir, dir)?;
        for name in file_names(&from).map_err(OpenError::io(&from))? {
            let is_plain = segments::number_of(&name).is_none()
                && !data_dir::NOT_COPIED.contains(&name.as_str())
                && ![".tmp", ".spare", ".unreadable"].iter().any(|suffix| name.ends_with(suffix));
            if !is_plain {
                continue;
            }
            if let Some(bytes) =
                copy_small(&from.join(&name), &to.join(&name)).map_err(OpenError::io(from.join(&name)))?
            {
                self.figures.files += 1;
                self.figures.copied_bytes += bytes;
                progress(&self.figures);
            }
        }
        Ok(())
    }

    /// The segments of the log in the folder `dir`, oldest first, so that only the last one can be
    /// incomplete. The others are immutable and are linked from an earlier backup if it has them. (The
    /// store's own files are recycled one day, so they cannot be linked.)
    fn copy_log(&mut self, data_dir: &Path, dir: &Path, progress: OnProgress<'_>) -> Result<(), OpenError> {
        let (from, to) = self.folders(data_dir, dir)?;
        let numbers = segments::numbers(&from).map_err(OpenError::io(&from))?;
        for number in &numbers {
            let name = segments::file_name(*number);
            let (from, to, file) = (from.join(&name), to.join(&name), dir.join(&name));
            let Some(now) = if_there(fs::metadata(&from)).map_err(OpenError::io(&from))? else { continue };
            let is_final = Some(number) != numbers.last();
            let kept = if is_final { self.earlier.link_whole(&file, &now, &to) } else { None };
            if let Some(entry) = kept {
                self.kept(&file, &now, Some(entry), progress);
                continue;
            }
            let figures = &mut self.figures;
            let copied = copy_growing(&from, &to, &mut |bytes| {
                figures.copied_bytes += bytes;
                progress(figures);
            });
            if copied.map_err(OpenError::io(&from))?.is_some() {
                self.figures.files += 1;
                if is_final {
                    self.finals.insert(file);
                }
            }
        }
        Ok(())
    }

    /// A complete set of the runs in the folder `dir`: a listing is valid if it is the same before and after
    /// its files are copied, since a merged run appears before its inputs disappear.
    fn copy_runs(&mut self, data_dir: &Path, dir: &Path, progress: OnProgress<'_>) -> Result<(), OpenError> {
        let (from, to) = self.folders(data_dir, dir)?;
        let mut there = BTreeSet::new();
        for _ in 0..LISTINGS_MAX {
            let listed = run_files(&from).map_err(OpenError::io(&from))?;
            for name in &listed {
                if !there.contains(name)
                    && self
                        .copy_run(&from.join(name), &to.join(name), &dir.join(name), progress)
                        .map_err(OpenError::io(from.join(name)))?
                {
                    there.insert(name.clone());
                }
            }
            if run_files(&from).map_err(OpenError::io(&from))? == listed && listed.is_subset(&there) {
                for replaced in there.difference(&listed) {
                    fs::remove_file(to.join(replaced)).map_err(OpenError::io(to.join(replaced)))?;
                    self.known.remove(&dir.join(replaced));
                }
                return Ok(());
            }
        }
        let reason = format!("its files changed {LISTINGS_MAX} times while they were copied: try again");
        Err(OpenError::invalid(from, reason))
    }

    /// Links the run to the store or to an earlier backup, or copies it. False if it is gone.
    fn copy_run(
        &mut self,
        from: &Path,
        to: &Path,
        file: &Path,
        progress: OnProgress<'_>,
    ) -> io::Result<bool> {
        let Some(now) = if_there(fs::metadata(from))? else { return Ok(false) };
        self.finals.insert(file.to_owned());
        let Some(is_linked) = if_there(link(from, to))? else { return Ok(false) };
        if is_linked {
            let entry = self.earlier.entry_of(file, &now);
            self.kept(file, &now, entry, progress);
            return Ok(true);
        }
        let entry = self.earlier.link_whole(file, &now, to);
        if entry.is_some() || self.earlier.link_interrupted(file, &now, to) {
            self.kept(file, &now, entry, progress);
            return Ok(true);
        }
        let figures = &mut self.figures;
        let copied = copy_whole(from, to, &mut |bytes| {
            figures.copied_bytes += bytes;
            progress(figures);
        });
        let Some(checksum) = if_there(copied)? else { return Ok(false) };
        let entry = Entry { bytes: now.len(), checksum: Some(checksum), is_final: true };
        self.known.insert(file.to_owned(), entry);
        self.figures.files += 1;
        Ok(true)
    }

    /// Records a linked file, with its entry of an earlier manifest if there is one.
    fn kept(&mut self, file: &Path, now: &fs::Metadata, entry: Option<Entry>, progress: OnProgress<'_>) {
        self.finals.insert(file.to_owned());
        if let Some(entry) = entry.filter(|entry| entry.checksum.is_some()) {
            self.known.insert(file.to_owned(), entry);
        }
        self.figures.files += 1;
        self.figures.kept_bytes += now.len();
        progress(&self.figures);
    }

    /// The folder `dir` of the store, and that of the backup, which is created.
    fn folders(&self, data_dir: &Path, dir: &Path) -> Result<(PathBuf, PathBuf), OpenError> {
        let (from, to) = (data_dir.join(dir), self.partial.join(dir));
        LocalDisk.create_dir(&to).map_err(OpenError::io(&to))?;
        Ok((from, to))
    }

    /// Makes the backup durable and renames it, once the index is in place. Reads all files for their
    /// checksums, except those whose checksums an earlier backup has.
    pub fn finish(mut self, progress: OnProgress<'_>) -> Result<Figures, OpenError> {
        let (partial, path) = (self.partial.clone(), self.path.clone());
        let index = self.index();
        self.figures.copied_bytes += fs::metadata(&index).map_err(OpenError::io(&index))?.len();
        self.figures.files += 1;
        let mut names = BTreeSet::new();
        collect(&partial, Path::new(""), &mut names).map_err(OpenError::io(&partial))?;
        let mut files = BTreeMap::new();
        for file in names {
            let entry = match self.known.get(&file) {
                Some(entry) => *entry,
                None => self.examine(&file, progress).map_err(OpenError::io(partial.join(&file)))?,
            };
            files.insert(file, entry);
        }
        Manifest::new(files).write(&partial).map_err(OpenError::io(&partial))?;
        fs::rename(&partial, &path).map_err(OpenError::io(&path))?;
        LocalDisk.sync_dir(&self.place).map_err(OpenError::io(&self.place))?;
        self.earlier.remove_interrupted()?;
        Ok(self.figures)
    }

    fn examine(&mut self, file: &Path, progress: OnProgress<'_>) -> io::Result<Entry> {
        let (path, figures) = (self.partial.join(file), &mut self.figures);
        let checksum = checksum(&path, &mut |bytes| {
            figures.checked_bytes += bytes;
            progress(figures);
        })?;
        let is_final = self.finals.contains(file);
        Ok(Entry { bytes: fs::metadata(&path)?.len(), checksum: Some(checksum), is_final })
    }
}

impl Drop for Backup {
    /// Removes what another backup copies again: this one may have failed because the disk is full.
    fn drop(&mut self) {
        // If it is finished, there is no such directory any more.
        let log = log_dir(Path::new(data_dir::AGGREGATES));
        for copied in [Path::new(data_dir::INCOMING), log.as_path()] {
            drop(fs::remove_dir_all(self.partial.join(copied)));
        }
        drop(fs::remove_file(self.index()));
    }
}

/// The paths of all files below a directory, relative to it.
fn collect(root: &Path, below: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let dir = root.join(below);
    files.extend(file_names(&dir)?.into_iter().map(|name| below.join(name)));
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(root, &below.join(entry.file_name()), files)?;
        }
    }
    Ok(())
}

/// Names of the files in a directory; none if it does not exist.
fn file_names(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in if_there(fs::read_dir(dir))?.into_iter().flatten() {
        let entry = entry?;
        // Ignore a file that is gone by now.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU16, sync::Arc};

    use gnudi_model::{MetricId, Sack, SackCount, SackId};
    use tokio::runtime::Handle;
    use uuid::Uuid;

    use super::*;
    use crate::{
        aggregates::local::{LocalAggregates, LocalAggregatesOptions},
        incoming::{
            Append as _, Batch, Consume as _,
            log::{LocalIncoming, LocalIncomingOptions, verify::check},
        },
        verify::ReadOnlyDisk,
    };

    const SACK: Sack = Sack { count: SackCount(NonZeroU16::MIN), id: SackId(0) };

    fn open(dir: &Path) -> (Arc<LocalAggregates>, Arc<LocalIncoming>) {
        let aggregates = dir.join(data_dir::AGGREGATES);
        let options = LocalAggregatesOptions { segment_bytes: 1 << 16, ..LocalAggregatesOptions::default() };
        let store = LocalAggregates::open(&aggregates, &options).unwrap();
        let options = LocalIncomingOptions {
            sack_count: SACK.count,
            segment_bytes: 1 << 16,
            spare_segments_max: 0,
            followed_in: Some(aggregates),
            ..LocalIncomingOptions::default()
        };
        (store, LocalIncoming::open(&dir.join(data_dir::INCOMING), &options).unwrap())
    }

    async fn append(log: &LocalIncoming, bytes: usize) {
        let mut batch = Batch::default();
        batch.push(MetricId(Uuid::from_u128(1)), 1, |out| out.resize(out.len() + bytes, 7));
        log.append(batch).await.unwrap();
    }

    async fn trim(log: &LocalIncoming) {
        let newest = log.positions(&[SACK]).await.unwrap()[0].newest;
        log.acknowledge(SACK, newest).await.unwrap();
        log.trim(&[(SACK, newest)]).await.unwrap();
    }

    #[tokio::test]
    async fn backups_that_fail_leave_only_what_the_next_one_reuses() {
        let root = tempfile::tempdir().unwrap();
        let (dir, place) = (root.path().join("data"), root.path().join("backups"));
        let (_store, log) = open(&dir);
        append(&log, 10).await;
        fs::write(dir.join(data_dir::VERSION_FILE), "1\n").unwrap();
        let fail = |name| {
            let mut backup = Backup::begin(&place, name).unwrap();
            backup.copy_store(&dir, &mut |_| {}).unwrap();
            fs::write(backup.index(), "a part of it").unwrap();
            assert!(backup.partial.join(data_dir::INCOMING).exists());
            backup.partial.clone()
        };
        let (first, second) = (fail("one"), fail("two"));
        assert!(!first.exists());
        let aggregates = second.join(data_dir::AGGREGATES);
        assert!(runs_dir(&aggregates).exists() && !log_dir(&aggregates).exists());
        assert!(!second.join(data_dir::INCOMING).exists() && !second.join(data_dir::INDEX).exists());
    }

    #[test]
    fn a_store_of_a_newer_program_is_not_copied() {
        let root = tempfile::tempdir().unwrap();
        let (dir, place) = (root.path().join("data"), root.path().join("backups"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(data_dir::VERSION_FILE), "2\n").unwrap();
        let refused = Backup::begin(&place, "one").unwrap().copy_store(&dir, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, OpenError::TooNew { found: 2, known: 1, .. }), "{refused}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[test]
    fn a_refused_backup_removes_nothing_of_an_interrupted_one() {
        let place = tempfile::tempdir().unwrap();
        let partial = place.path().join("one.partial");
        let log = log_dir(Path::new(data_dir::AGGREGATES));
        let files = [Path::new(data_dir::INCOMING).join("1"), log.join("1"), data_dir::INDEX.into()];
        for file in &files {
            let path = partial.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "copied").unwrap();
        }
        assert!(matches!(Backup::begin(place.path(), "one"), Err(OpenError::Invalid { .. })));
        assert!(files.iter().all(|file| partial.join(file).exists()));
    }

    /// What is trimmed while the log is copied is in the aggregates.
    #[tokio::test(flavor = "multi_thread")]
    async fn segments_that_are_trimmed_meanwhile_are_not_lost() {
        let root = tempfile::tempdir().unwrap();
        let (dir, place) = (root.path().join("data"), root.path().join("backups"));
        let (_store, log) = open(&dir);
        append(&log, 10).await;
        trim(&log).await;
        for _ in 0..30 {
            append(&log, 9000).await;
        }
        let mut backup = Backup::begin(&place, "one").unwrap();
        let partial = backup.partial.clone();
        let copy = partial.join(data_dir::INCOMING);
        let first = copy.join(segments::file_name(1));
        let mut is_trimmed = false;
        let mut progress = |_: &Figures| {
            if !is_trimmed && first.exists() {
                is_trimmed = true;
                tokio::task::block_in_place(|| Handle::current().block_on(trim(&log)));
            }
        };
        backup.copy_store(&dir, &mut progress).unwrap();
        assert!(is_trimmed && !first.exists());
        let disk = ReadOnlyDisk::new(Arc::default());
        check(&disk, &copy, &partial.join(data_dir::AGGREGATES), &mut |finding| panic!("{finding}")).unwrap();
    }
}
