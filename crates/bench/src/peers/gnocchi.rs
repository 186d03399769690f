//! Gnocchi in the shape its operators run: PostgreSQL for metadata, Redis for incoming measures, files for aggregates, uwsgi with
//! four processes of eight threads, and two metricd workers.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    Programs, START_DELAY_MAX, answers,
    child::{Guarded, Leftovers, Signal, run_to_end},
    free_address,
};

const METRICD_WORKERS: usize = 2;
const UWSGI_PROCESSES: usize = 4;
const UWSGI_THREADS: usize = 8;

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
    let (postgres, database) = start_postgres(directory, leftovers)?;
    let (redis, redis_url) = start_redis(directory, leftovers)?;
    let config = directory.join("gnocchi.conf");
    std::fs::write(&config, configuration(directory, &database, &redis_url))?;

    let mut command = Command::new(upgrade);
    command.arg("--config-file").arg(&config);
    run_to_end(command)?;

    let mut command = Command::new(metricd);
    command.arg("--config-file").arg(&config);
    let metricd = Guarded::start(command, &directory.join("metricd.log"), Signal::Kill, leftovers)?;
    let api = start_api(&uwsgi, directory, &config, address, leftovers)?;
    Ok(vec![postgres, redis, metricd, api])
}

fn configuration(directory: &Path, database: &str, redis_url: &str) -> String {
    let mut text = String::new();
    for (section, options) in [
        ("DEFAULT", format!("coordination_url = {redis_url}")),
        ("indexer", format!("url = {database}")),
        ("incoming", format!("driver = redis\nredis_url = {redis_url}")),
        ("storage", format!("driver = file\nfile_basepath = {}", directory.join("store").display())),
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

/// Starts a PostgreSQL with a database for Gnocchi: the process and the database's URL.
fn start_postgres(directory: &Path, leftovers: &Leftovers) -> Result<(Guarded, String)> {
    let programs = postgres_programs()?;
    let directory = directory.join("pg");
    std::fs::create_dir(&directory)?;
    let as_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if as_root {
        // PostgreSQL refuses to run as root.
        let mut command = Command::new("chown");
        command.arg("postgres:").arg(&directory);
        run_to_end(command)?;
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
    let mut initdb = command("initdb");
    initdb.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
    run_to_end(initdb)?;

    let address = free_address()?;
    let port = address.port().to_string();
    let mut server = command("postgres");
    server
        .arg("-D")
        .arg(&data)
        .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-k"])
        .arg(&directory);
    let log = directory.join("log");
    let mut server = Guarded::start(server, &log, Signal::Quit, leftovers)?;
    let socket = directory.join(format!(".s.PGSQL.{port}"));
    server
        .wait_ready(START_DELAY_MAX, || socket.exists() && std::net::TcpStream::connect(address).is_ok())?;
    let create = || {
        let mut createdb = command("createdb");
        createdb.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "gnocchi"]);
        run_to_end(createdb)
    };
    // The port is open a moment before the server takes work.
    let mut created = create();
    server.wait_ready(START_DELAY_MAX, || {
        if created.is_err() {
            created = create();
        }
        created.is_ok()
    })?;
    Ok((server, format!("postgresql://postgres@{address}/gnocchi")))
}

/// The newest installed PostgreSQL's directory of server programs.
fn postgres_programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed")?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|directory| directory.join("initdb").exists())
        .max_by_key(|path| path.parent()?.file_name()?.to_str()?.parse::<u32>().ok())
        .context("PostgreSQL's server programs are not installed")
}
