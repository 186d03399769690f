//! `gnudi statsd` and `gnudi amqpd`, and the same within `gnudi serve --with ...`: receive measures over other
//! protocols and post them to the API over HTTP.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use gnudi_client::{Client, ClientError, ClientOptions, Trust};
use gnudi_http::ClientIdentity;
use gnudi_model::{Fault, Secret};
use gnudi_telemetry::{amqp1, host, statsd};
use prometheus_client::registry::Registry;
use tokio::{
    net::UdpSocket,
    sync::watch,
    task::{AbortHandle, JoinHandle},
    time::Instant,
};

use crate::{
    args::{CollectorArgs, ServeArgs},
    commands::agent::{notification::NotificationService, polling::PollingService},
    config::{Config, Files, Project},
    logging,
    program_args::ProgramArgs,
    service_manager,
};

/// Environment variable with the password of `--user`: command lines are visible to other users.
const PASSWORD_VARIABLE: &str = "GNUDI_PASSWORD";

/// Default user to post as.
pub const USER: &str = "admin";

/// Default resource of statsd's metrics.
const STATSD_RESOURCE: &str = "statsd";

/// Timeout of all collectors within `serve` for posting their last measures.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The server and user that a collector posts to.
pub struct Sink {
    pub endpoint: String,
    /// Overrides the creator in the configuration.
    pub user: Option<String>,
    pub password: String,
    pub trust: Trust,
}

impl Sink {
    fn client(&self, config: &Config, section: &str) -> Result<Client> {
        let user = self.user.as_deref().or(config.text(section, "creator")).unwrap_or(USER);
        self.client_of(user).with_context(|| format!("posting as {}", config.place(section, "creator")))
    }

    /// Posts as this user.
    pub fn client_of(&self, user: &str) -> Result<Client, ClientError> {
        let options = ClientOptions {
            user: Some(user.to_owned()),
            password: Secret::new(self.password.as_str()),
            trust: self.trust.clone(),
            ..ClientOptions::default()
        };
        Client::new(&self.endpoint, &options)
    }
}

/// `gnudi statsd`
pub fn run_statsd(args: &CollectorArgs) -> Result<()> {
    run(args, "statsd", async |config, sink| {
        let server = statsd_server(config, sink).await?;
        let stopped = until_stopped();
        service_manager::ready();
        server.run(stopped).await;
        Ok(())
    })
}

/// `gnudi amqpd`
pub fn run_amqpd(args: &CollectorArgs) -> Result<()> {
    run(args, "amqpd", async |config, sink| {
        let server = amqp_server(config, sink)?;
        let stopped = until_stopped();
        service_manager::ready();
        server.run(stopped).await;
        Ok(())
    })
}

fn run(
    args: &CollectorArgs,
    command: &str,
    collect: impl AsyncFnOnce(&Config, &Sink) -> Result<()>,
) -> Result<()> {
    let config = Config::load(&args.program)?;
    logging::start_service(&config, command)?;
    let sink = Sink {
        endpoint: args.endpoint.clone().unwrap_or_else(|| super::own_endpoint(&config)),
        user: args.user.clone(),
        password: password(),
        trust: args.trust.trust(),
    };
    super::run_service(super::runtime(&config, command, Some(1))?, async {
        super::ignore_hangup()?;
        collect(&config, &sink).await
    })
}

/// The password of `--user`.
pub fn password() -> String {
    std::env::var(PASSWORD_VARIABLE).unwrap_or_default()
}

/// See [`super::stopped`]; the service manager is told of the stop.
pub fn until_stopped() -> impl Future<Output = ()> {
    let stopped = super::stopped();
    async {
        if let Err(error) = stopped.await {
            tracing::error!(%error, "no signal handler can be installed: stopping");
        }
        service_manager::stopping();
    }
}

/// Whether the collectors could start with these options.
pub fn check(config: &Config) -> Result<()> {
    amqp_tls(config)?;
    amqp_address(config).map(drop)
}

