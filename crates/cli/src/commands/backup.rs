//! `gnudi backup` copies the embedded store, which a server may have open; `gnudi restore` creates a data directory from a
//! copy.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use gnudi_drivers::{
    backup::{Backup, Figures, newest, restore},
    data_dir,
};
use gnudi_indexer::sql::SqlIndexer;
use gnudi_model::{Timespan, Timestamp};

use super::{messages::say, progress::Progress};
use crate::{
    args::{BackupArgs, RestoreArgs, StoreArgs},
    config::{Config, Deployment},
    logging,
};

/// What names resolve.
const MICROSECOND: Timespan = Timespan(1000);

pub fn run(args: &BackupArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start(&config);
    let data_dir = embedded_dir(&args.store, &config)?;
    let index = data_dir::index_path(&data_dir);
    if !index.is_file() {
        bail!("{}: no data directory: there is no {}", data_dir.display(), index.display());
    }
    let _no_repair = data_dir::exclude_repairs(&data_dir)?;
    let mut progress = Progress::slowing("backup");
    let mut backup = Backup::begin(&args.place, &name(&args.place, super::now()))?;
    for error in backup.damaged() {
        tracing::warn!("an earlier backup is damaged and not reused: {error}");
    }
    let path = backup.path();
    backup.copy_store(&data_dir, &mut |figures| progress.tell(|elapsed| line(figures, elapsed)))?;
    super::runtime(&config, "backup", Some(1))?
        .block_on(SqlIndexer::copy_file(&index, &backup.index()))
        .context("copying the index")?;
    let figures = backup.finish(&mut |figures| progress.tell(|elapsed| line(figures, elapsed)))?;
    say(format_args!(
        "{}: {} files, {} bytes copied, {} bytes reused, {:.1} s",
        path.display(),
        figures.files,
        figures.copied_bytes,
        figures.kept_bytes,
        progress.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// `gnudi restore`
pub fn run_restore(args: &RestoreArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start(&config);
    let data_dir = embedded_dir(&args.store, &config)?;
    let backup = newest(&args.backup, time_of)?;
    let mut progress = Progress::slowing("restore");
    let figures =
        restore(&backup, &data_dir, &mut |figures| progress.tell(|elapsed| line(figures, elapsed)))?;
    let (files, size) = (figures.files, megabytes(figures.copied_bytes));
    say(format_args!("{}: {files} files, {size} from {}", data_dir.display(), backup.display()));
    Ok(())
}

/// The data directory from the command line or the configuration.
pub(super) fn embedded_dir(store: &StoreArgs, config: &Config) -> Result<PathBuf> {
    match Deployment::warned_of(config, store.data_dir.as_deref())? {
        Deployment::Embedded(dir) => Ok(dir),
        Deployment::Shared(_) => {
            bail!(
                "the configuration names engines that processes share: back them up with their own tools, or name --data-dir"
            )
        }
    }
}

/// A progress line.
fn line(figures: &Figures, elapsed: Duration) -> String {
    format!(
        "{} files, {} copied, {} kept, {} checked after {:.0} s",
        figures.files,
        megabytes(figures.copied_bytes),
        megabytes(figures.kept_bytes),
        megabytes(figures.checked_bytes),
        elapsed.as_secs_f64()
    )
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `2026-11-23T17.20.11.123456Z`: sorts by time, and is valid on any file system. Later than those of all backups in the place,
/// interrupted ones included, also after the clock was set back: a restore takes the last name.
fn name(place: &Path, now: Timestamp) -> String {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let newest = entries.filter_map(|entry| time_of(&entry.file_name())).max();
    let time = newest.map_or(now, |newest| now.max(newest.saturating_add(MICROSECOND)));
    let micros = time.0.rem_euclid(1_000_000_000) / MICROSECOND.0;
    format!("{}.{micros:06}Z", time.to_iso().trim_end_matches("+00:00").replace(':', "."))
}

/// The time in a backup's name.
fn time_of(name: &OsStr) -> Option<Timestamp> {
    let time = name.to_str()?.trim_end_matches(".partial").replacen('.', ":", 2);
    let time: jiff::Timestamp = time.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_named_behind_all_others() {
        let place = tempfile::tempdir().unwrap();
        let now = Timestamp(1_795_454_411_123_456_789);
        let own = "2026-11-23T17.20.11.123456Z";
        for (other, expected) in [
            ("before-upgrade", own),
            ("2026-11-23T17.20.11.123455Z", own),
            (own, "2026-11-23T17.20.11.123457Z"),
            ("2026-11-23T17.20.11.123457Z.partial", "2026-11-23T17.20.11.123458Z"),
            ("2027-01-01T00.00.00.999999Z", "2027-01-01T00.00.01.000000Z"),
        ] {
            fs::create_dir_all(place.path().join(other)).unwrap();
            assert_eq!(name(place.path(), now), expected, "{other}");
        }
        assert_eq!(name(&place.path().join("none"), now), own);
    }

    #[test]
    fn progress_has_all_figures() {
        let figures = Figures { files: 3, copied_bytes: 1_500_000, ..Figures::default() };
        let line = line(&figures, Duration::from_secs(4));
        assert_eq!(line, "3 files, 1.5 MB copied, 0.0 MB kept, 0.0 MB checked after 4 s");
    }
}
