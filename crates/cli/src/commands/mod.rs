//! One file per command; those that ask a server for data are in `client`, a file a noun.

pub mod agent;
pub mod api;
pub mod backup;
pub mod client;
pub mod collectors;
pub mod config;
pub mod export;
pub mod export_post;
pub mod import;
pub mod import_verify;
pub mod inject;
pub mod man;
pub mod metricd;
pub mod metrics;
pub mod moving;
pub mod passwd;
pub mod policy;
pub mod profile;
mod progress;
pub mod restore;
pub mod serve;
pub mod split_sacks;
pub mod status;
pub mod upgrade;
pub mod verify;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use gnudi_engine::{Metricd, MetricdOptions};
use gnudi_model::{Fault, Timespan, Timestamp};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

use uuid::Uuid;

use crate::{config::Config, store::Store};

/// About a century.
const SPAN_SECONDS_MAX: usize = 3_000_000_000;

/// Processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Threads for requests.
fn runtime(config: &Config, name: &str, threads: Option<i64>) -> Result<Runtime> {
    let threads = threads
        .or_else(|| config.int("DEFAULT", "parallel_operations"))
        .map_or_else(processors, |n| n as usize);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build()
        .context("starting threads")
}

/// Starts the workers as configured, on the current runtime.
fn start_metricd(store: &Store, config: &Config) -> Metricd {
    let seconds = |name| Duration::from_secs(config.size("metricd", name) as u64);
    let milliseconds = |name| Duration::from_millis(config.size("metricd", name) as u64);
    let span = |name| match config.size("metricd", name) {
        0 => None,
        // Years of seconds: what does not fit never comes.
        seconds => Some(Timespan::from_secs(seconds.min(SPAN_SECONDS_MAX) as i64)),
    };
    let reporting =
        config.int("metricd", "metric_reporting_delay").and_then(|delay| u64::try_from(delay).ok());
    let options = MetricdOptions {
        name: process_name(store),
        workers: config.int("metricd", "workers").map_or_else(processors, |n| n as usize),
        greedy: config.bool("metricd", "greedy"),
        processing_delay: seconds("metric_processing_delay"),
        gather: milliseconds("gather_ms"),
        checkpoint_delay: milliseconds("checkpoint_ms"),
        reporting_delay: reporting.map(Duration::from_secs),
        cleanup_delay: seconds("metric_cleanup_delay"),
        cleanup_batch_metrics: config.size("metricd", "cleanup_batch_size"),
        metric_inactive_after: span("metric_inactive_after"),
        resource_cleanup_after: span("resource_cleanup_after"),
        resource_history_retention: span("resource_history_retention"),
        lease: lease(config),
        clock: now,
    };
    Metricd::start(store.engine.clone(), &options)
}

/// How others know this process. Among several the host and the process id do not tell them apart: containers on one host have
/// both in common.
fn process_name(store: &Store) -> String {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = format!("{}.{}", hostname.trim(), std::process::id());
    if !store.is_shared() {
        return name;
    }
    let random = Uuid::new_v4().simple().to_string();
    format!("{name}.{}", &random[..8])
}

/// Where the server listens that has this configuration.
fn own_endpoint(config: &Config) -> String {
    let scheme = if config.text("api", "tls_certificate").is_some() { "https" } else { "http" };
    let host = match config.text("api", "host") {
        None | Some("" | "0.0.0.0" | "::") => "127.0.0.1".to_owned(),
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(host) => host.to_owned(),
    };
    format!("{scheme}://{host}:{}", config.size("api", "port"))
}

/// `[metricd] lease_seconds`.
fn lease(config: &Config) -> Duration {
    config.seconds("metricd", "lease_seconds")
}

/// Ignores SIGHUP, except on a terminal: services get it to reload their configuration, and this one has nothing to reload.
fn ignore_hangup() -> std::io::Result<()> {
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        // The handler stays when what listens is dropped.
        drop(signal(SignalKind::hangup())?);
    }
    Ok(())
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// How often a process looks whether all of its parts live.
const FAULTS_LOOK_DELAY: Duration = Duration::from_secs(1);

/// Ends the process where a task has ended that it cannot do without: whoever manages services starts it anew, and what was
/// accepted is in the stores.
fn end_with_lost_tasks(engine: std::sync::Arc<gnudi_engine::Engine>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(FAULTS_LOOK_DELAY).await;
            if let Some(fault) = engine.faults().iter().find(|fault| matches!(fault, Fault::Ended(_))) {
                tracing::error!(%fault, "the process cannot go on: ending it");
                std::process::exit(1);
            }
        }
    });
}

/// What tells the program to stop: SIGTERM, SIGINT.
struct StopSignals(Signal, Signal);

fn stop_signals() -> std::io::Result<StopSignals> {
    Ok(StopSignals(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

impl StopSignals {
    /// Returns at the next one.
    async fn recv(&mut self) {
        let StopSignals(terminate, interrupt) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Returns when the program is told to stop.
async fn told_to_stop() -> std::io::Result<()> {
    stop_signals()?.recv().await;
    Ok(())
}

/// `[archive_policy] default_aggregation_methods`.
fn default_methods(config: &Config) -> Result<std::collections::BTreeSet<gnudi_model::AggregationMethod>> {
    let place = || config.place("archive_policy", "default_aggregation_methods");
    config
        .list("archive_policy", "default_aggregation_methods")
        .iter()
        .map(|name| name.parse().with_context(place))
        .collect()
}
