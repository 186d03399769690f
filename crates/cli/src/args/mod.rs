//! What each command of the command line takes. Those that ask a server for data have it beside them, in `commands::client`.

mod transfer;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use gnudi_client::Trust;
use gnudi_endpoint::ServerArgs;
use gnudi_model::SackCount;

use crate::{
    commands::{
        agent::aside,
        client::{
            aggregates::Aggregates, completion::Completion, measures, metric, output::Output, resource,
        },
        man::Man,
    },
    program_args::ProgramArgs,
};

pub use transfer::{
    ExportCommand, ExportGnocchiArgs, ExportPostArgs, ImportCommand, ImportGnocchiArgs, ImportVerifyArgs,
    MoveArgs,
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
    /// Serve the API without processing measures; with the embedded store, which belongs to one process, this is `serve` (also:
    /// gnocchi-api).
    Api(ServeArgs),
    /// Process measures without serving the API (also: gnocchi-metricd).
    Metricd(MetricdArgs),
    /// Create or upgrade the data directory and the default archive policies (also: gnocchi-upgrade).
    Upgrade(UpgradeArgs),
    /// Print who processes measures, what waits, rates and disk. A server that `--endpoint` names is asked, and not the engines that the
    /// configuration names. Exit status: 0 somebody processes measures, 1 nobody does, 2 no answer, 3 there is no store, or none was prepared.
    Status(Box<StatusArgs>),
    /// List, show, create and delete metrics.
    #[command(subcommand)]
    Metric(Box<metric::Command>),
    /// Show and add the measures of a metric.
    #[command(subcommand)]
    Measures(Box<measures::Command>),
    /// List, show and search resources.
    #[command(subcommand)]
    Resource(Box<resource::Command>),
    /// Compute with the series of many metrics.
    Aggregates(Box<Aggregates>),
    /// Double the number of sacks while everything goes on, and show how the old ones drain.
    SplitSacks(StoreArgs),
    /// Double the number of sacks as often as it takes (also: gnocchi-change-sack-size).
    ChangeSackSize(SackSizeArgs),
    /// Take statsd's datagrams and post what they say to a running server (also: gnocchi-statsd).
    Statsd(CollectorArgs),
    /// Take what collectd publishes over AMQP 1.0 and post it to a running server (also: gnocchi-amqpd).
    Amqpd(CollectorArgs),
    /// Take notifications, in place of one of Ceilometer's agents and with its files.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Measure gnudi and other servers with the same API.
    Benchmark(Box<gnudi_bench::Benchmark>),
    /// Write a flame graph of where a running server spends its processor time, for an administrator.
    Profile(Box<ProfileArgs>),
    /// Copy the embedded store, also while a server has it open, to a new directory in DIR.
    Backup(BackupArgs),
    /// Make a data directory of a backup.
    Restore(RestoreArgs),
    /// Take over what another metric store holds.
    #[command(subcommand)]
    Import(ImportCommand),
    /// The way back to Gnocchi: write what has come in since as requests of its API, and post them.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Copy the aggregates to another engine while the cloud runs: what differs there, and then all of both is read and compared. Changes
    /// nothing here. Run again, also after it was cut short, it goes on with what has changed since. Exit status 0: nothing differed.
    Move(MoveArgs),
    /// Read all of an embedded store that no process has open, or of a backup, and say what is damaged. Exit status: 0 nothing, 1
    /// something is, 2 it cannot be read at all.
    Verify(VerifyArgs),
    /// Set or delete a user's password in a password file. The password is asked for, or read as a line of standard input.
    Passwd(PasswdArgs),
    /// Print every option with its default and meaning; with a configuration file the values that are in effect, and where each was set.
    /// With --check exit status 1 where a start would fail.
    Config(ConfigArgs),
    /// Print every option with its default and meaning (also: gnocchi-config-generator).
    #[command(hide = true)]
    ConfigGenerator(ConfigGeneratorArgs),
    /// Post random measures to new metrics (also: gnocchi-injector).
    #[command(hide = true)]
    Inject(Box<InjectArgs>),
    /// Print what makes a shell complete commands and names.
    Completion(Completion),
    /// Write the pages for `man`.
    Man(Man),
    /// Look functions up for a profile: a running server calls it.
    #[command(name = gnudi_api::SYMBOLS_SUBCOMMAND, hide = true)]
    Symbols,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Take what services put on the bus and bring it to the store (also: ceilometer-agent-notification).
    Notification(AgentArgs),
    /// Ask hypervisors and services at intervals and publish what they say (also: ceilometer-polling).
    Polling(PollingArgs),
    /// Create the resource types of Ceilometer's resources in the store, and the attributes that they lack (also: ceilometer-upgrade).
    Upgrade(AgentUpgradeArgs),
    /// Look into what the notification agent could not publish and set aside: list, show, replay, drop.
    #[command(subcommand)]
    Aside(aside::Command),
}

