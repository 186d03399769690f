//! The polling agent's Prometheus exporter and heartbeat socket, configured by ceilometer.conf.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result, bail};
use gnudi_server::Tls;
use gnudi_telemetry::polling::{
    exporter::Exporter,
    heartbeat::{HeartbeatSocket, Heartbeats},
};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    commands::metrics::{self, Page},
    config::Config,
};

const POLLING: &str = "polling";
const LISTEN_ADDRESSES: &str = "prometheus_listen_addresses";

/// The exporter and the heartbeats, if configured. Their sockets are bound when this is created, so that a failure
/// prevents the agent's start.
#[derive(Default)]
pub struct Exports {
    pub exporter: Option<Arc<Exporter>>,
    pub heartbeats: Option<Arc<Heartbeats>>,
    listeners: Vec<TcpListener>,
    tls: Option<Arc<Tls>>,
    socket: Option<HeartbeatSocket>,
}

/// The samples, at every path but `/favicon.ico`, as `prometheus_client` for Python serves them.
struct ExporterPage(Arc<Exporter>);

impl Page for ExporterPage {
    const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    async fn text(&self, path: &str) -> Option<Result<String, String>> {
        (path != "/favicon.ico").then(|| Ok(self.0.text()))
    }
}

impl Exports {
    /// Must be called within a Tokio runtime.
    pub fn new(config: &Config, namespaces: &[String]) -> Result<Self> {
        let mut exports = Exports::default();
        if config.bool(POLLING, "enable_prometheus_exporter") {
            exports.exporter = Some(Arc::default());
            exports.tls = tls(config)?.map(Arc::new);
            for address in config.list(POLLING, LISTEN_ADDRESSES) {
                let (listener, at) =
                    metrics::bound(&address).with_context(|| config.place(POLLING, LISTEN_ADDRESSES))?;
                tracing::info!(address = %at, "serving polled samples to Prometheus");
                exports.listeners.push(listener);
            }
        }
        if let Some(directory) = config.text(POLLING, "heartbeat_socket_dir") {
            let socket = HeartbeatSocket::bind(Path::new(directory), namespaces).with_context(|| {
                format!("{} = {directory}", config.place(POLLING, "heartbeat_socket_dir"))
            })?;
            tracing::info!(socket = %socket.path().display(), "serving heartbeats");
            exports.socket = Some(socket);
            exports.heartbeats = Some(Arc::default());
        }
        Ok(exports)
    }

    /// Whether the exporter's options are complete and valid. Binds nothing.
    pub fn check(config: &Config) -> Result<()> {
        if config.bool(POLLING, "enable_prometheus_exporter") {
            tls(config)?;
            for address in config.list(POLLING, LISTEN_ADDRESSES) {
                metrics::check_address(config, POLLING, LISTEN_ADDRESSES, &address)?;
            }
        }
        Ok(())
    }

    /// Serves until the returned tasks are dropped.
    pub fn serve(self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(tls) = self.tls.clone() {
            tasks.spawn(async move {
                if let Err(error) = tls.follow().await {
                    tracing::error!(%error, "a renewed certificate needs a restart");
                }
            });
        }
        if let Some(exporter) = self.exporter {
            let page = Arc::new(ExporterPage(exporter));
            for listener in self.listeners {
                tasks.spawn(metrics::serve(listener, self.tls.clone(), page.clone()));
            }
        }
        if let (Some(socket), Some(heartbeats)) = (self.socket, self.heartbeats) {
            tasks.spawn(async move {
                if let Err(error) = socket.serve(heartbeats).await {
                    tracing::error!(%error, "the heartbeat socket has failed");
                }
            });
        }
        tasks
    }
}

fn tls(config: &Config) -> Result<Option<Tls>> {
    if !config.bool(POLLING, "prometheus_tls_enable") {
        return Ok(None);
    }
    let file = |name| config.text(POLLING, name).map(Path::new);
    match (file("prometheus_tls_certfile"), file("prometheus_tls_keyfile")) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::load(certificate, key)?)),
        _ => bail!(
            "{}: needs prometheus_tls_certfile and prometheus_tls_keyfile",
            config.place(POLLING, "prometheus_tls_enable")
        ),
    }
}
