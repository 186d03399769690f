//! The servers to measure: how to start each, its durability, and its API.

pub mod ceph;
pub mod child;
pub mod engines;
mod gnocchi;
mod gnudi;
pub mod influxdb;
pub mod postgres;
mod prometheus;
pub mod rabbitmq;

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use gnudi_bench::target::Endpoint;
use gnudi_client::{Client, ClientOptions};
use gnudi_rados::Librados;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{
    context::Context,
    load::{Headers, Load, Requests, Until},
    noop::{GroupLog, NoopServer},
    process::Probe,
};
pub use gnudi::program;

use child::{Guarded, Leftovers, Processes, Signal};
use engines::{Engine, Engines};

/// Timeout of the first response after a start.
const START_DELAY_MAX: Duration = Duration::from_mins(1);

const DATA: &str = "data";

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// A no-op server: the limit of the load generator.
    Limit,
    Gnudi,
    /// gnudi without a sync per request, like the other servers.
    GnudiOs,
    Gnocchi,
    VictoriaMetrics,
    #[serde(rename = "influxdb")]
    #[value(name = "influxdb")]
    InfluxDb,
    Prometheus,
}

impl Peer {
    pub fn from_name(name: &str) -> Option<Self> {
        Peer::from_str(name, false).ok()
    }

    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        self.description().0
    }

    /// The number of its colour in all tables and plots.
    pub fn style(self) -> usize {
        self.description().1
    }

    /// The durability of an accepted request at a power cut.
    pub fn durability(self) -> &'static str {
        self.description().2
    }

    /// The write-ahead logs of its data directory.
    pub fn logs(self) -> &'static [&'static str] {
        match self {
            Peer::Gnudi | Peer::GnudiOs => &["incoming", "aggregates/log"],
            Peer::Prometheus => &["wal", "chunks_head"],
            Peer::InfluxDb => &["wal"],
            Peer::Limit | Peer::Gnocchi | Peer::VictoriaMetrics => &[],
        }
    }

    fn description(self) -> (&'static str, usize, &'static str) {
        match self {
            Peer::Limit => (
                "limit",
                6,
                "none: answers and forgets; `durable`: every request is on disk (fdatasync) before its 202, nothing else",
            ),
            Peer::Gnudi => ("gnudi", 0, "every accepted measure is on disk (fdatasync) before its 202"),
            Peer::GnudiOs => (
                "gnudi-os",
                5,
                "gnudi with `[incoming] durability = os`: measures outlive the process, and the machine once the system has \
                 written them",
            ),
            Peer::Gnocchi => (
                "gnocchi",
                1,
                "metrics on disk (PostgreSQL); measures in Redis's memory until processed, then written without fsync",
            ),
            Peer::VictoriaMetrics => ("victoria-metrics", 2, "measures are on disk after up to about 5 s"),
            Peer::InfluxDb => (
                "influxdb",
                3,
                "every accepted measure is in the log on disk (fsync, wal-fsync-delay 0s) before its 204",
            ),
            Peer::Prometheus => (
                "prometheus",
                4,
                "accepted samples outlive the process, and the machine once the system has written them",
            ),
        }
    }

    /// The size of its work. Gnocchi gets less where it would take hours: rates, not sizes, are compared.
    pub fn sized(self, usual: usize, gnocchi: usize) -> usize {
        if self == Peer::Gnocchi { gnocchi } else { usual }
    }

    /// Whether it is a gnudi, with or without a sync per request.
    pub fn is_gnudi(self) -> bool {
        matches!(self, Peer::Gnudi | Peer::GnudiOs)
    }

    pub fn has_gnocchi_api(self) -> bool {
        !matches!(self, Peer::VictoriaMetrics | Peer::InfluxDb | Peer::Prometheus)
    }

    /// Starts its processes with an empty store, or with the directory's contents.
    fn start_processes(self, site: &Site) -> Result<Vec<Guarded>> {
        match self {
            Peer::Gnudi | Peer::GnudiOs => gnudi::start(site),
            Peer::Gnocchi => gnocchi::start(site),
            Peer::VictoriaMetrics => prometheus::start_victoria_metrics(site),
            Peer::InfluxDb => influxdb::start(site),
            Peer::Prometheus => prometheus::start(site),
            Peer::Limit => unreachable!("the no-op server has no process"),
        }
    }
}

