//! `gnudi restore`: makes a data directory of a backup.

use anyhow::Result;
use gnudi_drivers::backup::{newest, restore};

use super::backup::{embedded_dir, megabytes};
use crate::{args::RestoreArgs, config::Config, logging};

pub fn run(args: &RestoreArgs) -> Result<()> {
    let config = Config::load(args.store.config_file.as_deref())?;
    logging::start(&args.store, &config);
    let data_dir = embedded_dir(&args.store, &config)?;
    let backup = newest(&args.backup)?;
    let bytes = restore(&backup, &data_dir, &mut |file| tracing::debug!(file = %file.display(), "copied"))?;
    println!("{}: {} from {}", data_dir.display(), megabytes(bytes), backup.display());
    Ok(())
}
