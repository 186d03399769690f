//! gnudi itself: `gnudi serve` on an empty data directory.

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    DATA, Programs, START_DELAY_MAX, answers,
    child::{Guarded, Leftovers, Signal},
    engines::Engines,
};

/// The configuration file in a server's directory; absent where the defaults serve.
pub(super) const CONFIGURATION: &str = "gnocchi.conf";

/// A configuration in which a request waits for the operating system alone.
pub(super) const UNSYNCED: &str = "[incoming]\ndurability = os\n";

/// Where its aggregates lie in its directory.
pub(super) const AGGREGATES: &str = "data/aggregates";

pub(super) fn start(
    programs: &Programs,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let mut command = serve(programs, address)?;
    command.arg("--data-dir").arg(directory.join(DATA));
    let configuration = directory.join(CONFIGURATION);
    if configuration.exists() {
        command.arg("--config-file").arg(configuration);
    }
    started(command, directory, address, leftovers)
}

/// `gnudi serve` on engines that others could share.
pub(super) fn start_on(
    engines: &Engines,
    programs: &Programs,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let configuration = directory.join(CONFIGURATION);
    std::fs::write(&configuration, engines.configuration())?;
    let mut command = serve(programs, address)?;
    command.arg("--config-file").arg(configuration);
    started(command, directory, address, leftovers)
}

/// The program to measure: as told, or the `gnudi` beside this one.
pub fn program(programs: &Programs) -> Result<PathBuf> {
    let program = match &programs.gnudi {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("this program's own file")?.with_file_name("gnudi"),
    };
    ensure!(program.exists(), "{} does not exist: name the gnudi to measure with --gnudi", program.display());
    Ok(program)
}

fn serve(programs: &Programs, address: SocketAddr) -> Result<Command> {
    let mut command = Command::new(program(programs)?);
    command.args(["serve", "--listen", &address.to_string(), "--without", "host"]);
    Ok(command)
}

fn started(
    command: Command,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let mut process = Guarded::start(command, &directory.join("gnudi.log"), Signal::Term, leftovers)?;
    process.wait_ready(START_DELAY_MAX, || answers(address, "/healthcheck"))?;
    Ok(vec![process])
}

/// The address and the path prefix of a URL.
pub(super) fn resolve(url: &str) -> Result<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").with_context(|| format!("{url}: the scheme must be http"))?;
    let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = host.to_socket_addrs().with_context(|| host.clone())?.next().context("no address")?;
    Ok((address, prefix.trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_url_gives_address_and_prefix() {
        let (address, prefix) = super::resolve("http://127.0.0.1:8041/gnocchi/").unwrap();
        assert_eq!((address.to_string().as_str(), prefix.as_str()), ("127.0.0.1:8041", "/gnocchi"));
        let (address, prefix) = super::resolve("http://127.0.0.1").unwrap();
        assert_eq!((address.port(), prefix.as_str()), (80, ""));
        assert!(super::resolve("https://127.0.0.1").is_err());
    }
}