async fn statsd_server(config: &Config, sink: &Sink) -> Result<statsd::StatsdServer> {
    let client = sink.client(config, "statsd")?;
    let host = config.text("statsd", "host").unwrap_or("127.0.0.1");
    let port = config.size("statsd", "port") as u16;
    let socket =
        UdpSocket::bind((host, port)).await.with_context(|| format!("listening on {host}:{port} (UDP)"))?;
    let address: SocketAddr = socket.local_addr()?;
    tracing::info!(%address, endpoint = client.base_url(), "receiving statsd's datagrams");
    let options = statsd::StatsdOptions {
        resource: config.text("statsd", "resource_id").unwrap_or(STATSD_RESOURCE).to_owned(),
        archive_policy_name: config.string("statsd", "archive_policy_name"),
        flush_delay: config.seconds("statsd", "flush_delay"),
        limits: statsd::AggregatorLimits::default(),
    };
    Ok(statsd::StatsdServer::new(socket, client, options))
}

fn amqp_address(config: &Config) -> Result<amqp1::Address> {
    let url = config.text("amqp1d", "url").unwrap_or_default();
    url.parse().with_context(|| config.place("amqp1d", "url"))
}

fn amqp_tls(config: &Config) -> Result<amqp1::TlsOptions> {
    let file = |name| config.path("amqp1d", name);
    let (certificate, key) = (file("ssl_cert_file"), file("ssl_key_file"));
    if certificate.is_none() && key.is_some() {
        bail!("{}: needs ssl_cert_file beside it", config.place("amqp1d", "ssl_key_file"));
    }
    Ok(amqp1::TlsOptions {
        trust: Trust::asked(file("ssl_ca_file"), false),
        identity: certificate.map(|certificate| ClientIdentity { certificate, key }),
    })
}

fn amqp_server(config: &Config, sink: &Sink) -> Result<amqp1::Amqp1Server> {
    let client = sink.client(config, "amqp1d")?;
    let options = amqp1::Amqp1Options {
        address: amqp_address(config)?,
        resource_type: config.text("amqp1d", "resource_type").unwrap_or_default().to_owned(),
        flush_delay: config.seconds("amqp1d", "flush_delay"),
        tls: amqp_tls(config)?,
    };
    Ok(amqp1::Amqp1Server::new(client, options))
}

fn ceilometer_config(args: &ServeArgs) -> Result<Config> {
    let files = Files::of(&args.ceilometer_config_file);
    let config = Config::load_project(Project::Ceilometer, &ProgramArgs { files, ..ProgramArgs::default() })?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(config)
}

/// The collectors running within `gnudi serve`.
pub struct Collectors {
    stop: watch::Sender<bool>,
    /// With their names in messages.
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl Collectors {
    /// Starts those selected on the command line, and that of this machine's figures. If one ends before `finish`, the
    /// process ends with an error.
    pub async fn start(
        args: &ServeArgs,
        config: &Config,
        sink: &Sink,
        host: Option<host::Collector>,
        registry: &mut Registry,
    ) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks: Vec<_> = host.into_iter().map(|host| host_task(host, until(&stopped))).collect();
        for name in &args.with {
            let stop = until(&stopped);
            tasks.push(match name.as_str() {
                "statsd" => {
                    ("the collector of statsd", tokio::spawn(statsd_server(config, sink).await?.run(stop)))
                }
                "notification" => {
                    let config = ceilometer_config(args)?;
                    let agent = NotificationService::new(&config, Some(sink), registry)?;
                    let name = "the notification agent";
                    (name, tokio::spawn(logged(name, agent.run(stop))))
                }
                "polling" => {
                    let config = ceilometer_config(args)?;
                    let agent = PollingService::new(&config, &[], registry)?;
                    let name = "the polling agent";
                    (name, tokio::spawn(logged(name, agent.run(stop))))
                }
                _ => ("the collector of amqpd", tokio::spawn(amqp_server(config, sink)?.run(stop))),
            });
        }
        let watched: Vec<_> = tasks.iter().map(|(name, task)| (*name, task.abort_handle())).collect();
        super::exit_on_fault(move || ended(&watched, &stopped));
        Ok(Collectors { stop, tasks })
    }

