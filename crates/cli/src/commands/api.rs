//! Configures the API and serves it until stopped.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use anyhow::{Context as _, Result, anyhow, bail};
use gnudi_access::{AuthMode, Passwords, ProcessSecret, RemoteUser, RemoteUserError};
use gnudi_app::{ApiOptions, App, Limits};
use gnudi_model::AggregationMethod;
use gnudi_prometheus_api::{PrometheusApi, PrometheusLabels, PrometheusOptions};
use gnudi_server::{CorsOptions, HttpLimits, Listener, Tls};
use prometheus_client::registry::Registry;
use tokio::{net::TcpListener, runtime::Handle, task::JoinSet};

use super::metrics;
use crate::{allocator, args::ServeArgs, config::Config, figures, service_manager, store::Store};

/// The options of both APIs.
pub struct ServedOptions {
    app: ApiOptions,
    prometheus: PrometheusOptions,
}

/// Serves until `stop`, and until requests in progress have ended or timed out, or what `stop` returns resolves.
/// `metrics_listener`: where metrics are served, if not at the API's address.
pub async fn serve<H: Future<Output = ()>>(
    listener: Listener,
    metrics_listener: Option<TcpListener>,
    store: &Store,
    options: ServedOptions,
    workers: &Handle,
    mut registry: Registry,
    stop: impl Future<Output = H>,
) -> Result<()> {
    figures::register(&mut registry, store, vec![("api", Handle::current()), ("metricd", workers.clone())]);
    let prometheus = PrometheusApi::new(store.engine.clone(), options.prometheus);
    let mut routes = gnudi_api::routes();
    routes.extend(gnudi_prometheus_api::routes(prometheus));
    let app = Arc::new(App::new(store.engine.clone(), options.app, registry, super::now, routes));
    let mut tasks = JoinSet::new();
    if let Some(listener) = metrics_listener {
        tasks.spawn(metrics::serve(listener, None, app.clone()));
    }
    service_manager::ready();
    let serving = async { gnudi_server::serve(listener, app, stop).await.context("serving the API") };
    super::beside(&mut tasks, serving).await
}

pub fn options(
    config: &Config,
    args: &ServeArgs,
    auth_mode: AuthMode,
    methods: BTreeSet<AggregationMethod>,
) -> Result<ServedOptions> {
    let app = ApiOptions {
        policy: Arc::new(super::policy::load(config)?),
        quotas: super::policy::quotas(config)?,
        max_limit: config.size("api", "max_limit"),
        operation_timeout: config.seconds("api", "operation_timeout"),
        auth_mode,
        enable_proxy_headers_parsing: config.bool("api", "enable_proxy_headers_parsing"),
        path_prefix: path_prefix(&args.path_prefix),
        shows_figures: metrics::address(args.metrics_listen.as_deref(), config, "api").is_none(),
        default_aggregation_methods: methods,
        empty_answers: config.bool("api", "empty_answers"),
        cors: CorsOptions {
            allowed_origin: config.list("cors", "allowed_origin"),
            allow_credentials: config.bool("cors", "allow_credentials"),
            expose_headers: config.list("cors", "expose_headers"),
            max_age: config.size("cors", "max_age") as u64,
            allow_methods: config.list("cors", "allow_methods"),
            allow_headers: config.list("cors", "allow_headers"),
        },
        http_limits: HttpLimits {
            connections_max: config.size("api", "connections_max"),
            header_timeout: config.milliseconds("api", "header_timeout_ms"),
            body_bytes_max: config.size("api", "body_bytes_max"),
            bodies_bytes_max: config.size("api", "bodies_bytes_max"),
            body_grace: config.milliseconds("api", "body_grace_ms"),
            drain_timeout: super::graceful_timeout(config),
            ..HttpLimits::default()
        },
        limits: Limits {
            answers_bytes_max: config.size("api", "answers_bytes_max"),
            measures_max: config.size("api", "request_measures_max"),
            ..Limits::default()
        },
        // The running binary, even if the file has been replaced.
        symbols_program: Some("/proc/self/exe".into()),
        release_memory: allocator::release,
    };
    Ok(ServedOptions { app, prometheus: prometheus_options(config) })
}

