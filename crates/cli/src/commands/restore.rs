//! `gnudi restore`: creates a data directory from a backup.

use anyhow::Result;
use gnudi_drivers::backup::{newest, restore};

use super::{
    backup::{embedded_dir, line, megabytes},
    messages::say,
    progress::Progress,
};
use crate::{args::RestoreArgs, config::Config, logging};

pub fn run(args: &RestoreArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start(&config);
    let data_dir = embedded_dir(&args.store, &config)?;
    let backup = newest(&args.backup)?;
    let mut progress = Progress::slowing("restore");
    let figures =
        restore(&backup, &data_dir, &mut |figures| progress.tell(|elapsed| line(figures, elapsed)))?;
    let (files, size) = (figures.files, megabytes(figures.copied_bytes));
    say(format_args!("{}: {files} files, {size} from {}", data_dir.display(), backup.display()));
    Ok(())
}
