//! The servers that are measured: how each is started, what it promises, and how it is spoken to.

pub mod ceph;
pub mod child;
pub mod engines;
mod gnocchi;
mod gnudi;
pub mod influxdb;
pub mod postgres;
pub mod rabbitmq;
mod victoria_metrics;

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use gnudi_client::{Client, ClientOptions};
use tempfile::TempDir;

use crate::{context::Context, disk, load::Headers, noop::NoopServer, process::Probe};
pub use gnudi::program;

use ceph::CephOptions;
use child::{Guarded, Leftovers};
use engines::{Engine, Engines};

/// How long a server may take to answer its first request.
const START_DELAY_MAX: Duration = Duration::from_mins(1);

/// Where a server's data lies in its directory.
const DATA: &str = "data";

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Peer {
    /// A server that does nothing: what the load generator itself reaches.
    Limit,
    Gnudi,
    /// gnudi without a sync for each request: what the other servers do.
    #[value(name = "gnudi-os")]
    GnudiOs,
    Gnocchi,
    VictoriaMetrics,
    #[value(name = "influxdb")]
    InfluxDb,
}

impl serde::Serialize for Peer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Peer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Peer::from_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("{name:?} is no server that is measured")))
    }
}

impl Peer {
    pub fn from_name(name: &str) -> Option<Self> {
        Peer::value_variants().iter().copied().find(|peer| peer.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Peer::Limit => "limit",
            Peer::Gnudi => "gnudi",
            Peer::GnudiOs => "gnudi-os",
            Peer::Gnocchi => "gnocchi",
            Peer::VictoriaMetrics => "victoria-metrics",
            Peer::InfluxDb => "influxdb",
        }
    }

    /// What an accepted request is worth when the power goes.
    pub fn durability(self) -> &'static str {
        match self {
            Peer::Limit => "none: answers and forgets",
            Peer::Gnudi => "every accepted measure is on disk (fdatasync) before its 202",
            Peer::GnudiOs => {
                "gnudi with `[incoming] durability = os`: measures outlive the process, and the machine once the system has written them"
            }
            Peer::Gnocchi => {
                "metrics on disk (PostgreSQL); measures in Redis's memory until processed, then written without fsync"
            }
            Peer::VictoriaMetrics => "measures are on disk after up to about 5 s",
            Peer::InfluxDb => {
                "every accepted measure is in the log on disk (fsync, wal-fsync-delay 0s) before its 204"
            }
        }
    }

    /// Whether it is a gnudi, with a sync for each request or without.
    pub fn is_gnudi(self) -> bool {
        matches!(self, Peer::Gnudi | Peer::GnudiOs)
    }

    /// Whether it speaks Gnocchi's API.
    pub fn speaks_gnocchi(self) -> bool {
        !matches!(self, Peer::VictoriaMetrics | Peer::InfluxDb)
    }
}

/// Where programs are found.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Programs")]
pub struct Programs {
    /// The gnudi to measure [default: the one beside this program].
    #[arg(long, global = true, value_name = "FILE")]
    pub gnudi: Option<PathBuf>,
    /// A running gnudi to measure instead: it gets metrics and measures that are not removed.
    #[arg(long, global = true, value_name = "URL")]
    pub gnudi_url: Option<String>,
    /// A virtual environment with Gnocchi, its PostgreSQL and Redis drivers, and uwsgi.
    #[arg(long, global = true, value_name = "DIR", default_value = "target/bench/gnocchi")]
    pub gnocchi_venv: PathBuf,
    /// PostgreSQL's server programs, Gnocchi's too [default: the newest in /usr/lib/postgresql].
    #[arg(long, global = true, value_name = "DIR")]
    pub postgresql: Option<PathBuf>,
    /// VictoriaMetrics' program.
    #[arg(long, global = true, value_name = "FILE", default_value = "/usr/bin/victoria-metrics")]
    pub victoria_metrics: PathBuf,
    /// InfluxDB's program.
    #[arg(long, global = true, value_name = "FILE", default_value = "/usr/bin/influxd")]
    pub influxdb: PathBuf,
}

