//! `gnudi status`: members, owners of sacks, backlog, rates and free space.
//!
//! Shared engines are read directly; for the embedded store, which only one process can open, a running server is asked
//! (`--endpoint`). The exit status is sufficient for a monitor.

mod server;
mod table;

pub use table::grouped;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use gnudi_client::Client;
use gnudi_drivers::data_dir;
use gnudi_endpoint::output::{self, Format, Output, Record};
use gnudi_engine::{ClusterStatus, process_status::ProcessKind};
use serde_json::{Value, json};

use self::server::{Observer, ServerFigures};
use super::{client::explained, messages::note};
use crate::{
    args::StatusArgs,
    config::{Config, Deployment},
    logging,
    store::{self, Journaling, RetryPolicy, Store},
};

/// What is wrong with a store, with the exit status.
#[derive(Debug, thiserror::Error)]
enum Unhealthy {
    #[error("{0}")]
    Nobody(String),
    #[error("{0}")]
    NoStore(String),
}

/// Exit statuses other than 0.
const NOBODY: u8 = 1;
const NO_ANSWER: u8 = 2;
const NO_STORE: u8 = 3;

/// Clears the terminal and moves the cursor to its top left.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Where the status is read from.
enum StatusSource {
    Engines(Box<Store>),
    Server(Box<Client>, Observer),
}

/// One status report.
pub struct StatusReport {
    pub cluster: ClusterStatus,
    /// The figures of the server, if one was asked.
    pub server: Option<ServerFigures>,
}

impl StatusSource {
    async fn open(args: &StatusArgs, config: &Config) -> Result<Self> {
        let (deployment, _) = Deployment::of(config, args.store.data_dir.as_deref())?;
        if matches!(deployment, Deployment::Shared(_)) && args.server.endpoint.is_none() {
            // Opening must not prepare a store.
            if store::shared::is_prepared(config).await? == Some(false) {
                let place = config.place("indexer", "url");
                bail!(Unhealthy::NoStore(format!(
                    "{place}: no store was prepared here: run `gnudi upgrade`"
                )));
            }
            let store = Store::open(&args.store, config, RetryPolicy::for_command(), Journaling::Off).await?;
            return Ok(StatusSource::Engines(Box::new(store)));
        }
        let mut server = args.server.clone();
        // A directory on the command line takes precedence over a server in the environment.
        if args.store.data_dir.is_none() {
            server.endpoint = server.named();
        }
        if server.endpoint.is_none() {
            let named = args.store.data_dir.is_some() || config.is_set("storage", "file_basepath");
            let of_store = if named { of_store(&deployment)? } else { None };
            server.endpoint = of_store.or_else(|| Some(crate::commands::own_endpoint(config)));
        }
        Ok(StatusSource::Server(Box::new(server.connect().await?), Observer::default()))
    }

    async fn ask(&mut self) -> Result<StatusReport> {
        match self {
            StatusSource::Engines(store) => {
                Ok(StatusReport { cluster: store.engine.cluster_with_metrics().await?, server: None })
            }
            StatusSource::Server(client, observer) => {
                let report = ask_server(client, observer).await;
                report.map_err(|error| explained(error, client.base_url()))
            }
        }
    }
}

/// The server that has registered itself in a data directory. `None` if its registration cannot be read.
///
/// # Errors
/// [`Unhealthy`] if there is no store in the directory, or no process has it open.
fn of_store(deployment: &Deployment) -> Result<Option<String>> {
    let Deployment::Embedded(dir) = deployment else { return Ok(None) };
    let place = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let place = place.display();
    let (directory, index) = (dir.try_exists(), data_dir::index_path(dir).try_exists());
    match (directory, index) {
        (Ok(false), _) => bail!(Unhealthy::NoStore(format!("{place}: there is no store here"))),
        (_, Ok(false)) => {
            bail!(Unhealthy::NoStore(format!("{place}: no store was prepared here: run `gnudi upgrade`")))
        }
        // Without permission to read the directory, the server can still be asked.
        (Err(_), _) | (_, Err(_)) => return Ok(None),
        (Ok(true), Ok(true)) => {}
    }
    match data_dir::lock_unchanged(dir) {
        Ok(_) => {
            bail!(Unhealthy::Nobody(format!("{place}: no process has the store open: start `gnudi serve`")))
        }
        Err(_) => Ok(data_dir::endpoint(dir)),
    }
}

async fn ask_server(client: &Client, observer: &mut Observer) -> Result<StatusReport> {
    let text = match client.cluster().await {
        Err(error) if error.status() == Some(404) => {
            bail!("{} has no /debug/cluster: it is no gnudi, or an old one", client.base_url())
        }
        answer => answer?,
    };
    let cluster = ClusterStatus::from_json(text.as_bytes())
        .map_err(|reason| anyhow!("{}: not the status of a gnudi server: {reason}", client.base_url()))?;
    Ok(StatusReport { cluster, server: Some(observer.ask(client).await?) })
}

