//! gnudi itself: `gnudi serve` on an empty data directory.

use std::{ffi::OsStr, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{DATA, Programs, Site, child::Guarded, engines::Engines};

/// The configuration file in a server's directory; none for the defaults.
pub(super) const CONFIGURATION: &str = "gnocchi.conf";

/// A configuration in which requests do not wait for a disk sync.
pub(super) const UNSYNCED: &str = "[incoming]\ndurability = os\n";

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    serve(site, &["--data-dir".as_ref(), site.directory.join(DATA).as_os_str()])
}

pub(super) fn start_on(engines: &Engines, site: &Site) -> Result<Vec<Guarded>> {
    std::fs::write(site.directory.join(CONFIGURATION), engines.configuration())?;
    serve(site, &[])
}

/// The program to measure: as configured, or the `gnudi` beside this one.
pub fn program(programs: &Programs) -> Result<PathBuf> {
    let program = match &programs.gnudi {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("this program's own file")?.with_file_name("gnudi"),
    };
    ensure!(program.exists(), "{} does not exist: name the gnudi to measure with --gnudi", program.display());
    Ok(program)
}

/// Starts the program with further options, and with the configuration file, if there is one.
fn serve(site: &Site, options: &[&OsStr]) -> Result<Vec<Guarded>> {
    let mut command = Command::new(program(site.programs)?);
    command.args(["serve", "--listen", &site.address.to_string(), "--without", "host"]).args(options);
    let configuration = site.directory.join(CONFIGURATION);
    if configuration.exists() {
        command.arg("--config-file").arg(configuration);
    }
    site.serve(&mut command, "gnudi.log", ["GET", "/healthcheck"])
}
