//! Shared engines for gnudi and Gnocchi: PostgreSQL for the index, and Redis, Ceph, or S3 (Ceph's gateway) for measures
//! and aggregates.
//!
//! Started for one server, with their own directories. Their settings determine durability: Redis syncs every write.

use std::{
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use gnudi_rados::Librados;

use super::{
    Site, ask,
    ceph::{Ceph, check_installed, create_pool},
    child::{Guarded, Signal, output_of},
    free_address,
    postgres::Postgres,
    value_name,
};

/// The engine of incoming measures and aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Redis,
    Ceph,
    S3,
}

pub const POOL: &str = "measured";
/// As in a small production pool, with one replica.
const PLACEMENT_GROUPS: u32 = 16;
const USER: &str = "bench";
const ACCESS_KEY: &str = "bench-access";
const SECRET_KEY: &str = "bench-secret";

impl Engine {
    /// The engines' names, and the durability of an accepted write.
    pub fn title(self) -> &'static str {
        match self {
            Engine::Redis => "PostgreSQL + Redis + Redis (appendfsync always)",
            Engine::Ceph => "PostgreSQL + Ceph + Ceph (two OSDs on the memory store)",
            Engine::S3 => "PostgreSQL + S3 + S3 (Ceph's gateway, on two OSDs on the memory store)",
        }
    }
}

pub struct Engines {
    pub engine: Engine,
    // In the order of stopping: the gateway writes to Ceph until it stops.
    gateway: Option<(Guarded, SocketAddr)>,
    pub ceph: Option<Ceph>,
    redis: Option<(Guarded, SocketAddr)>,
    postgres: Postgres,
}

impl Engines {
    /// PostgreSQL's user must have access to the site's directory.
    pub(super) fn start(engine: Engine, site: &Site) -> Result<Self> {
        let postgres = Postgres::start(site, "gnudi")?;
        let mut engines = Engines { engine, postgres, redis: None, gateway: None, ceph: None };
        if engine == Engine::Redis {
            check_installed(&[("redis-server", "redis-server")])?;
            engines.redis = Some(start_redis(site, &["--appendonly", "yes", "--appendfsync", "always"])?);
            return Ok(engines);
        }
        let librados = Librados::load(&site.programs.librados)?;
        let ceph = Ceph::start(&librados, site).context("starting Ceph")?;
        let ceph = engines.ceph.insert(ceph);
        create_pool(&ceph.cluster, POOL, PLACEMENT_GROUPS)?;
        if engine == Engine::S3 {
            engines.gateway = Some(start_gateway(&ceph.conf, site)?);
        }
        Ok(engines)
    }

    pub fn database(&self) -> String {
        self.postgres.url()
    }

    /// The engines' process ids; their processor time counts as the server's.
    pub fn pids(&self) -> Vec<u32> {
        let others = [&self.redis, &self.gateway].into_iter().flatten().map(|(process, _)| process.pid());
        let ceph = self.ceph.iter().flat_map(Ceph::pids);
        std::iter::once(self.postgres.process.pid()).chain(others).chain(ceph).collect()
    }

    /// If Redis runs.
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.redis.as_ref().map(|(_, address)| *address)
    }

    /// The sections [indexer], [incoming] and [storage] of gnocchi.conf, for gnudi and Gnocchi.
    pub fn configuration(&self) -> String {
        let name = value_name(&self.engine);
        let options = match (self.engine, &self.ceph, &self.gateway) {
            (Engine::Ceph, Some(ceph), _) => format!(
                "driver = {name}\nceph_pool = {POOL}\nceph_username = admin\nceph_conffile = {}\n",
                ceph.conf.display()
            ),
            (Engine::S3, _, Some((_, address))) => format!(
                "driver = {name}\ns3_endpoint_url = http://{address}\ns3_region_name = default\n\
                 s3_access_key_id = {ACCESS_KEY}\ns3_secret_access_key = {SECRET_KEY}\ns3_bucket_prefix = measured\n"
            ),
            _ => {
                let address = self.redis_address().expect("Redis runs where nothing else does");
                format!("driver = {name}\nredis_url = redis://{address}\n")
            }
        };
        format!("[indexer]\nurl = {}\n[incoming]\n{options}[storage]\n{options}", self.database())
    }
}

/// A Redis without snapshots, in its own directory.
pub(super) fn start_redis(site: &Site, more: &[&str]) -> Result<(Guarded, SocketAddr)> {
    let address = free_address()?;
    let data = site.directory.join("redis");
    std::fs::create_dir(&data)?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(more).arg("--dir").arg(data);
    let ready = || TcpStream::connect(address).is_ok();
    Ok((site.start(&mut command, "redis.log", Signal::TERM, ready)?, address))
}

fn start_gateway(conf: &Path, site: &Site) -> Result<(Guarded, SocketAddr)> {
    check_installed(&[("radosgw", "radosgw"), ("radosgw-admin", "radosgw")])?;
    let address = free_address()?;
    let mut command = Command::new("radosgw");
    command.args(["-f", "-n", "client.rgw.a", "-c"]).arg(conf);
    command.arg(format!("--rgw-frontends=beast endpoint={address}"));
    // Any response will do.
    let ready = || ask(address, "GET", "/").is_ok();
    let gateway = site.start(&mut command, "radosgw.log", Signal::KILL, ready)?;
    let mut command = Command::new("radosgw-admin");
    command.arg("-c").arg(conf).args(["user", "create", "--display-name=bench", "--max-buckets=0"]);
    command.args([format!("--uid={USER}"), format!("--access-key={ACCESS_KEY}")]);
    command.arg(format!("--secret-key={SECRET_KEY}"));
    output_of(&mut command)?;
    Ok((gateway, address))
}

/// A directory with only Debian's binding of librados, for a virtual environment without one.
pub fn python_rados(directory: &Path) -> Result<PathBuf> {
    const INSTALLED: &str = "/usr/lib/python3/dist-packages";
    let own = directory.join("python-rados");
    std::fs::create_dir(&own)?;
    let entries = std::fs::read_dir(INSTALLED).context("python3-rados is not installed")?;
    let binding = entries.flatten().find(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("rados.") && name.to_string_lossy().ends_with(".so")
    });
    let Some(binding) = binding else { bail!("python3-rados is not installed: Gnocchi cannot use Ceph") };
    std::os::unix::fs::symlink(binding.path(), own.join(binding.file_name()))?;
    Ok(own)
}
