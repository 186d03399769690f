//! `gnudi serve`: API and workers in one process. `gnudi api`: the API alone, on shared engines.

use std::{io, net::SocketAddr};

use anyhow::{Context as _, Result};
use gnudi_access::{AuthMode, ProcessSecret};
use gnudi_client::Trust;
use gnudi_engine::{Metricd, Presence};
use gnudi_server::Listener;
use gnudi_telemetry::host::{Collector, CollectorOptions};
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpSocket, ToSocketAddrs, lookup_host},
    runtime::Handle,
};
use uuid::Uuid;

use super::{
    collectors::{Collectors, Sink, USER},
    metrics,
};
use crate::{
    args::ServeArgs,
    config::Config,
    logging,
    store::{Journaling, RetryPolicy, Store},
};

/// Listen backlog of the socket.
const BACKLOG: u32 = 1024;
/// Open files that are no connection of a client: the store's, and connections to engines.
const OTHER_FILES: u64 = 1000;

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Everything,
    /// No workers, except with the embedded store, which belongs to one process.
    Api,
}

/// The workers, or the announcement that this process has none.
enum Worker {
    Workers(Metricd),
    Presence(Presence),
}

impl Worker {
    fn start(role: Role, store: &Store, config: &Config) -> Self {
        if has_workers(role, store) {
            return Worker::Workers(super::start_metricd(store, config));
        }
        let name = super::process_name(store);
        Worker::Presence(Presence::start(store.engine.clone(), name, super::lease(config), super::now()))
    }

    async fn stop(self) {
        match self {
            Worker::Workers(metricd) => metricd.stop().await,
            Worker::Presence(presence) => presence.stop().await,
        }
    }
}

fn has_workers(role: Role, store: &Store) -> bool {
    role == Role::Everything || !store.is_shared()
}

pub fn run(args: &ServeArgs, role: Role) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    let command = if role == Role::Everything { "serve" } else { "api" };
    logging::start_service(&config, command)?;
    allow_files(&config);
    // Workers have their own threads: a long pass must not delay requests.
    let workers = super::runtime(&config, "metricd", config.int("metricd", "workers"))?;
    let requests = super::runtime(&config, "api", None)?;
    let metricd = workers.handle().clone();
    let served = super::run_service(requests, serve(args, role, &config, &metricd));
    super::end(workers);
    served
}

/// Raises the soft limit of open files, often 1,024, so that connections leave some for the store.
fn allow_files(config: &Config) {
    let wanted = (config.size("api", "connections_max") as u64).saturating_add(OTHER_FILES);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    if raised.is_err() || current < wanted {
        tracing::warn!(
            "the process may not open {wanted} files ([api] connections_max and {OTHER_FILES} others): connections \
             may leave none for the store"
        );
    }
}

