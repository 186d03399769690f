//! `gnudi backup`: copies the embedded store, which a server may have open.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context as _, Result, bail};
use gnudi_drivers::{backup::Backup, data_dir};
use gnudi_indexer::sql::SqlIndexer;

use crate::{
    args::{BackupArgs, StoreArgs},
    config::{Config, Deployment},
    logging,
};

pub fn run(args: &BackupArgs) -> Result<()> {
    let config = Config::load(args.store.config_file.as_deref())?;
    logging::start(&args.store, &config);
    let data_dir = embedded_dir(&args.store, &config)?;
    let index = data_dir::index_path(&data_dir);
    if !index.is_file() {
        bail!("{}: no data directory: there is no {}", data_dir.display(), index.display());
    }
    let began = Instant::now();
    let mut backup = Backup::begin(&args.place, &name())?;
    let path = backup.path();
    backup.copy_store(&data_dir, &mut |file| tracing::debug!(file, "copied"))?;
    super::runtime(&config, "backup", Some(1))?
        .block_on(SqlIndexer::copy_file(&index, &backup.index()))
        .context("copying the index")?;
    let figures = backup.finish()?;
    println!(
        "{}: {} files, {} copied, {} shared, {:.1} s",
        path.display(),
        figures.files,
        megabytes(figures.copied_bytes),
        megabytes(figures.linked_bytes),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The data directory that the command line or the configuration names.
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

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `2026-11-23T17.20.11.123456Z`: names sort by time, and are names on any file system.
fn name() -> String {
    let time = super::now().to_iso_micros();
    format!("{}Z", time.split('+').next().unwrap_or(&time).replace(':', "."))
}
