//! One file per command; the client commands are in `client`.

pub mod agent;
pub mod api;
pub mod backup;
pub mod client;
pub mod collectors;
pub mod config;
pub mod export;
pub mod export_post;
pub mod import;
mod import_lock;
pub mod import_verify;
pub mod inject;
pub mod man;
mod messages;
pub mod metricd;
pub mod metrics;
pub mod move_aggregates;
pub mod passwd;
pub mod policy;
pub mod profile;
mod progress;
pub mod serve;
pub mod split_sacks;
pub mod status;
pub mod upgrade;
pub mod verify;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, anyhow};
use gnudi_engine::{Metricd, MetricdOptions};
use gnudi_model::{Fault, Timespan, Timestamp};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};

use uuid::Uuid;

use crate::{allocator, config::Config, service_manager, store::Store};

/// Number of processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The runtime for requests.
fn runtime(config: &Config, name: &str, threads: Option<i64>) -> Result<Runtime> {
    let threads = threads
        .or_else(|| config.int("DEFAULT", "parallel_operations"))
        .map_or_else(processors, |n| n as usize);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_park(allocator::release_at_rest)
        .enable_all()
        .build()
        .context("starting threads")
}

/// How long calls that block, such as looking up a host's address, may hold up the end of a service.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a service to its end, and the runtime.
fn run_service<T>(runtime: Runtime, service: impl Future<Output = T>) -> T {
    let outcome = runtime.block_on(service);
    end(runtime);
    outcome
}

/// Ends a service's runtime; if it were dropped, it would wait for calls that block, however long they take.
fn end(runtime: Runtime) {
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
}

/// The runtime of a command that only makes requests: this thread.
fn own_thread() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("starting threads")
}

/// Starts the configured workers on the current runtime.
fn start_metricd(store: &Store, config: &Config) -> Metricd {
    // Gnocchi works without a pause if it is 0.
    let pause = |name| config.seconds("metricd", name).max(Duration::from_secs(1));
    let milliseconds = |name| config.milliseconds("metricd", name);
    let span = |name| match config.seconds("metricd", name) {
        Duration::ZERO => None,
        span => Some(Timespan::from_secs(span.as_secs() as i64)),
    };
    let options = MetricdOptions {
        name: process_name(store),
        workers: config.int("metricd", "workers").map_or_else(processors, |n| n as usize),
        greedy: config.bool("metricd", "greedy"),
        processing_delay: pause("metric_processing_delay"),
        gather: milliseconds("gather_ms"),
        checkpoint_delay: milliseconds("checkpoint_ms"),
        reporting_delay: reporting_delay(config),
        cleanup_delay: pause("metric_cleanup_delay"),
        cleanup_batch_metrics: config.size("metricd", "cleanup_batch_size"),
        metric_inactive_after: span("metric_inactive_after"),
        resource_cleanup_after: span("resource_cleanup_after"),
        resource_history_retention: span("resource_history_retention"),
        caches_lag_max: store.caches_lag_max(config),
        lease: lease(config),
        clock: now,
    };
    Metricd::start(store.engine.clone(), &options)
}

/// The name of this process in the cluster. The host name and process id alone are not unique: containers on one host
/// may share both.
fn process_name(store: &Store) -> String {
    let name = format!("{}.{}", hostname(), std::process::id());
    if !store.is_shared() {
        return name;
    }
    let random = Uuid::new_v4().simple().to_string();
    format!("{name}.{}", &random[..8])
}

/// This machine's name.
fn hostname() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname");
    text.unwrap_or_default().trim().to_owned()
}

/// The URL of the server with this configuration.
fn own_endpoint(config: &Config) -> String {
    let scheme = if config.text("api", "tls_certificate").is_some() { "https" } else { "http" };
    let host = match config.text("api", "host") {
        None | Some("") => "127.0.0.1".to_owned(),
        Some(host) => match host.parse::<IpAddr>() {
            Ok(address) => reached_at(address, binds_v6_only()).to_string(),
            Err(_) => host.to_owned(),
        },
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("{scheme}://{host}:{}", config.size("api", "port"))
}

/// The address at which this machine reaches a server that listens on `address`.
fn reached_at(address: IpAddr, binds_v6_only: bool) -> IpAddr {
    match address {
        IpAddr::V6(_) if address.is_unspecified() && binds_v6_only => Ipv6Addr::LOCALHOST.into(),
        _ if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        _ => address,
    }
}

/// Whether sockets on `::` refuse IPv4 here.
fn binds_v6_only() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1")
}

