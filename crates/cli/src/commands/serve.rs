//! `gnudi serve`: the API and the workers in one process.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use gnudi_client::{Client, ClientOptions};
use gnudi_indexer::create_default_archive_policies;
use gnudi_telemetry::host::{Collector, CollectorOptions};
use tokio::net::TcpListener;

use crate::{args::ServeArgs, config::Config, logging, store::Store};

pub fn run(args: &ServeArgs) -> Result<()> {
    let config = Config::load(args.store.config_file.as_deref())?;
    logging::start(&args.store, &config);
    // Workers have threads of their own: a long pass must not hold up requests.
    let workers = super::runtime(&config, "metricd", config.int("metricd", "workers"))?;
    let requests = super::runtime(&config, "api", None)?;
    let metricd = workers.handle().clone();
    requests.block_on(serve(args, &config, &metricd))
}

async fn serve(args: &ServeArgs, config: &Config, workers: &tokio::runtime::Handle) -> Result<()> {
    let address = address(args, config).await?;
    let store = Store::open(&args.store, config, None).await?;
    let methods = super::default_methods(config)?;
    if !args.skip_archive_policies_creation {
        create_default_archive_policies(&*store.indexer, &methods)
            .await
            .context("creating the default archive policies")?;
    }
    let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
    let address = listener.local_addr()?;

    let metricd = {
        let _on_workers = workers.enter();
        super::start_metricd(&store.engine, config)
    };
    let host = start_host_collector(args, config, address)?;
    let served = super::api::serve(listener, &store, config, args, methods).await;
    tracing::info!("stopping");
    if let Some(host) = host {
        host.abort();
    }
    metricd.stop().await;
    tracing::info!("stopped");
    served
}

/// Where to listen: with authentication that believes every caller, only loopback, unless told otherwise.
async fn address(args: &ServeArgs, config: &Config) -> Result<SocketAddr> {
    let address = if let Some(address) = args.listen {
        address
    } else {
        let host = args.host.as_deref().or(config.text("api", "host")).unwrap_or("127.0.0.1").to_owned();
        let port = args.port.unwrap_or(config.size("api", "port") as u16);
        tokio::net::lookup_host((host.as_str(), port))
            .await
            .with_context(|| format!("{} = {host}", config.place("api", "host")))?
            .next()
            .with_context(|| format!("{} = {host}: no address", config.place("api", "host")))?
    };
    let mode = config.text("api", "auth_mode").unwrap_or("basic");
    if mode != "basic" {
        bail!("{} = {mode}: this version has basic only", config.place("api", "auth_mode"));
    }
    if !address.ip().is_loopback() && !args.allow_open_access {
        bail!(
            "{address} is not loopback, and authentication `basic` believes every caller: listen on 127.0.0.1, or give --allow-open-access"
        );
    }
    Ok(address)
}

fn start_host_collector(
    args: &ServeArgs,
    config: &Config,
    address: SocketAddr,
) -> Result<Option<tokio::task::JoinHandle<()>>> {
    if !config.bool("host", "enabled") || args.without.iter().any(|collector| collector == "host") {
        return Ok(None);
    }
    let mut target = address;
    if target.ip().is_unspecified() {
        target.set_ip([127, 0, 0, 1].into());
    }
    let user = "admin".to_owned();
    let options = ClientOptions { user: Some(user.clone()), ..ClientOptions::default() };
    let client =
        Client::new(&format!("http://{target}{}", super::api::path_prefix(&args.path_prefix)), &options)?;
    let options = CollectorOptions {
        interval: Duration::from_secs(config.size("host", "interval") as u64),
        archive_policy_name: config.text("host", "archive_policy_name").unwrap_or("high").to_owned(),
        proc_dir: "/proc".into(),
        user,
    };
    Ok(Some(tokio::spawn(Collector::new(client, options).run())))
}