async fn serve(args: &ServeArgs, role: Role, config: &Config, workers: &Handle) -> Result<()> {
    super::ignore_hangup()?;
    let starting = super::Starting::begin()?;
    let own_password = Uuid::new_v4().to_string();
    let auth_mode = super::api::auth_mode(config, args, ProcessSecret::new(own_password.clone()))?;
    let tls = super::api::tls(config)?;
    let address = address(args, config, &auth_mode).await?;
    let methods = super::default_methods(config)?;
    let options = super::api::options(config, args, auth_mode, methods.clone())?;
    // Bind before anything is written: if the port is in use, nothing is left behind.
    let socket = bind(address)?;
    let figures = metrics::bind(args.metrics_listen.as_deref(), config, "api")?;
    let retry = RetryPolicy::configured(config);
    let store = Store::open(&args.store, config, retry, Journaling::Configured).await?;
    store.mark_as_used(config, retry).await?;
    if !args.skip_archive_policies_creation {
        store.create_default_policies(config, &methods, retry).await?;
    }
    let socket = socket.listen(BACKLOG).with_context(|| format!("listening on {address}"))?;
    let address = socket.local_addr()?;

    // The certificate is for the server's public name, not for this address. Connections to our own socket need no
    // verification.
    let endpoint = endpoint(args, address, tls.is_some());
    // A full disk must not prevent serving.
    if let Some(local) = &store.local
        && let Err(error) = local.dir.set_endpoint(&endpoint)
    {
        tracing::warn!(%error, "`gnudi status --data-dir` will not find this server");
    }
    let sink = Sink { endpoint, user: None, password: own_password, trust: Trust::Anyone };
    let listener = Listener { socket, tls };
    let mut registry = Registry::default();
    // One of several APIs leaves the machine's figures to the process that collects them for all.
    let host = if has_workers(role, &store) { host_collector(args, config, &sink)? } else { None };
    let collectors = Collectors::start(args, config, &sink, host, &mut registry).await?;
    // Once nothing else can fail: the other processes leave sacks to this one, and would wait for the end of its lease.
    let part = {
        let _on_workers = workers.enter();
        Worker::start(role, &store, config)
    };
    super::exit_on_lost_tasks(store.engine.clone());
    let stopped = starting.finish();
    // Collectors post their last measures while requests are still served.
    #[expect(clippy::async_yields_async, reason = "the server awaits what ends its wait for requests")]
    let stop = async {
        stopped.await;
        let interrupted = super::interrupted();
        collectors.finish().await;
        interrupted
    };
    let served = super::api::serve(listener, figures, &store, options, workers, registry, stop).await;
    tracing::info!("stopping");
    part.stop().await;
    store.close().await;
    tracing::info!("stopped");
    served
}

/// The address to listen on.
async fn address(args: &ServeArgs, config: &Config, auth_mode: &AuthMode) -> Result<SocketAddr> {
    let address = if let Some(listen) = &args.listen {
        resolve(listen, &format!("--listen {listen}")).await?
    } else {
        let host = args.host.as_deref().or(config.text("api", "host")).unwrap_or("127.0.0.1").to_owned();
        let port = args.port.unwrap_or(config.size("api", "port") as u16);
        let option = match &args.host {
            Some(host) => format!("--host {host}"),
            None => format!("{} = {host}", config.place("api", "host")),
        };
        resolve((host.as_str(), port), &option).await?
    };
    super::api::refuse_open_access(address.ip(), args, auth_mode)?;
    Ok(address)
}

/// Resolves a host name, preferring IPv4: clients of `localhost` try that. `option` is named in errors.
async fn resolve(host: impl ToSocketAddrs, option: &str) -> Result<SocketAddr> {
    let addresses: Vec<SocketAddr> = lookup_host(host).await.with_context(|| option.to_owned())?.collect();
    let usual = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    usual.copied().with_context(|| format!("{option}: no address"))
}

/// Binds the port; accepts nothing yet.
fn bind(address: SocketAddr) -> Result<TcpSocket> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Connections of a former server may still be in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok::<_, io::Error>(socket)
    };
    bind().with_context(|| format!("listening on {address}"))
}

/// The URL under which this process itself reaches the API.
fn endpoint(args: &ServeArgs, mut address: SocketAddr, is_secure: bool) -> String {
    address.set_ip(super::reached_at(address.ip(), super::binds_v6_only()));
    let scheme = if is_secure { "https" } else { "http" };
    format!("{scheme}://{address}{}", super::api::path_prefix(&args.path_prefix))
}

/// The collector of this machine's figures, if it is enabled.
fn host_collector(args: &ServeArgs, config: &Config, sink: &Sink) -> Result<Option<Collector>> {
    if !config.bool("host", "enabled") || args.without.iter().any(|collector| collector == "host") {
        return Ok(None);
    }
    let options = CollectorOptions {
        interval: config.seconds("host", "interval"),
        archive_policy_name: config.text("host", "archive_policy_name").unwrap_or("high").to_owned(),
        proc_dir: "/proc".into(),
        user: USER.to_owned(),
    };
    Ok(Some(Collector::new(sink.client_of(USER)?, options)))
}
