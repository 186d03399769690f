//! Arguments of the commands. Those of the client commands are in `commands::client`.

mod transfer;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gnudi_client::Trust;
use gnudi_endpoint::{ServerArgs, output::Output};

use crate::{
    commands::{
        agent::aside,
        client::{aggregates::Aggregates, completion::Completion, measures, metric, resource},
        man::Man,
    },
    program_args::ProgramArgs,
};

pub use transfer::{
    ExportCommand, ExportGnocchiArgs, ExportPostArgs, GnocchiCallerArgs, ImportCommand, ImportGnocchiArgs,
    ImportVerifyArgs, MoveArgs,
};

/// The metric store and telemetry pipeline for clouds.
#[derive(Debug, Parser)]
#[command(name = "gnudi", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and process measures, in one process.
    Serve(ServeArgs),
    /// Serve the API without processing measures; with the embedded store, which belongs to one process, this is the
    /// same as `serve` (also: gnocchi-api).
    Api(ServeArgs),
    /// Process measures without serving the API (also: gnocchi-metricd).
    Metricd(MetricdArgs),
    /// Create or upgrade the data directory and the default archive policies (also: gnocchi-upgrade).
    Upgrade(UpgradeArgs),
    /// Print which processes process measures, the backlog, rates and disk space: of a server (`--endpoint`, or the one
    /// that has the embedded store open), or of the configured engines. Exit status: 0 at least one process processes
    /// measures, 1 none does, 2 no response, 3 there is no store, or it was not prepared.
    Status(Box<StatusArgs>),
    /// List, show, create and delete metrics.
    #[command(subcommand)]
    Metric(Box<metric::MetricCommand>),
    /// Show and add the measures of a metric.
    #[command(subcommand)]
    Measures(Box<measures::MeasuresCommand>),
    /// List, show and search resources.
    #[command(subcommand)]
    Resource(Box<resource::ResourceCommand>),
    /// Compute aggregates over the series of many metrics.
    Aggregates(Box<Aggregates>),
    /// Double the number of sacks during operation, and show how the old ones drain.
    SplitSacks(StoreArgs),
    /// Double the number of sacks repeatedly, up to a given number (also: gnocchi-change-sack-size).
    ChangeSackSize(SackSizeArgs),
    /// Receive statsd datagrams and post them to a running server as measures (also: gnocchi-statsd).
    Statsd(CollectorArgs),
    /// Receive what collectd publishes over AMQP 1.0 and post it to a running server (also: gnocchi-amqpd).
    Amqpd(CollectorArgs),
    /// Run an agent in place of one of Ceilometer's, with its configuration files.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Benchmark gnudi and other servers with the same API.
    Benchmark(Box<gnudi_bench::Benchmark>),
    /// Write a flame graph of a running server's processor time; administrators only.
    Profile(Box<ProfileArgs>),
    /// Copy the embedded store to a new directory in DIR, even while a server has it open.
    Backup(BackupArgs),
    /// Create a data directory from a backup.
    Restore(RestoreArgs),
    /// Import the contents of another metric store.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Go back to Gnocchi: write all changes since the import as requests to its API, and post them.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Copy the aggregates to another engine during operation: copies what differs, then reads and compares both
    /// completely. Changes nothing here. A later run, also after an interrupted one, continues with what has changed
    /// since. Exit status 0: nothing differed.
    Move(MoveArgs),
    /// Read all of an embedded store that no process has open, or of a backup, and report damage. Exit status: 0 no
    /// damage, 1 damage, 2 not readable at all.
    Verify(VerifyArgs),
    /// Set or delete a user's password in a password file. The password is read from the terminal, or as a line of
    /// standard input.
    Passwd(PasswdArgs),
    /// Print every option with its default and meaning; with a configuration file the effective values, and where each
    /// was set. With --check, exit status 1 if a start would fail.
    Config(ConfigArgs),
    /// Print every option with its default and meaning (also: gnocchi-config-generator).
    #[command(hide = true)]
    ConfigGenerator(ConfigGeneratorArgs),
    /// Post random measures to new metrics (also: gnocchi-injector).
    #[command(hide = true)]
    Inject(Box<InjectArgs>),
    /// Print the script that makes a shell complete commands and names.
    Completion(Completion),
    /// Write the man pages.
    Man(Man),
    /// Look up function names for a profile: called by a running server.
    #[command(name = gnudi_api::SYMBOLS_SUBCOMMAND, hide = true)]
    Symbols,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Consume the notifications of services and store them (also: ceilometer-agent-notification).
    Notification(AgentArgs),
    /// Poll hypervisors and services at intervals and publish the samples (also: ceilometer-polling).
    Polling(PollingArgs),
    /// Create the resource types of Ceilometer's resources in the store, and add missing attributes (also:
    /// ceilometer-upgrade).
    Upgrade(AgentUpgradeArgs),
    /// Inspect the messages that the notification agent could not publish and set aside: list, show, replay, drop.
    #[command(subcommand)]
    Aside(aside::AsideCommand),
}

