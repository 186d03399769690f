//! Gnocchi in the shape its operators run: PostgreSQL for metadata, Redis for incoming measures, files for aggregates, uwsgi with
//! four processes of eight threads, and two metricd workers.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use super::{
    Programs, START_DELAY_MAX, answers,
    child::{Guarded, Leftovers, Signal, run_to_end},
    engines::{self, Engine, Engines},
    free_address,
    postgres::Postgres,
};

const METRICD_WORKERS: usize = 2;
const UWSGI_PROCESSES: usize = 4;
const UWSGI_THREADS: usize = 8;

/// Where its aggregates lie in its directory.
pub(super) const STORE: &str = "store";

pub(super) fn start(
    programs: &Programs,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let postgres = Postgres::start(programs, directory, "gnocchi", leftovers)?;
    let (redis, redis_url) = start_redis(directory, leftovers)?;
    let config = directory.join("gnocchi.conf");
    std::fs::write(&config, configuration(directory, &postgres.url(), &redis_url))?;
    let environment = Environment::new(programs, None)?;
    let mut processes = vec![postgres.process, redis];
    processes.extend(start_programs(&environment, directory, &config, address, leftovers)?);
    Ok(processes)
}

/// Gnocchi on engines that it shares with nobody, but could.
pub(super) fn start_on(
    engines: &Engines,
    programs: &Programs,
    directory: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let rados = (engines.engine == Engine::Ceph).then(|| engines::python_rados(directory)).transpose()?;
    let config = directory.join("gnocchi.conf");
    let coordination = engines.redis_url().unwrap_or_else(|| engines.database());
    let text =
        format!("[DEFAULT]\ncoordination_url = {coordination}\n{}{}", engines.configuration(), common());
    std::fs::write(&config, text)?;
    let environment = Environment::new(programs, rados)?;
    start_programs(&environment, directory, &config, address, leftovers)
}

/// Gnocchi's programs, and where Python looks for modules besides its own.
struct Environment {
    programs: PathBuf,
    python_path: Option<PathBuf>,
}

impl Environment {
    fn new(programs: &Programs, python_path: Option<PathBuf>) -> Result<Self> {
        let environment = Environment { programs: programs.gnocchi_venv.join("bin"), python_path };
        for name in ["uwsgi", "gnocchi-upgrade", "gnocchi-metricd"] {
            let path = environment.programs.join(name);
            ensure!(path.exists(), "{} is missing", path.display());
        }
        Ok(environment)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        if let Some(path) = &self.python_path {
            command.env("PYTHONPATH", path);
        }
        command
    }
}

/// The workers and the API, after the upgrade that makes their places.
fn start_programs(
    environment: &Environment,
    directory: &Path,
    config: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Vec<Guarded>> {
    let mut command = environment.command("gnocchi-upgrade");
    command.arg("--config-file").arg(config);
    run_to_end(command)?;
    let mut command = environment.command("gnocchi-metricd");
    command.arg("--config-file").arg(config);
    let metricd = Guarded::start(command, &directory.join("metricd.log"), Signal::Kill, leftovers)?;
    let api = start_api(environment.command("uwsgi"), directory, config, address, leftovers)?;
    Ok(vec![metricd, api])
}

fn configuration(directory: &Path, database: &str, redis_url: &str) -> String {
    let mut text = String::new();
    for (section, options) in [
        ("DEFAULT", format!("coordination_url = {redis_url}")),
        ("indexer", format!("url = {database}")),
        ("incoming", format!("driver = redis\nredis_url = {redis_url}")),
        ("storage", format!("driver = file\nfile_basepath = {}", directory.join(STORE).display())),
    ] {
        writeln!(text, "[{section}]\n{options}").expect("a String takes it");
    }
    text + &common()
}

/// What does not depend on the engines.
fn common() -> String {
    // The default delay of a minute would be most of what is measured.
    format!("[metricd]\nworkers = {METRICD_WORKERS}\nmetric_processing_delay = 1\n[api]\nauth_mode = basic\n")
}

fn start_api(
    mut command: Command,
    directory: &Path,
    config: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Guarded> {
    command
        .args(["--http-socket", &address.to_string(), "--listen", "100"])
        .args(["--processes", &UWSGI_PROCESSES.to_string(), "--threads", &UWSGI_THREADS.to_string()])
        .args(["--enable-threads", "--master", "--lazy-apps", "--buffer-size", "65535", "--disable-logging"])
        .args(["--module", "gnocchi.wsgi.api:application", "--pyargv"])
        .arg(format!("--config-file {}", config.display()));
    let mut api = Guarded::start(command, &directory.join("uwsgi.log"), Signal::Kill, leftovers)?;
    api.wait_ready(START_DELAY_MAX, || answers(address, "/v1/status?details=false"))?;
    Ok(api)
}

fn start_redis(directory: &Path, leftovers: &Leftovers) -> Result<(Guarded, String)> {
    let address = free_address()?;
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(directory);
    let mut redis = Guarded::start(command, &directory.join("redis.log"), Signal::Term, leftovers)?;
    redis.wait_ready(START_DELAY_MAX, || std::net::TcpStream::connect(address).is_ok())?;
    Ok((redis, format!("redis://{address}")))
}
