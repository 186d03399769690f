//! `gnudi status`: who is there, who owns which sacks, what waits and how fast it is processed.
//!
//! Asked of the engines themselves where processes share them, and of a running server (`--endpoint`) otherwise: the
//! embedded store can be opened by one process only.

mod table;

pub use table::grouped;

use std::{io::Write as _, time::Duration};

use anyhow::{Context as _, Result};
use gnudi_client::{Client, ClientOptions};
use gnudi_engine::ClusterStatus;

use crate::{
    args::{StatusArgs, StatusFormat},
    config::{Config, Deployment},
    logging,
    store::{Patience, Store},
};

/// The server that is asked about an embedded store where no other is named.
const ENDPOINT: &str = "http://127.0.0.1:8041";

/// Clears the terminal and goes to its top left.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Whom to ask.
enum Source {
    Engines(Box<Store>),
    Server(Box<Client>),
}

impl Source {
    async fn open(args: &StatusArgs, config: &Config) -> Result<Self> {
        let (deployment, _) = Deployment::of(config, args.store.data_dir.as_deref())?;
        let endpoint = match (&args.endpoint, deployment) {
            (Some(endpoint), _) => endpoint.as_str(),
            (None, Deployment::Embedded(_)) => ENDPOINT,
            (None, Deployment::Shared(_)) => {
                let store = Store::open(&args.store, config, None, Patience::of_command()).await?;
                return Ok(Source::Engines(Box::new(store)));
            }
        };
        let options = ClientOptions {
            user: Some(args.user.clone()),
            password: super::collectors::password(),
            trust: args.trust.trust(),
            ..ClientOptions::default()
        };
        Ok(Source::Server(Box::new(Client::new(endpoint, &options)?)))
    }

    async fn ask(&self) -> Result<ClusterStatus> {
        match self {
            Source::Engines(store) => Ok(store.engine.cluster().await?),
            Source::Server(client) => {
                let text = client.cluster().await.with_context(|| client.base_url().to_owned())?;
                ClusterStatus::from_json(text.as_bytes()).map_err(|reason| {
                    anyhow::anyhow!("{}: not a gnudi's status: {reason}", client.base_url())
                })
            }
        }
    }
}

pub fn run(args: &StatusArgs) -> Result<()> {
    let config = Config::load(args.store.config_file.as_deref())?;
    logging::start_quietly(&args.store, &config);
    super::runtime(&config, "status", Some(1))?.block_on(async {
        let source = Source::open(args, &config).await?;
        if !args.watch {
            return print(&source.ask().await?, args.format, false);
        }
        tokio::select! {
            stop = super::told_to_stop() => Ok(stop?),
            failed = watch(&source, args) => failed,
        }
    })
}

/// Goes on until something other than an outage ends it.
async fn watch(source: &Source, args: &StatusArgs) -> Result<()> {
    let delay = Duration::from_secs(args.interval);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    loop {
        match source.ask().await {
            Ok(status) => print(&status, args.format, is_terminal)?,
            Err(error) => eprintln!("gnudi: {}", gnudi_bench::complaint::of(&error)),
        }
        tokio::time::sleep(delay).await;
    }
}

fn print(status: &ClusterStatus, format: StatusFormat, clear: bool) -> Result<()> {
    let text = match format {
        StatusFormat::Json => status.to_json() + "\n",
        StatusFormat::Table if clear => format!("{CLEAR}{}", table::write(status)),
        StatusFormat::Table => table::write(status),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing to standard output")
}
