//! `gnudi man`: writes a man page per command, made from `--help`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::command_line;

#[derive(Clone, Debug, Args)]
pub struct Man {
    /// Directory to write to, such as /usr/local/share/man/man1; created if missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: &Man) -> Result<()> {
    let place = || args.directory.display().to_string();
    std::fs::create_dir_all(&args.directory).with_context(place)?;
    clap_mangen::generate_to(command_line::with_originals(), &args.directory).with_context(place)
}
