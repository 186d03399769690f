//! The API as the configuration asks for it, served until told to stop.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use gnudi_api::{ApiOptions, App, AuthMode, CorsOptions, Limits};
use gnudi_model::AggregationMethod;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::{args::ServeArgs, config::Config, figures::StoreFigures, store::Store};

/// Serves until `told_to_stop` and until the requests in progress have ended, or their time has.
pub async fn serve(
    listener: TcpListener,
    store: &Store,
    config: &Config,
    args: &ServeArgs,
    methods: BTreeSet<AggregationMethod>,
) -> Result<()> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(StoreFigures::of(store)));
    let app = App::new(store.engine.clone(), options(config, args, methods), registry, super::now);
    let stop = async {
        if let Err(error) = super::told_to_stop().await {
            tracing::error!(%error, "signals cannot be heard: stopping");
        }
    };
    gnudi_api::serve(listener, Arc::new(app), stop).await.context("serving the API")
}

fn options(config: &Config, args: &ServeArgs, methods: BTreeSet<AggregationMethod>) -> ApiOptions {
    ApiOptions {
        max_limit: config.size("api", "max_limit"),
        operation_timeout: Duration::from_secs(config.size("api", "operation_timeout") as u64),
        auth_mode: AuthMode::Basic,
        enable_proxy_headers_parsing: config.bool("api", "enable_proxy_headers_parsing"),
        path_prefix: path_prefix(&args.path_prefix),
        default_aggregation_methods: methods,
        cors: CorsOptions {
            allowed_origin: config.list("cors", "allowed_origin"),
            allow_credentials: config.bool("cors", "allow_credentials"),
            expose_headers: config.list("cors", "expose_headers"),
            max_age: config.size("cors", "max_age") as u64,
            allow_methods: config.list("cors", "allow_methods"),
            allow_headers: config.list("cors", "allow_headers"),
        },
        limits: Limits {
            connections_max: config.size("api", "connections_max"),
            header_timeout: Duration::from_millis(config.size("api", "header_timeout_ms") as u64),
            body_bytes_max: config.size("api", "body_bytes_max"),
            measures_max: config.size("api", "request_measures_max"),
            drain_timeout: Duration::from_secs(config.size("DEFAULT", "graceful_shutdown_timeout") as u64),
            ..Limits::default()
        },
    }
}

/// `gnocchi/`, `/gnocchi` and `/gnocchi/` mean the same.
pub fn path_prefix(text: &str) -> String {
    match text.trim_matches('/') {
        "" => String::new(),
        name => format!("/{name}"),
    }
}