/// A running server with a store of its own.
pub struct Server {
    pub peer: Peer,
    pub address: SocketAddr,
    pub headers: Headers,
    pub probe: Probe,
    running: Running,
}

/// What has to stay alive, in the order in which it ends.
enum Running {
    Noop(#[expect(dead_code, reason = "held until the server is dropped")] NoopServer),
    Processes { processes: Vec<Guarded>, directory: TempDir, engines: Option<Box<Engines>> },
    Elsewhere,
}

impl Server {
    /// Starts a server with an empty store.
    pub fn start(peer: Peer, context: &Context) -> Result<Self> {
        let Context { programs, leftovers, .. } = context;
        if peer == Peer::Limit {
            let noop = NoopServer::start()?;
            let (address, probe) = (noop.address, Probe::Thread(noop.thread_id));
            return Ok(Server::new(peer, address, "", probe, Running::Noop(noop)));
        }
        if let (Peer::Gnudi, Some(url)) = (peer, &programs.gnudi_url) {
            let (address, prefix) = gnudi::resolve(url)?;
            return Ok(Server::new(peer, address, &prefix, Probe::Unknown, Running::Elsewhere));
        }
        let directory = directory(leftovers)?;
        if peer == Peer::GnudiOs {
            std::fs::write(directory.path().join(gnudi::CONFIGURATION), gnudi::UNSYNCED)?;
        }
        Server::start_in(directory, peer, context)
    }

    /// Starts a gnudi of its own with these lines of gnocchi.conf, even where a running one is to be measured.
    pub fn start_configured(configuration: &str, context: &Context) -> Result<Self> {
        let directory = directory(&context.leftovers)?;
        std::fs::write(directory.path().join(gnudi::CONFIGURATION), configuration)?;
        Server::start_in(directory, Peer::Gnudi, context)
    }

    /// Starts gnudi or Gnocchi on engines that many processes can share, which end with it.
    pub fn start_on(engine: Engine, ceph: &CephOptions, peer: Peer, context: &Context) -> Result<Self> {
        let Context { programs, leftovers, .. } = context;
        let directory = directory(leftovers)?;
        let engines = Engines::start(engine, programs, ceph, directory.path(), leftovers)?;
        let address = free_address()?;
        let path = directory.path();
        let processes = if peer == Peer::Gnocchi {
            gnocchi::start_on(&engines, programs, path, address, leftovers)?
        } else {
            gnudi::start_on(&engines, programs, path, address, leftovers)?
        };
        let pids = processes.iter().map(Guarded::pid).chain(engines.pids());
        let probe = Probe::Processes(pids.collect());
        let running = Running::Processes { processes, directory, engines: Some(Box::new(engines)) };
        Ok(Server::new(peer, address, "", probe, running))
    }

    /// Those that it was started on.
    pub fn engines(&self) -> Option<&Engines> {
        match &self.running {
            Running::Processes { engines, .. } => engines.as_deref(),
            _ => None,
        }
    }

    /// Its configuration file, where it runs here.
    pub fn configuration(&self) -> Option<PathBuf> {
        match &self.running {
            Running::Processes { directory, .. } => Some(directory.path().join(gnudi::CONFIGURATION)),
            _ => None,
        }
    }

    fn start_in(directory: TempDir, peer: Peer, context: &Context) -> Result<Self> {
        let Context { programs, leftovers, .. } = context;
        let address = free_address()?;
        let processes = processes(peer, programs, &directory, address, leftovers)?;
        let probe = Probe::Processes(processes.iter().map(Guarded::pid).collect());
        let running = Running::Processes { processes, directory, engines: None };
        Ok(Server::new(peer, address, "", probe, running))
    }

    fn new(peer: Peer, address: SocketAddr, prefix: &str, probe: Probe, running: Running) -> Self {
        let headers = Headers::new(address.to_string(), prefix);
        Server { peer, address, headers, probe, running }
    }