/// `[DEFAULT] graceful_shutdown_timeout`; 0 is no limit, as for Gnocchi and Ceilometer.
fn graceful_timeout(config: &Config) -> Duration {
    match config.seconds("DEFAULT", "graceful_shutdown_timeout") {
        Duration::ZERO => Duration::MAX,
        timeout => timeout,
    }
}

/// `[metricd] metric_reporting_delay`; -1 is none. Gnocchi reports without a pause if it is 0.
fn reporting_delay(config: &Config) -> Option<Duration> {
    let seconds = config.int("metricd", "metric_reporting_delay").and_then(|delay| u64::try_from(delay).ok());
    seconds.map(|seconds| Duration::from_secs(seconds.max(1)))
}

/// `[metricd] lease_seconds`.
fn lease(config: &Config) -> Duration {
    config.seconds("metricd", "lease_seconds")
}

/// Ignores SIGHUP, except on a terminal: services get it to reload their configuration, which this program does not.
fn ignore_hangup() -> std::io::Result<()> {
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        // The handler stays installed when the listener is dropped.
        drop(signal(SignalKind::hangup())?);
    }
    Ok(())
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Interval of checking for lost tasks.
const FAULTS_POLL_DELAY: Duration = Duration::from_secs(1);

/// Ends the process if an essential task of the store has ended.
fn exit_on_lost_tasks(engine: std::sync::Arc<gnudi_engine::Engine>) {
    exit_on_fault(move || engine.faults().into_iter().find(|fault| matches!(fault, Fault::Ended(_))));
}

/// Ends the process once there is a fault: the service manager restarts it, and accepted data is safe in the stores.
fn exit_on_fault(fault: impl Fn() -> Option<Fault> + Send + 'static) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(FAULTS_POLL_DELAY).await;
            if let Some(fault) = fault() {
                tracing::error!(%fault, "the process cannot continue: exiting");
                std::process::exit(1);
            }
        }
    });
}

/// Runs `work` beside the tasks, which may end by themselves.
///
/// # Errors
/// That of `work`, or one of the tasks has panicked.
async fn beside<T>(tasks: &mut JoinSet<()>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let panicked = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                return error;
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        outcome = work => outcome,
        error = panicked => Err(anyhow!("a part of the process has failed: {error}")),
    }
}

/// The signals that stop the program: SIGTERM, SIGINT.
struct StopSignals(Signal, Signal);

/// Whether the command itself decides what stop signals do.
static STOPS_ITSELF: AtomicBool = AtomicBool::new(false);

