//! Gnocchi in the shape its operators run: PostgreSQL for metadata, Redis for incoming measures, files for aggregates, uwsgi with
//! four processes of eight threads, and two metricd workers.

use std::{fmt::Write as _, net::SocketAddr, path::Path, process::Command};

use anyhow::{Result, bail};

use super::{
    Programs, START_DELAY_MAX, answers,
    child::{Guarded, Leftovers, Signal, run_to_end},
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
    let program = |name: &str| {
        let path = programs.gnocchi_venv.join("bin").join(name);
        if path.exists() { Ok(path) } else { bail!("{} is missing", path.display()) }
    };
    let (uwsgi, upgrade, metricd) =
        (program("uwsgi")?, program("gnocchi-upgrade")?, program("gnocchi-metricd")?);
    let postgres = Postgres::start(programs, directory, "gnocchi", leftovers)?;
    let (redis, redis_url) = start_redis(directory, leftovers)?;
    let config = directory.join("gnocchi.conf");
    std::fs::write(&config, configuration(directory, &postgres.url(), &redis_url))?;

    let mut command = Command::new(upgrade);
    command.arg("--config-file").arg(&config);
    run_to_end(command)?;

    let mut command = Command::new(metricd);
    command.arg("--config-file").arg(&config);
    let metricd = Guarded::start(command, &directory.join("metricd.log"), Signal::Kill, leftovers)?;
    let api = start_api(&uwsgi, directory, &config, address, leftovers)?;
    Ok(vec![postgres.process, redis, metricd, api])
}

fn configuration(directory: &Path, database: &str, redis_url: &str) -> String {
    let mut text = String::new();
    for (section, options) in [
        ("DEFAULT", format!("coordination_url = {redis_url}")),
        ("indexer", format!("url = {database}")),
        ("incoming", format!("driver = redis\nredis_url = {redis_url}")),
        ("storage", format!("driver = file\nfile_basepath = {}", directory.join(STORE).display())),
        // Its default of a minute would be most of what is measured.
        ("metricd", format!("workers = {METRICD_WORKERS}\nmetric_processing_delay = 1")),
        ("api", "auth_mode = basic".to_owned()),
    ] {
        writeln!(text, "[{section}]\n{options}").expect("a String takes it");
    }
    text
}

fn start_api(
    uwsgi: &Path,
    directory: &Path,
    config: &Path,
    address: SocketAddr,
    leftovers: &Leftovers,
) -> Result<Guarded> {
    let mut command = Command::new(uwsgi);
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