/// What `ceilometer-upgrade` takes.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentUpgradeArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Do nothing.
    #[arg(long)]
    pub skip_gnocchi_resource_types: bool,
    /// Try so often while the store does not answer [default: until it does].
    #[arg(long, value_name = "N")]
    pub retry: Option<u32>,
}

/// What the polling agent takes besides.
#[derive(Clone, Debug, Default, Args)]
pub struct PollingArgs {
    #[command(flatten)]
    pub agent: AgentArgs,
    /// What is polled: compute, central, ipmi [default: `polling_namespaces`, else compute and central].
    #[arg(long, value_name = "NAMESPACE", num_args = 1.., value_delimiter = ',')]
    pub polling_namespaces: Vec<String>,
    /// Poll everything once and end.
    #[arg(long)]
    pub once: bool,
}

/// What all agents take.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Show the agent's figures at http://HOST:PORT/metrics [default: `[agent] metrics_listen`, else nowhere].
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Ceilometer's options and files instead of Gnocchi's.
    #[arg(long)]
    pub ceilometer: bool,
    /// This section alone.
    #[arg(long, value_name = "NAME")]
    pub section: Option<String>,
    /// Print nothing but what would stop a start, and warnings.
    #[arg(long)]
    pub check: bool,
}

/// What `gnocchi-config-generator` takes; most of it says how Python finds the options.
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
}

/// What `gnocchi-injector` takes.
#[derive(Clone, Debug, Args)]
pub struct InjectArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    /// How many metrics to create.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub metrics: u32,
    /// Measures to post to each of them, one for each second from now on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub measures: u32,
    /// The archive policy of the metrics.
    #[arg(long, value_name = "NAME", default_value = "low")]
    pub archive_policy_name: String,
    /// Post them again after so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<u32>,
    /// Without effect: the server processes them.
    #[arg(long)]
    pub process: bool,
}

/// What every program that opens the store takes.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Where the embedded store lies [default: what the configuration says, else ./gnudi-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Address, or name, and port to listen on [default: [api] host and port, else 127.0.0.1:8041].
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["host", "port"], value_parser = host_and_port)]
    pub listen: Option<String>,
    /// Address to listen on, as gnocchi-api takes it.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Port to listen on, as gnocchi-api takes it.
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Serve below this path, such as /gnocchi.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub path_prefix: String,
    /// Users and their passwords, as `gnudi passwd` writes them; without it any password is right [default: the option of
    /// that name in `[api]`].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Listen on an address that others can reach although authentication `basic` trusts every caller.
    #[arg(long)]
    pub allow_open_access: bool,
    /// Show figures at http://HOST:PORT/metrics, and not where the API is [default: `[api] metrics_listen`, else at the API's address].
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
    /// Do not create the archive policies bool, low, medium, high and the rule `default`.
    #[arg(long)]
    pub skip_archive_policies_creation: bool,
    /// Leave a collector out. `host`: this machine's own figures.
    #[arg(long, value_name = "COLLECTOR", value_parser = ["host"])]
    pub without: Vec<String>,
    /// Run a collector in this process too. `statsd`: datagrams, `amqpd`: collectd over AMQP 1.0, `notification`: what
    /// services put on the bus, `polling`: instances and services, which are asked.
    #[arg(long, value_name = "COLLECTOR", value_delimiter = ',', value_parser = ["statsd", "amqpd", "notification", "polling"])]
    pub with: Vec<String>,
    /// With `--with notification` or `polling`: Ceilometer's configuration file [default: /etc/ceilometer/ceilometer.conf].
    #[arg(long, value_name = "FILE")]
    pub ceilometer_config_file: Vec<PathBuf>,
}