/// Arguments of `ceilometer-upgrade`.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentUpgradeArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Do nothing.
    #[arg(long, overrides_with = "noskip_gnocchi_resource_types")]
    pub skip_gnocchi_resource_types: bool,
    #[arg(long, hide = true)]
    noskip_gnocchi_resource_types: bool,
    /// Number of attempts while the store does not respond [default: unlimited].
    #[arg(long, value_name = "N")]
    pub retry: Option<u32>,
}

/// Further arguments of the polling agent.
#[derive(Clone, Debug, Default, Args)]
pub struct PollingArgs {
    #[command(flatten)]
    pub agent: AgentArgs,
    /// What to poll: compute, central, ipmi [default: `polling_namespaces`, else compute and central].
    #[arg(long, value_name = "NAMESPACE", num_args = 1.., value_delimiter = ',')]
    pub polling_namespaces: Vec<String>,
    /// Poll everything once and exit: with status 1 if no source has a meter that can be polled here, resources cannot
    /// be discovered, or pollsters fail and none publishes samples.
    #[arg(long)]
    pub once: bool,
}

/// Arguments of all agents.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Serve the agent's metrics at http://HOST:PORT/metrics [default: `[agent] metrics_listen`, else nowhere].
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Ceilometer's options and files instead of Gnocchi's. With `--check`, AGENT is the one that runs with them.
    #[arg(
        long,
        value_name = "AGENT",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all"
    )]
    pub ceilometer: Option<CheckedAgents>,
    /// Only this section.
    #[arg(long, value_name = "NAME")]
    pub section: Option<String>,
    /// Print only errors that would prevent a start, and warnings.
    #[arg(long)]
    pub check: bool,
    /// With `--check`: as the server gets it.
    #[arg(long, value_name = "FILE", requires = "check", conflicts_with = "ceilometer")]
    pub password_file: Option<PathBuf>,
    /// With `--check`: as the server gets it.
    #[arg(long, requires = "check", conflicts_with = "ceilometer")]
    pub allow_open_access: bool,
}

/// The agents that a configuration is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckedAgents {
    All,
    Notification,
    Polling,
}

/// Arguments of `gnocchi-config-generator`; most of them concern Python and have no effect.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigGeneratorArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    #[arg(long, value_name = "NAME")]
    pub namespace: Vec<String>,
    #[arg(long, value_name = "N")]
    pub wrap_width: Option<u32>,
    #[arg(long)]
    pub minimal: bool,
    #[arg(long)]
    pub summarize: bool,
    /// `ini` is what programs read.
    #[arg(long, value_name = "FORMAT", value_parser = ["ini"])]
    pub format: Option<String>,
}

/// Arguments of `gnocchi-injector`.
#[derive(Clone, Debug, Args)]
pub struct InjectArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Number of metrics to create.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub metrics: u32,
    /// Number of measures per metric, one per second from now on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub measures: u32,
    /// Archive policy of the metrics.
    #[arg(long, value_name = "NAME", default_value = "low")]
    pub archive_policy_name: String,
    /// Repeat every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<u32>,
    /// No effect: the server processes the measures.
    #[arg(long)]
    pub process: bool,
}

/// Arguments of every program that opens the store.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Data directory of the embedded store [default: as configured, else ./gnudi-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Address or host name, and port, to listen on [default: [api] host and port, else 127.0.0.1:8041].
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["host", "port"], value_parser = host_and_port)]
    pub listen: Option<String>,
    /// Address to listen on, as in gnocchi-api.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Port to listen on, as in gnocchi-api.
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// URL path prefix, such as /gnocchi.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub path_prefix: String,
    /// File of users and passwords, written by `gnudi passwd`; without it any password is accepted [default: the option
    /// of that name in `[api]`].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Allow listening on a public address although authentication `basic` without passwords trusts every caller.
    #[arg(long)]
    pub allow_open_access: bool,
    /// Show figures at http://HOST:PORT/metrics, and not where the API is [default: `[api] metrics_listen`, else at the
    /// API's address].
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
    /// Do not create the archive policies bool, low, medium, high and raw, and the rule `default`.
    #[arg(long)]
    pub skip_archive_policies_creation: bool,
    /// Disable a collector. `host`: this machine's own figures.
    #[arg(long, value_name = "COLLECTOR", value_parser = ["host"])]
    pub without: Vec<String>,
    /// Also run a collector in this process. `statsd`: datagrams, `amqpd`: collectd over AMQP 1.0, `notification`:
    /// notifications of services, `polling`: polls instances and services.
    #[arg(long, value_name = "COLLECTOR", value_delimiter = ',', value_parser = ["statsd", "amqpd", "notification", "polling"])]
    pub with: Vec<String>,
    /// With `--with notification` or `polling`: Ceilometer's configuration file [default: those of oslo.config, such as
    /// /etc/gnudi/ceilometer.conf or /etc/ceilometer/ceilometer.conf].
    #[arg(long, value_name = "FILE")]
    pub ceilometer_config_file: Vec<PathBuf>,
}

