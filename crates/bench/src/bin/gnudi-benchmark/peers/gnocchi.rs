//! Gnocchi in a typical deployment: PostgreSQL for metadata, Redis for incoming measures, files for aggregates, uwsgi
//! with four processes of eight threads, and two metricd workers.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{
    Site, check_exists,
    child::{Guarded, Signal, output_of},
    engines::{self, Engine, Engines, start_redis},
    postgres::Postgres,
};

const METRICD_WORKERS: usize = 2;
const UWSGI_PROCESSES: usize = 4;
const UWSGI_THREADS: usize = 8;

/// The folder of its aggregates.
const STORE: &str = "store";

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let postgres = Postgres::start(site, "gnocchi")?;
    let (redis, address) = start_redis(site, &[])?;
    let redis_url = format!("redis://{address}");
    let stores = format!(
        "[indexer]\nurl = {}\n[incoming]\ndriver = redis\nredis_url = {redis_url}\n\
         [storage]\ndriver = file\nfile_basepath = {}\n",
        postgres.url(),
        site.directory.join(STORE).display()
    );
    let mut processes = vec![postgres.process, redis];
    processes.extend(start_programs(site, &redis_url, &stores, None)?);
    Ok(processes)
}

pub(super) fn start_on(engines: &Engines, site: &Site) -> Result<Vec<Guarded>> {
    let is_ceph = engines.engine == Engine::Ceph;
    let rados = is_ceph.then(|| engines::python_rados(site.directory)).transpose()?;
    let redis_url = engines.redis_address().map(|address| format!("redis://{address}"));
    let coordination_url = redis_url.unwrap_or_else(|| engines.database());
    start_programs(site, &coordination_url, &engines.configuration(), rados.as_deref())
}

/// Runs the upgrade, then starts workers and API. `stores` are sections of the configuration; `python_path` is an
/// additional directory of Python modules.
fn start_programs(
    site: &Site,
    coordination_url: &str,
    stores: &str,
    python_path: Option<&Path>,
) -> Result<Vec<Guarded>> {
    let config = site.directory.join("gnocchi.conf");
    // The default delay of a minute would dominate the result.
    let text = format!(
        "[DEFAULT]\ncoordination_url = {coordination_url}\n{stores}\
         [metricd]\nworkers = {METRICD_WORKERS}\nmetric_processing_delay = 1\n[api]\nauth_mode = basic\n"
    );
    std::fs::write(&config, text)?;
    let programs = site.programs.gnocchi_venv.join("bin");
    for name in ["uwsgi", "gnocchi-upgrade", "gnocchi-metricd"] {
        check_exists(&programs.join(name))?;
    }
    let command = |name: &str| {
        let mut command = Command::new(programs.join(name));
        command.envs(python_path.iter().map(|path| ("PYTHONPATH", path)));
        command
    };
    let configured = |name: &str| {
        let mut command = command(name);
        command.arg("--config-file").arg(&config);
        command
    };
    output_of(&mut configured("gnocchi-upgrade"))?;
    let metricd = site.start(&mut configured("gnocchi-metricd"), "metricd.log", Signal::KILL, || true)?;
    let mut uwsgi = command("uwsgi");
    let uwsgi = uwsgi
        .args(["--http-socket", &site.address.to_string(), "--listen", "100"])
        .args(["--processes", &UWSGI_PROCESSES.to_string(), "--threads", &UWSGI_THREADS.to_string()])
        .args(["--enable-threads", "--master", "--lazy-apps", "--buffer-size", "65535", "--disable-logging"])
        .args(["--module", "gnocchi.wsgi.api:application", "--pyargv"])
        .arg(format!("--config-file {}", config.display()));
    let ready = || site.answers("GET", "/v1/status?details=false");
    Ok(vec![metricd, site.start(uwsgi, "uwsgi.log", Signal::KILL, ready)?])
}