/// `localhost:8041`, `127.0.0.1:8041`, `[::1]:8041`.
fn host_and_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("must be HOST:PORT")?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err("must be HOST:PORT".to_owned());
    }
    if host.contains(':') && text.parse::<std::net::SocketAddr>().is_err() {
        return Err("must be HOST:PORT, and an address of IPv6 in brackets".to_owned());
    }
    Ok(text.to_owned())
}

/// Whose certificates are trusted where an endpoint is https.
#[derive(Clone, Debug, Default, Args)]
pub struct TrustArgs {
    /// Trust this file's certificates (PEM) instead of the system's, where the URL is https.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Trust any server, whatever its certificate, where the URL is https.
    #[arg(long, conflicts_with = "cacert")]
    pub insecure: bool,
}

impl TrustArgs {
    pub fn trust(&self) -> Trust {
        Trust::asked(self.cacert.clone(), self.insecure)
    }
}

/// What the programs take that collect measures and post them.
#[derive(Clone, Debug, Default, Args)]
pub struct CollectorArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// The server that measures are posted to [default: where `[api]` of the configuration has it].
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// As whom to post [default: the creator that the configuration names, else admin]. The environment variable
    /// `GNUDI_PASSWORD` may hold a password.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = gnudi_api::PROFILE_SECONDS_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(gnudi_api::PROFILE_SECONDS_MAX)))]
    pub seconds: u16,
    /// Samples a second of processor time.
    #[arg(long, value_name = "HZ", default_value_t = gnudi_api::PROFILE_FREQUENCY_HZ_DEFAULT,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(gnudi_api::PROFILE_FREQUENCY_HZ_MAX)))]
    pub frequency: u16,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "gnudi-profile.svg")]
    pub output: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// The directory that holds the backups; made where there is none.
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// A backup, or the directory that holds backups: then its newest one.
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Set aside what is damaged, into folders `quarantine` of the data directory, so that the rest is served.
    #[arg(long)]
    pub repair: bool,
    /// Print each finding as an object of JSON, on a line of its own.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Args)]
pub struct PasswdArgs {
    /// The file that `[api] password_file` names; made where there is none.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Whose password it is; `admin` is the administrator.
    #[arg(value_name = "USER")]
    pub user: String,
    /// Take the user out of the file.
    #[arg(long)]
    pub delete: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct MetricdArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Stop once nothing waits; Gnocchi's number of metrics is taken, and 0 is not to stop.
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
    /// Leave the index as it is.
    #[arg(long)]
    pub skip_index: bool,
    /// Leave the aggregates as they are.
    #[arg(long)]
    pub skip_storage: bool,
    /// Leave the waiting measures as they are.
    #[arg(long)]
    pub skip_incoming: bool,
    /// Do not create the archive policies bool, low, medium, high and the rule `default`.
    #[arg(long)]
    pub skip_archive_policies_creation: bool,
    /// Number of sacks of a new data directory (1 to 65535) [default: [incoming] sacks].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub sacks_number: Option<u16>,
}

#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Go on until interrupted.
    #[arg(short, long)]
    pub watch: bool,
    /// With --watch: how often.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
}

#[derive(Clone, Debug, Default, Args)]
pub struct SackSizeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// How many sacks there are to be: the present number doubled, once or several times.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..), required_unless_present = "sacks_number",
          conflicts_with = "sacks_number")]
    pub size: Option<u16>,
    /// The same, as Gnocchi's program takes it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub sacks_number: Option<u16>,
}

impl SackSizeArgs {
    pub fn wanted(&self) -> Option<u16> {
        self.size.or(self.sacks_number)
    }
}

impl UpgradeArgs {
    pub fn sacks(&self) -> Option<SackCount> {
        self.sacks_number.and_then(std::num::NonZeroU16::new).map(SackCount)
    }
}