/// Validates an argument such as `localhost:8041`, `127.0.0.1:8041` or `[::1]:8041`.
pub fn host_and_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("must be HOST:PORT")?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err("must be HOST:PORT".to_owned());
    }
    if host.contains(':') && text.parse::<std::net::SocketAddr>().is_err() {
        return Err("must be HOST:PORT, and an address of IPv6 in brackets".to_owned());
    }
    Ok(text.to_owned())
}

/// Trusted certificates for https endpoints.
#[derive(Clone, Debug, Default, Args)]
pub struct TrustArgs {
    /// Trust the certificates in this file (PEM) instead of the system's, for https URLs.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Do not verify the server's certificate, for https URLs.
    #[arg(long, conflicts_with = "cacert")]
    pub insecure: bool,
}

impl TrustArgs {
    pub fn trust(&self) -> Trust {
        Trust::asked(self.cacert.clone(), self.insecure)
    }
}

/// Arguments of the programs that collect measures and post them.
#[derive(Clone, Debug, Default, Args)]
pub struct CollectorArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Server to post measures to [default: as in `[api]` of the configuration].
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// User to post as [default: the configured creator, else admin]. The environment variable `GNUDI_PASSWORD` may
    /// hold a password.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Duration of the profile.
    #[arg(long, value_name = "N", default_value_t = gnudi_api::PROFILE_SECONDS_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(gnudi_api::PROFILE_SECONDS_MAX)))]
    pub seconds: u16,
    /// Samples per second of processor time.
    #[arg(long, value_name = "HZ", default_value_t = gnudi_api::PROFILE_FREQUENCY_HZ_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(gnudi_api::PROFILE_FREQUENCY_HZ_MAX)))]
    pub frequency: u16,
    /// File to write.
    #[arg(short, long, value_name = "FILE", default_value = "gnudi-profile.svg")]
    pub output: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// Directory of the backups; created if missing.
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// A backup, or a directory of backups: then the newest one by its name.
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Move damaged data into folders `quarantine` of the data directory, so that the rest can be served.
    #[arg(long)]
    pub repair: bool,
    /// Print each finding as a JSON object, one per line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Args)]
pub struct PasswdArgs {
    /// Password file, as in `[api] password_file`; created if missing.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The user; `admin` is the administrator.
    #[arg(value_name = "USER")]
    pub user: String,
    /// Delete the user from the file.
    #[arg(long)]
    pub delete: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct MetricdArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Stop once the backlog is empty. N is accepted as in Gnocchi; 0 means do not stop.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    pub stop_after_processing_metrics: Option<u64>,
    /// Show the workers' figures at http://HOST:PORT/metrics [default: `[metricd] metrics_listen`, else nowhere].
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of gnocchi-upgrade")]
pub struct UpgradeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Skip the index.
    #[arg(long, overrides_with = "noskip_index")]
    pub skip_index: bool,
    #[arg(long, hide = true)]
    noskip_index: bool,
    /// Skip the aggregates.
    #[arg(long, overrides_with = "noskip_storage")]
    pub skip_storage: bool,
    #[arg(long, hide = true)]
    noskip_storage: bool,
    /// Skip the incoming measures.
    #[arg(long, overrides_with = "noskip_incoming")]
    pub skip_incoming: bool,
    #[arg(long, hide = true)]
    noskip_incoming: bool,
    /// Do not create the archive policies bool, low, medium, high and raw, and the rule `default`.
    #[arg(long, overrides_with = "noskip_archive_policies_creation")]
    pub skip_archive_policies_creation: bool,
    #[arg(long, hide = true)]
    noskip_archive_policies_creation: bool,
    /// Number of sacks of a new store (1 to 65535) [default: [incoming] sacks].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub sacks_number: Option<u16>,
    /// Use the aggregates in [storage] from now on, or begin anew there: those of the former place are left behind.
    #[arg(long)]
    pub replace_aggregates: bool,
}

#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Repeat until interrupted.
    #[arg(short, long)]
    pub watch: bool,
    /// Interval of --watch.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
}

#[derive(Clone, Debug, Default, Args)]
pub struct SackSizeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// New number of sacks: the present number doubled, once or several times.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..), required_unless_present = "sacks_number",
          conflicts_with = "sacks_number")]
    pub size: Option<u16>,
    /// The same, as in Gnocchi's program.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub sacks_number: Option<u16>,
}

impl SackSizeArgs {
    pub fn requested_count(&self) -> Option<u16> {
        self.size.or(self.sacks_number)
    }
}