    /// A server that runs nowhere, for tests of what it would be sent.
    #[cfg(test)]
    pub fn nowhere(peer: Peer) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Server::new(peer, address, "", Probe::Unknown, Running::Elsewhere)
    }

    /// Stops the server and starts it again on the same store; `false` where that cannot be done.
    pub fn restart(&mut self, context: &Context) -> Result<bool> {
        let Context { programs, leftovers, .. } = context;
        let Running::Processes { processes: old, directory, .. } = &mut self.running else {
            return Ok(false);
        };
        if self.peer == Peer::Gnocchi {
            return Ok(false);
        }
        old.clear();
        *old = processes(self.peer, programs, directory, self.address, leftovers)?;
        self.probe = Probe::Processes(old.iter().map(Guarded::pid).collect());
        Ok(true)
    }

    /// What its aggregates take on disk, without what waits to be processed; `None` where nobody knows.
    pub fn disk_bytes(&self) -> Option<u64> {
        let Running::Processes { directory, .. } = &self.running else { return None };
        let store = match self.peer {
            Peer::Gnudi | Peer::GnudiOs => gnudi::AGGREGATES,
            Peer::Gnocchi => gnocchi::STORE,
            Peer::Limit | Peer::VictoriaMetrics | Peer::InfluxDb => DATA,
        };
        disk::used_bytes(&directory.path().join(store)).ok()
    }

    /// What gnudi's store of aggregates has written, without what its log keeps reserved; `None` where nobody knows.
    pub fn aggregates_bytes(&self) -> Option<u64> {
        let Running::Processes { directory, .. } = &self.running else { return None };
        disk::written_bytes(&directory.path().join(gnudi::AGGREGATES)).ok()
    }

    /// A client of Gnocchi's API.
    pub fn client(&self) -> Result<Client> {
        let url = format!("http://{}{}", self.headers.host, self.headers.prefix);
        // uwsgi closes each connection without saying so: none is worth keeping.
        let options = ClientOptions {
            timeout: Duration::from_mins(5),
            idle_connections_max: 0,
            ..ClientOptions::default()
        };
        Ok(Client::new(&url, &options)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Running::Processes { processes, .. } = &mut self.running {
            // The last started depends on those before it.
            while let Some(process) = processes.pop() {
                drop(process);
            }
        }
    }
}

fn processes(
    peer: Peer,
    programs: &Programs,
    directory: &TempDir,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    match peer {
        Peer::Gnudi | Peer::GnudiOs => gnudi::start(programs, directory.path(), address, leftovers),
        Peer::Gnocchi => gnocchi::start(programs, directory.path(), address, leftovers),
        Peer::VictoriaMetrics => victoria_metrics::start(programs, directory.path(), address, leftovers),
        Peer::InfluxDb => influxdb::start(programs, directory.path(), address, leftovers),
        Peer::Limit => unreachable!("the no-op server has no process"),
    }
}

/// A directory for a server, which other users may enter: PostgreSQL runs as its own.
pub fn directory(leftovers: &Leftovers) -> Result<TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::Builder::new().prefix("gnudi-bench-").tempdir().context("a directory")?;
    leftovers.add_directory(directory.path());
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// An address of loopback that nobody listens on at the moment.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Whether a GET of `/` is answered, with whatever status.
fn answers_anything(address: SocketAddr) -> bool {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(
            format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )?;
        stream.read_exact(&mut [0; 12])
    };
    ask().is_ok()
}

/// Whether a GET of the path is answered with 200.
fn answers(address: SocketAddr, path: &str) -> bool {
    answers_to(address, "GET", path)
}

/// Whether a request without a body is answered with 200.
fn answers_to(address: SocketAddr, method: &str, path: &str) -> bool {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic YWRtaW46\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(&status[8..] == b" 200")
    };
    ask().unwrap_or(false)
}