impl StatusReport {
    /// Whether anybody processes measures.
    pub fn is_processed(&self) -> bool {
        self.cluster.processes.iter().any(|process| process.status.kind == ProcessKind::Metricd)
            || self.server.as_ref().is_some_and(|server| !server.processors.is_empty())
    }

    fn processors(&self) -> Vec<&str> {
        if let Some(server) = &self.server {
            return server.processors.iter().map(String::as_str).collect();
        }
        let processes = self.cluster.processes.iter();
        let with_workers = processes.filter(|process| process.status.kind == ProcessKind::Metricd);
        with_workers.map(|process| process.name.as_str()).collect()
    }

    fn json(&self) -> Result<Value> {
        let mut value: Value = serde_json::from_str(&self.cluster.to_json()).context("the status as JSON")?;
        value["server"] = json!(self.server);
        Ok(value)
    }

    /// The figures by name: first those of Gnocchi's client, with its names.
    fn record(&self) -> Record {
        let StatusReport { cluster, server } = self;
        let mut record: Vec<(&str, Value)> =
            vec![("storage/total number of measures to process", cluster.backlog_measures.into())];
        if let Some(server) = server {
            record
                .push(("storage/number of metric having measures to process", server.metrics_waiting.into()));
        }
        record.push(("metricd/processors", json!(self.processors())));
        record.push(("metrics", cluster.metrics.into()));
        record.push(("sacks", cluster.sacks.into()));
        record.push(("measures set aside", cluster.measures_set_aside.into()));
        record.push(("damaged places", cluster.damaged.into()));
        if let Some(server) = server {
            record.extend([
                ("version", json!(server.version)),
                ("measures taken/s", json!(server.measures_taken_per_second)),
                ("measures processed/s", json!(server.measures_processed_per_second)),
                ("requests/s", json!(server.requests_per_second)),
                ("oldest waiting seconds", json!(server.oldest_waiting_seconds)),
                ("aggregates bytes", json!(server.aggregates_bytes)),
                ("merges waiting", json!(server.merges_waiting)),
                ("disk free bytes", json!(server.disk_free_bytes)),
                ("memory bytes", json!(server.memory_bytes)),
            ]);
        }
        record.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    fn text(&self, output: &Output) -> Result<String> {
        match output.format {
            // One JSON object per report, each on a line.
            Format::Json if output.columns.is_empty() => Ok(self.json()?.to_string() + "\n"),
            Format::Table if output.columns.is_empty() => Ok(table::write(self)),
            _ => output.record(self.record()),
        }
    }
}

pub fn run(args: &StatusArgs) -> ExitCode {
    let Err(error) = tell(args) else { return ExitCode::SUCCESS };
    logging::log_failure(&gnudi_http::with_causes(&*error));
    ExitCode::from(match error.downcast_ref::<Unhealthy>() {
        Some(Unhealthy::Nobody(_)) => NOBODY,
        Some(Unhealthy::NoStore(_)) => NO_STORE,
        None => NO_ANSWER,
    })
}

fn tell(args: &StatusArgs) -> Result<()> {
    let config = Config::load(&args.store.program)?;
    logging::start_quietly(&args.store.program, &config);
    super::runtime(&config, "status", Some(1))?.block_on(async {
        let mut source = StatusSource::open(args, &config).await?;
        if args.watch {
            return tokio::select! {
                stop = super::stopped() => Ok(stop?),
                failed = watch(&mut source, args) => failed,
            };
        }
        let report = source.ask().await?;
        output::put(&report.text(&args.output)?)?;
        if report.is_processed() {
            return Ok(());
        }
        let reason = "no process processes measures: start `gnudi metricd`, or `gnudi serve` with workers";
        bail!(Unhealthy::Nobody(reason.to_owned()))
    })
}

/// Repeats until an error other than an outage, or until nobody reads the output any more.
async fn watch(source: &mut StatusSource, args: &StatusArgs) -> Result<()> {
    let delay = Duration::from_secs(args.interval);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let clears = is_terminal && args.output.format == Format::Table;
    loop {
        match source.ask().await {
            Ok(report) => {
                let text = report.text(&args.output)?;
                let is_read = output::put_if_read(&if clears { format!("{CLEAR}{text}") } else { text })?;
                if !is_read {
                    return Ok(());
                }
            }
            Err(error) => note(format_args!("gnudi: {}", gnudi_http::with_causes(&*error))),
        }
        tokio::time::sleep(delay).await;
    }
}
