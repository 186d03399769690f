//! `gnudi backup`: copies the embedded store, which a server may have open.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use gnudi_drivers::{
    backup::{Backup, Figures},
    data_dir,
};
use gnudi_indexer::sql::SqlIndexer;

use super::{messages::say, progress::Progress};
use crate::{
    args::{BackupArgs, StoreArgs},
    config::{Config, Deployment},
    logging,
};

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
    let mut backup = Backup::begin(&args.place, &name())?;
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

/// The data directory from the command line or the configuration.
pub(super) fn embedded_dir(store: &StoreArgs, config: &Config) -> Result<PathBuf> {
    let (deployment, warnings) = Deployment::of(config, store.data_dir.as_deref())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match deployment {
        Deployment::Embedded(dir) => Ok(dir),
        Deployment::Shared(_) => {
            bail!(
                "the configuration names engines that processes share: back them up with their own tools, or name --data-dir"
            )
        }
    }
}

/// A progress line.
pub(super) fn line(figures: &Figures, elapsed: Duration) -> String {
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

/// `2026-11-23T17.20.11.123456Z`: sorts by time, and is valid on any file system.
fn name() -> String {
    let time = super::now().to_iso_micros();
    format!("{}Z", time.split('+').next().unwrap_or(&time).replace(':', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_all_figures() {
        let figures = Figures { files: 3, copied_bytes: 1_500_000, ..Figures::default() };
        let line = line(&figures, Duration::from_secs(4));
        assert_eq!(line, "3 files, 1.5 MB copied, 0.0 MB kept, 0.0 MB checked after 4 s");
    }
}