/// The name of an option's value on the command line.
pub fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The programs to start.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Programs")]
pub struct Programs {
    /// The gnudi to measure [default: the one beside this program].
    #[arg(long, global = true, value_name = "FILE")]
    pub gnudi: Option<PathBuf>,
    /// Virtual environment with Gnocchi, its PostgreSQL and Redis drivers, and uwsgi.
    #[arg(long, global = true, value_name = "DIR", default_value = "target/bench/gnocchi")]
    pub gnocchi_venv: PathBuf,
    /// VictoriaMetrics' program.
    #[arg(long, global = true, value_name = "FILE", default_value = "/usr/bin/victoria-metrics")]
    pub victoria_metrics: PathBuf,
    /// InfluxDB's program.
    #[arg(long, global = true, value_name = "FILE", default_value = "/usr/bin/influxd")]
    pub influxdb: PathBuf,
    /// Prometheus' program.
    #[arg(long, global = true, value_name = "FILE", default_value = "target/bench/prometheus")]
    pub prometheus: PathBuf,
    /// Ceph's client library.
    #[arg(long, global = true, value_name = "FILE", default_value = Librados::NAME)]
    pub librados: PathBuf,
}

/// A running server with its own store.
pub struct Server<'a> {
    pub peer: Peer,
    pub context: &'a Context,
    pub address: SocketAddr,
    pub headers: Headers,
    pub probe: Probe,
    /// The next metric's number, on servers that assign no ids.
    number: AtomicUsize,
    // In the order of stopping.
    processes: Processes,
    /// Those that it was started on.
    pub engines: Option<Engines>,
    directory: Option<TempDir>,
    _noop: Option<NoopServer>,
}

impl<'a> Server<'a> {
    /// Starts a server with an empty store.
    pub fn start(peer: Peer, context: &'a Context) -> Result<Self> {
        if peer == Peer::Limit {
            return Ok(Server::of_noop(NoopServer::start()?, context));
        }
        Server::start_configured(peer, "", context)
    }

    /// A running gnudi.
    pub fn running(url: &str, context: &'a Context) -> Result<Self> {
        let endpoint = Endpoint::parse(url)?;
        ensure!(!endpoint.is_secure, "{url}: the scheme must be http");
        Ok(Server::at(Peer::Gnudi, context, endpoint.address()?, &endpoint.prefix))
    }

    /// Starts a no-op server that answers once the request is on disk.
    pub fn durable_limit(context: &'a Context) -> Result<Self> {
        let directory = directory(&context.leftovers)?;
        let noop = NoopServer::logging(GroupLog::create(directory.path())?)?;
        Ok(Server { directory: Some(directory), ..Server::of_noop(noop, context) })
    }

    fn of_noop(noop: NoopServer, context: &'a Context) -> Self {
        let (address, probe) = (noop.address, Probe::Thread(noop.thread_id));
        Server { probe, _noop: Some(noop), ..Server::at(Peer::Limit, context, address, "") }
    }

    /// Starts a server with an empty store; gnudi with these lines of gnocchi.conf.
    pub fn start_configured(peer: Peer, configuration: &str, context: &'a Context) -> Result<Self> {
        let directory = directory(&context.leftovers)?;
        if peer.is_gnudi() {
            let own = if peer == Peer::GnudiOs { gnudi::UNSYNCED } else { "" };
            std::fs::write(directory.path().join(gnudi::CONFIGURATION), own.to_owned() + configuration)?;
        }
        let site = Site::new(directory.path(), context)?;
        let mut server = Server::at(peer, context, site.address, "");
        server.consist_of(peer.start_processes(&site)?);
        Ok(Server { directory: Some(directory), ..server })
    }

    /// Starts gnudi or Gnocchi on shared engines, which are stopped with it.
    pub fn start_on(engine: Engine, peer: Peer, context: &'a Context) -> Result<Self> {
        let directory = directory(&context.leftovers)?;
        let engines = Engines::start(engine, &Site::new(directory.path(), context)?)?;
        // An address that the engines' daemons do not use.
        let site = Site::new(directory.path(), context)?;
        let start = if peer == Peer::Gnocchi { gnocchi::start_on } else { gnudi::start_on };
        let processes = start(&engines, &site)?;
        let mut server = Server { engines: Some(engines), ..Server::at(peer, context, site.address, "") };
        server.consist_of(processes);
        Ok(Server { directory: Some(directory), ..server })
    }

    /// Consists of these processes, and of those of its engines.
    fn consist_of(&mut self, processes: Vec<Guarded>) {
        let of_engines = self.engines.iter().flat_map(Engines::pids);
        self.probe = Probe::Processes(processes.iter().map(Guarded::pid).chain(of_engines).collect());
        self.processes = Processes(processes);
    }