    /// Lets them post their last measures, and stops them.
    pub async fn finish(self) {
        let _ = self.stop.send(true);
        let deadline = Instant::now() + FINISH_TIMEOUT;
        for (name, task) in self.tasks {
            match tokio::time::timeout_at(deadline, task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "{name} has failed"),
                Err(_) => tracing::warn!("{name} did not post all its measures in time"),
            }
        }
    }
}

/// Ends when the collectors have to stop.
fn until(stopped: &watch::Receiver<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut stopped = stopped.clone();
    async move {
        // An error means that the sender is gone, which also means stop.
        let _ = stopped.wait_for(|stop| *stop).await;
    }
}

/// Collects this machine's figures until `stop`.
fn host_task(
    collector: host::Collector,
    stop: impl Future<Output = ()> + Send + 'static,
) -> (&'static str, JoinHandle<()>) {
    let collecting = async move {
        tokio::select! {
            () = collector.run() => {}
            () = stop => {}
        }
    };
    ("the collector of this machine's figures", tokio::spawn(collecting))
}

/// Runs an agent, and logs why it ended.
async fn logged(name: &'static str, running: impl Future<Output = Result<()>>) {
    if let Err(error) = running.await {
        tracing::error!(%error, "{name} cannot continue");
    }
}

/// A task that has ended although nobody has stopped it.
fn ended(tasks: &[(&'static str, AbortHandle)], stopped: &watch::Receiver<bool>) -> Option<Fault> {
    let (name, _) = tasks.iter().find(|(_, task)| task.is_finished())?;
    // Checked after the tasks: those that are stopped end later. The sender is dropped if serving fails.
    let is_running = stopped.has_changed().is_ok() && !*stopped.borrow();
    is_running.then_some(Fault::Ended(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_collector_that_ends_unasked_is_a_fault() {
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(std::future::pending::<()>());
        let failing: JoinHandle<()> = tokio::spawn(async { panic!("a defect") });
        let tasks = [("one", running.abort_handle()), ("two", failing.abort_handle())];
        assert!(failing.await.is_err());
        assert_eq!(ended(&tasks[..1], &stopped), None);
        assert_eq!(ended(&tasks, &stopped), Some(Fault::Ended("two")));
        stop.send_replace(true);
        assert_eq!(ended(&tasks, &stopped), None);
        let (stop, stopped) = watch::channel(false);
        drop(stop);
        assert_eq!(ended(&tasks, &stopped), None);
    }

    #[tokio::test(start_paused = true)]
    async fn collectors_that_hang_share_one_timeout() {
        let (stop, _) = watch::channel(false);
        let hanging = || ("one", tokio::spawn(std::future::pending::<()>()));
        let began = Instant::now();
        Collectors { stop, tasks: vec![hanging(), hanging()] }.finish().await;
        assert!((FINISH_TIMEOUT..FINISH_TIMEOUT * 2).contains(&began.elapsed()));
    }

    #[tokio::test]
    async fn a_collector_of_the_machines_figures_that_panics_is_a_fault() {
        let collector = |interval| {
            // Nobody listens there.
            let client = Client::new("http://127.0.0.1:1", &ClientOptions::default()).unwrap();
            let options = host::CollectorOptions {
                interval,
                archive_policy_name: "high".to_owned(),
                proc_dir: "/nowhere".into(),
                user: USER.to_owned(),
            };
            host::Collector::new(client, options)
        };
        let (stop, stopped) = watch::channel(false);
        // No interval is empty.
        let (name, failing) = host_task(collector(Duration::ZERO), until(&stopped));
        let (_, running) = host_task(collector(Duration::from_mins(1)), until(&stopped));
        let tasks = [(name, failing.abort_handle()), ("another", running.abort_handle())];
        assert!(failing.await.is_err());
        assert_eq!(ended(&tasks[1..], &stopped), None);
        assert_eq!(ended(&tasks, &stopped), Some(Fault::Ended(name)));
        stop.send_replace(true);
        running.await.unwrap();
    }
}