/// The options of Prometheus' API.
fn prometheus_options(config: &Config) -> PrometheusOptions {
    PrometheusOptions {
        labels: match config.text("api", "prometheus_labels") {
            Some("none") => PrometheusLabels::None,
            _ => PrometheusLabels::All,
        },
        archive_policy: config.string("api", "prometheus_archive_policy"),
        ceilometer_names: config.bool("api", "prometheus_ceilometer_names"),
        delayed_name_removal: config.bool("api", "prometheus_delayed_name_removal"),
    }
}

/// Whether the API could be served with these files and options.
pub fn check(config: &Config, args: &ServeArgs) -> Result<()> {
    let auth_mode = auth_mode(config, args, ProcessSecret::new(String::new()))?;
    tls(config)?;
    super::policy::load(config)?;
    super::policy::quotas(config)?;
    let host = config.text("api", "host").and_then(|host| host.parse().ok());
    host.map_or(Ok(()), |host| refuse_open_access(host, args, &auth_mode))
}

/// Authentication that trusts every caller must listen on loopback, unless allowed explicitly.
pub fn refuse_open_access(host: IpAddr, args: &ServeArgs, auth_mode: &AuthMode) -> Result<()> {
    if !host.is_loopback() && auth_mode.trusts_everybody() && !args.allow_open_access {
        bail!(
            "{host} is not loopback, and authentication `basic` without passwords trusts every caller: listen on 127.0.0.1, or give --password-file (see `gnudi passwd`) or --allow-open-access"
        );
    }
    Ok(())
}

/// The authentication mode. `own` is the credential of this program's own collectors.
pub fn auth_mode(config: &Config, args: &ServeArgs, own: ProcessSecret) -> Result<AuthMode> {
    match config.text("api", "auth_mode").unwrap_or("basic") {
        "basic" => {
            let file = args.password_file.clone().or_else(|| config.path("api", "password_file"));
            let passwords = file.map(|file| Passwords::load(&file, own)).transpose();
            let passwords = passwords.context("the password file (`gnudi passwd` creates it)")?.map(Arc::new);
            Ok(AuthMode::Basic { passwords })
        }
        "remoteuser" => remote_user(config, own),
        _ => Ok(AuthMode::Keystone(Arc::new(crate::keystone::auth(config, own)?))),
    }
}

fn remote_user(config: &Config, own: ProcessSecret) -> Result<AuthMode> {
    let header = config.text("api", "remoteuser_header").unwrap_or_default();
    let proxies = config.list("api", "remoteuser_proxies");
    let remote_user = RemoteUser::new(header, &proxies, own).map_err(|error| {
        let option = match error {
            RemoteUserError::Header(_) => "remoteuser_header",
            RemoteUserError::Proxy(_) | RemoteUserError::NoProxies => "remoteuser_proxies",
        };
        anyhow!(error).context(config.place("api", option))
    });
    Ok(AuthMode::RemoteUser(Arc::new(remote_user?)))
}

/// `[api] tls_certificate` and `tls_key`; `None` for plain HTTP.
pub fn tls(config: &Config) -> Result<Option<Arc<Tls>>> {
    let (certificate, key) = match (config.path("api", "tls_certificate"), config.path("api", "tls_key")) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => bail!("{}: needs [api] tls_key beside it", config.place("api", "tls_certificate")),
        (None, Some(_)) => bail!("{}: needs [api] tls_certificate beside it", config.place("api", "tls_key")),
    };
    let tls = Tls::load(&certificate, &key).with_context(|| config.place("api", "tls_certificate"))?;
    Ok(Some(Arc::new(tls)))
}

/// `gnocchi/`, `/gnocchi` and `/gnocchi/` mean the same.
pub fn path_prefix(text: &str) -> String {
    match text.trim_matches('/') {
        "" => String::new(),
        name => format!("/{name}"),
    }
}