fn stop_signals() -> std::io::Result<StopSignals> {
    let signals = StopSignals::listen()?;
    STOPS_ITSELF.store(true, Ordering::Relaxed);
    Ok(signals)
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(StopSignals(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    /// Returns the number of the next one.
    async fn recv(&mut self) -> i32 {
        let StopSignals(terminate, interrupt) = self;
        tokio::select! {
            _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

/// Ends the first process of a container at a stop signal, unless its command handles them: the kernel ignores their
/// default action for it.
pub fn end_at_signals() -> std::io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _within = runtime.enter();
        StopSignals::listen()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let number = runtime.block_on(signals.recv());
        if !STOPS_ITSELF.load(Ordering::Relaxed) {
            // As a shell reports it.
            std::process::exit(128 + number);
        }
    })?;
    Ok(())
}

/// Ends at the first stop signal. From this call on signals no longer end the process by themselves: call it before
/// others can see that the process runs.
fn stopped() -> impl Future<Output = std::io::Result<()>> {
    let signals = stop_signals();
    async {
        signals?.recv().await;
        Ok(())
    }
}

/// Ends at the first SIGINT from this call on: during a stop nothing is waited for any longer that can be broken off. Another
/// SIGTERM has no effect, as for Gnocchi and Ceilometer.
fn interrupted() -> impl Future<Output = ()> {
    let interrupt = signal(SignalKind::interrupt());
    async move {
        match interrupt {
            Ok(mut interrupt) => {
                interrupt.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

/// Until it is dropped or finished, a stop signal ends the process at once: while a program starts. By default these signals
/// do that by themselves, but not in the first process of a container, for which the kernel ignores them.
struct Starting {
    exit: JoinSet<()>,
    /// Those since the start, also those that `exit` has not handled yet.
    signals: StopSignals,
}

impl Starting {
    /// Must be called within a Tokio runtime.
    fn begin() -> std::io::Result<Self> {
        let (mut ending, signals) = (stop_signals()?, stop_signals()?);
        let mut exit = JoinSet::new();
        exit.spawn(async move {
            ending.recv().await;
            tracing::info!("stopped while starting");
            std::process::exit(0);
        });
        Ok(Starting { exit, signals })
    }

    /// Ends at the first stop signal since the start: none is lost in between.
    fn finish(self) -> impl Future<Output = ()> {
        let Starting { exit, mut signals } = self;
        drop(exit);
        async move {
            signals.recv().await;
            service_manager::stopping();
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    #[test]
    fn a_grace_period_of_0_has_no_end() {
        let timeout = |text: &str| graceful_timeout(&Config::of_text(Project::Gnocchi, text).unwrap());
        assert_eq!(timeout(""), Duration::from_mins(1));
        assert_eq!(timeout("[DEFAULT]\ngraceful_shutdown_timeout = 7\n"), Duration::from_secs(7));
        assert_eq!(timeout("[DEFAULT]\ngraceful_shutdown_timeout = 0\n"), Duration::MAX);
    }

    #[test]
    fn the_backlog_is_reported_once_a_second_at_most() {
        let delay = |text: &str| {
            let text = format!("[metricd]\nmetric_reporting_delay = {text}\n");
            reporting_delay(&Config::of_text(Project::Gnocchi, &text).unwrap())
        };
        assert_eq!(
            ["-1", "0", "7"].map(delay),
            [None, Some(1), Some(7)].map(|delay| delay.map(Duration::from_secs))
        );
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_on_loopback() {
        for (address, binds_v6_only, expected) in [
            ("0.0.0.0", true, "127.0.0.1"),
            ("::", false, "127.0.0.1"),
            ("::", true, "::1"),
            ("192.0.2.1", true, "192.0.2.1"),
            ("2001:db8::1", false, "2001:db8::1"),
        ] {
            let reached = reached_at(address.parse().unwrap(), binds_v6_only);
            assert_eq!(reached.to_string(), expected, "{address}");
        }
    }

    #[test]
    fn a_stop_signal_at_the_end_of_the_start_is_not_lost() {
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        // Nothing polls its tasks, as when all threads are busy.
        let busy = runtime();
        let starting = {
            let _within = busy.enter();
            Starting::begin().unwrap()
        };
        runtime().block_on(async {
            let mut signals = stop_signals().unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
            signals.recv().await;
            let stopped = starting.finish();
            tokio::time::timeout(Duration::from_secs(10), stopped).await.expect("the signal is lost");
        });
    }

    #[test]
    fn a_call_that_blocks_does_not_hold_up_the_end() {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        let service = std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            run_service(runtime, async move {
                let (began, begun) = tokio::sync::oneshot::channel();
                drop(tokio::task::spawn_blocking(move || {
                    began.send(()).unwrap();
                    released.recv()
                }));
                begun.await.unwrap();
            });
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(30)).expect("it ends");
        drop(release);
        service.join().unwrap();
    }

    #[tokio::test]
    async fn a_part_that_panics_ends_the_work() {
        let mut tasks = JoinSet::new();
        tasks.spawn(std::future::ready(()));
        tasks.spawn(std::future::pending());
        let work = async {
            tokio::task::yield_now().await;
            Ok(1)
        };
        assert_eq!(beside(&mut tasks, work).await.unwrap(), 1);
        tasks.spawn(async { panic!("a defect") });
        assert!(beside(&mut tasks, std::future::pending::<Result<()>>()).await.is_err());
    }
}