    /// A server elsewhere.
    fn at(peer: Peer, context: &'a Context, address: SocketAddr, prefix: &str) -> Self {
        Server {
            peer,
            context,
            address,
            headers: Headers::new(address.to_string(), prefix),
            probe: Probe::Unknown,
            number: AtomicUsize::new(0),
            processes: Processes(Vec::new()),
            engines: None,
            directory: None,
            _noop: None,
        }
    }

    /// Its directory, if it runs here.
    fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TempDir::path)
    }

    /// Its configuration file, if it runs here.
    pub fn configuration(&self) -> Option<PathBuf> {
        Some(self.directory()?.join(gnudi::CONFIGURATION))
    }

    pub fn load<'b>(&'b self, requests: &'b Requests, connections: usize, until: Until) -> Load<'b> {
        Load { connections, ..Load::new(self.address, requests, until, &self.context.stop) }
    }

    /// Unused metric numbers, on a server that assigns no ids.
    pub fn number(&self, metrics: usize) -> Range<usize> {
        let first = self.number.fetch_add(metrics, Ordering::Relaxed);
        first..first + metrics
    }

    /// A server that is not running, for tests of requests.
    #[cfg(test)]
    pub fn nowhere(peer: Peer, context: &'a Context) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Server::at(peer, context, address, "")
    }

    /// Restarts the server on the same store; the time until its first response, or `None` if that is not possible.
    pub fn restart(&mut self) -> Result<Option<Duration>> {
        let Some(directory) = self.directory.as_ref().filter(|_| self.peer != Peer::Gnocchi) else {
            return Ok(None);
        };
        self.processes.0.clear();
        let start = Instant::now();
        let site = Site { address: self.address, ..Site::new(directory.path(), self.context)? };
        let processes = self.peer.start_processes(&site)?;
        self.consist_of(processes);
        Ok(Some(start.elapsed()))
    }

    /// The same after a kill.
    pub fn restart_killed(&mut self) -> Result<Option<Duration>> {
        for process in &mut self.processes.0 {
            process.stop = Signal::KILL;
        }
        self.restart()
    }

    /// The directory of its data, if it runs here.
    pub fn data(&self) -> Option<PathBuf> {
        Some(self.directory()?.join(DATA))
    }

    pub fn client(&self) -> Result<Client> {
        let url = format!("http://{}{}", self.headers.host, self.headers.prefix);
        // uwsgi closes each connection without announcing it: do not reuse them.
        let options = ClientOptions {
            timeout: Duration::from_mins(5),
            idle_connections_max: 0,
            ..ClientOptions::default()
        };
        Ok(Client::new(&url, &options)?)
    }
}

/// A site for a server: its directory, its address, and the cleanup of its processes.
struct Site<'a> {
    programs: &'a Programs,
    directory: &'a Path,
    address: SocketAddr,
    leftovers: &'a Leftovers,
}

impl<'a> Site<'a> {
    /// A site with a free address.
    fn new(directory: &'a Path, context: &'a Context) -> Result<Self> {
        let Context { programs, leftovers, .. } = context;
        Ok(Site { programs, directory, address: free_address()?, leftovers })
    }

    /// Starts the only process of a server, and waits until it answers the request.
    fn serve(&self, command: &mut Command, log: &str, [method, path]: [&str; 2]) -> Result<Vec<Guarded>> {
        Ok(vec![self.start(command, log, Signal::TERM, || self.answers(method, path))?])
    }

    /// Whether a request without a body returns 200.
    fn answers(&self, method: &str, path: &str) -> bool {
        ask(self.address, method, path).is_ok_and(|status| status.ends_with(b" 200"))
    }

    /// Starts a process with its output in `log`, and waits until it is ready.
    fn start(
        &self,
        command: &mut Command,
        log: &str,
        stop: Signal,
        ready: impl FnMut() -> bool,
    ) -> Result<Guarded> {
        let mut process = Guarded::start(command, &self.directory.join(log), stop, self.leftovers)?;
        process.wait_ready(START_DELAY_MAX, ready)?;
        Ok(process)
    }
}

/// A directory that other users can read: PostgreSQL runs as its own user.
pub fn directory(leftovers: &Leftovers) -> Result<TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::Builder::new().prefix("gnudi-bench-").tempdir().context("a directory")?;
    leftovers.add_directory(directory.path());
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// A currently free address on loopback.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The start of the response to a request without a body, up to its status.
fn ask(address: SocketAddr, method: &str, path: &str) -> std::io::Result<[u8; 12]> {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic YWRtaW46\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    )?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(status)
}

/// Fails if a program is missing.
fn check_exists(program: &Path) -> Result<()> {
    ensure!(program.exists(), "{} is missing", program.display());
    Ok(())
}
