//! PostgreSQL with default settings, for the index of Gnocchi and of shared engines.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{
    START_DELAY_MAX, Site,
    child::{Guarded, Signal, output_of},
    free_address,
};

/// Debian's directory of installed versions.
const INSTALLED: &str = "/usr/lib/postgresql";

/// A running server with one database.
#[derive(Debug)]
pub struct Postgres {
    pub process: Guarded,
    address: SocketAddr,
    database: &'static str,
}

impl Postgres {
    /// Starts a server in the site's directory, which another user may need to read, and creates the database.
    pub(super) fn start(site: &Site, database: &'static str) -> Result<Self> {
        let programs = self::programs()?;
        let directory = site.directory.join("pg");
        std::fs::create_dir(&directory)?;
        let as_root = rustix::process::getuid().is_root();
        if as_root {
            // PostgreSQL refuses to run as root.
            output_of(Command::new("chown").arg("postgres:").arg(&directory))?;
        }
        let command = |name: &str| {
            let program = programs.join(name);
            let mut command = Command::new(if as_root { Path::new("runuser") } else { &program });
            if as_root {
                command.args(["-u", "postgres", "--"]).arg(&program);
            }
            command.current_dir(&directory);
            command
        };
        let data = directory.join("data");
        let options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"];
        output_of(command("initdb").arg("-D").arg(&data).args(options))?;

        let address = free_address()?;
        let port = address.port().to_string();
        let mut server = command("postgres");
        let server = server
            .arg("-D")
            .arg(&data)
            .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-k"])
            .arg(&directory);
        let socket = directory.join(format!(".s.PGSQL.{port}"));
        let ready = || socket.exists() && std::net::TcpStream::connect(address).is_ok();
        let mut process = site.start(server, "pg/log", Signal::QUIT, ready)?;
        let create = || {
            let options = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", database];
            output_of(command("createdb").args(options))
        };
        // The port is open shortly before the server is ready.
        process.wait_ready(START_DELAY_MAX, || create().is_ok())?;
        Ok(Postgres { process, address, database })
    }

    /// Of the database.
    pub fn url(&self) -> String {
        format!("postgresql://postgres@{}/{}", self.address, self.database)
    }
}

/// The directory of the newest installed version's server programs.
pub fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir(INSTALLED).context("PostgreSQL is not installed")?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|directory| directory.join("initdb").exists())
        .max_by_key(|path| path.parent()?.file_name()?.to_str()?.parse::<u32>().ok())
        .context("PostgreSQL's server programs are not installed")
}
