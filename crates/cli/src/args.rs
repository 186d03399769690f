//! What each command of the command line takes. Those that ask a server for data have it beside them, in `commands::client`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use gnudi_client::Trust;
use gnudi_endpoint::ServerArgs;
use gnudi_model::SackCount;

use crate::{
    commands::{
        client::{
            aggregates::Aggregates, completion::Completion, measures, metric, output::Output, resource,
        },
        man::Man,
    },
    config::options::{CEILOMETER, Catalogue, GNOCCHI},
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
    /// configuration names. Exit status: 0 somebody processes measures, 1 nobody does, or the store does not answer.
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
    /// Print every option with its default and meaning.
    Config(ConfigArgs),
    /// Print what makes a shell complete commands and names.
    Completion(Completion),
    /// Write the pages for `man`.
    Man(Man),
    /// Look functions up for a profile: a running server calls it.
    #[command(name = gnudi_api::SYMBOLS_SUBCOMMAND, hide = true)]
    Symbols,
}

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Write all that a Gnocchi 4.3 to 4.7 has into an empty store, while Gnocchi works on. Changes nothing there. Run again, it brings
    /// an earlier import up to date, also one that was cut short: what is new or has changed is written, what was deleted is deleted. A
    /// store that a server of gnudi has opened since is refused.
    Gnocchi(ImportGnocchiArgs),
    /// Ask a Gnocchi and a gnudi the same over their APIs, and print every difference. Both should be at rest, without measures that
    /// wait. Exit status: 0 nothing differs, 1 something does, 2 one of them does not answer, or refuses.
    Verify(Box<ImportVerifyArgs>),
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Write a file of what is otherwise in gnudi than in the Gnocchi that was imported, and of the measures that `[incoming] journal` has
    /// kept. An embedded store must not be open, and Gnocchi's database as it was at the cut-over; it is only read. Run again with the same
    /// file, it goes on where it was, also where it was cut short.
    Gnocchi(ExportGnocchiArgs),
    /// Post such a file to Gnocchi's API, in its order. How far it is stands in FILE.posted: run again, it goes on there. What Gnocchi refuses
    /// stops it, with the line and the answer.
    Post(ExportPostArgs),
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Take what services put on the bus and bring it to the store (also: ceilometer-agent-notification).
    Notification(AgentArgs),
    /// Ask hypervisors and services at intervals and publish what they say (also: ceilometer-polling).
    Polling(PollingArgs),
}

/// What the polling agent takes besides.
#[derive(Clone, Debug, Default, Args)]
pub struct PollingArgs {
    #[command(flatten)]
    pub agent: AgentArgs,
    /// What is polled: compute, central [default: `polling_namespaces`, else both].
    #[arg(long, value_name = "NAMESPACE", num_args = 1.., value_delimiter = ',')]
    pub polling_namespaces: Vec<String>,
    /// Poll everything once and end.
    #[arg(long)]
    pub once: bool,
}

/// What all agents take.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    /// Ceilometer's configuration file; of several the last counts most [default: /etc/ceilometer/ceilometer.conf].
    #[arg(long, value_name = "FILE")]
    pub config_file: Vec<PathBuf>,
    /// A directory of such files (*.conf), read after them.
    #[arg(long, value_name = "DIR")]
    pub config_dir: Vec<PathBuf>,
    /// Show the agent's figures at http://HOST:PORT/metrics [default: `[agent] metrics_listen`, else nowhere].
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
    /// Without effect: logs go to standard error.
    #[arg(long, alias = "logfile", value_name = "FILE", hide = true)]
    pub log_file: Option<PathBuf>,
    /// Log at level debug.
    #[arg(short, long)]
    pub debug: bool,
    /// Log at level info (the default).
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Those of ceilometer.conf instead of gnocchi.conf.
    #[arg(long)]
    pub ceilometer: bool,
}

impl ConfigArgs {
    pub fn catalogue(self) -> Catalogue {
        if self.ceilometer { CEILOMETER } else { GNOCCHI }
    }
}

/// What every program that opens the store takes.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    /// Gnocchi's configuration file.
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Where the embedded store lies [default: what the configuration says, else ./gnudi-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Log at level debug.
    #[arg(short, long)]
    pub debug: bool,
    /// Log at level info (the default).
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Address and port to listen on [default: [api] host and port, else 127.0.0.1:8041].
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["host", "port"])]
    pub listen: Option<SocketAddr>,
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
    /// Listen on an address that others can reach although authentication `basic` believes every caller.
    #[arg(long)]
    pub allow_open_access: bool,
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

/// Whose certificates are believed where an endpoint is https.
#[derive(Clone, Debug, Default, Args)]
pub struct TrustArgs {
    /// Believe this file's certificates (PEM) instead of the system's, where the URL is https.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Believe whoever answers, where the URL is https.
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
    /// Gnocchi's configuration file.
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The server that measures are posted to.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8041")]
    pub endpoint: String,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// As whom to post [default: the creator that the configuration names, else admin]. The environment variable
    /// `GNUDI_PASSWORD` may hold a password.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Log at level debug.
    #[arg(short, long)]
    pub debug: bool,
    /// Log at level info (the default).
    #[arg(short, long)]
    pub verbose: bool,
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
pub struct ImportGnocchiArgs {
    /// Gnocchi's configuration file: where its index, its storage and its incoming measures lie.
    #[arg(long, value_name = "FILE")]
    pub config_file: PathBuf,
    /// The data directory to write; made where there is none.
    #[arg(long, value_name = "DIR", required_unless_present = "target", conflicts_with = "target")]
    pub data_dir: Option<PathBuf>,
    /// gnudi's configuration file, which names the store to write.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// Go on until interrupted: every few seconds bring the store up to date, and once more at the interrupt, for the cut-over.
    #[arg(long)]
    pub follow: bool,
}

#[derive(Clone, Debug, Args)]
pub struct ExportGnocchiArgs {
    /// Gnocchi's configuration file: where its index lies.
    #[arg(long, value_name = "FILE")]
    pub config_file: PathBuf,
    /// gnudi's data directory.
    #[arg(long, value_name = "DIR", required_unless_present = "target")]
    pub data_dir: Option<PathBuf>,
    /// gnudi's configuration file, which names its store.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// A journal; several processes have one each [default: `[incoming] journal` of --target].
    #[arg(long, value_name = "DIR")]
    pub journal: Vec<PathBuf>,
    /// The file to write, or to go on with.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Measures in one request, at most.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch_measures_max: u32,
    /// Who will post the file, as Gnocchi names creators: with Keystone `USER_ID:PROJECT_ID`. Resources that this one has made keep ids
    /// that are no UUIDs; others are made by their UUID.
    #[arg(long, value_name = "CREATOR", default_value = "admin")]
    pub creator: String,
}

/// As whom Gnocchi is asked; gnudi, too, where that has no options of its own.
#[derive(Clone, Debug, Args)]
pub struct GnocchiCallerArgs {
    /// An administrator, with basic authentication [default: admin].
    #[arg(long, value_name = "NAME", env = "GNOCCHI_USER")]
    pub user: Option<String>,
    /// The user's password.
    #[arg(long, value_name = "PASSWORD", env = "GNOCCHI_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// A Keystone token to send instead of user and password.
    #[arg(long, value_name = "TOKEN", env = "OS_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct ExportPostArgs {
    /// What `gnudi export gnocchi` has written.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Gnocchi's URL.
    #[arg(long, value_name = "URL")]
    pub gnocchi: String,
    #[command(flatten)]
    pub caller: GnocchiCallerArgs,
    #[command(flatten)]
    pub trust: TrustArgs,
}

#[derive(Clone, Debug, Args)]
pub struct ImportVerifyArgs {
    /// Gnocchi's URL.
    #[arg(long, value_name = "URL")]
    pub gnocchi: String,
    /// gnudi's URL.
    #[arg(long, value_name = "URL")]
    pub gnudi: String,
    #[command(flatten)]
    pub caller: GnocchiCallerArgs,
    /// Whom gnudi knows, where that is somebody else: else both are asked alike.
    #[arg(long, value_name = "NAME")]
    pub gnudi_user: Option<String>,
    /// The password at gnudi, where that is another one.
    #[arg(long, value_name = "PASSWORD", env = "GNUDI_PASSWORD", hide_env_values = true)]
    pub gnudi_password: Option<String>,
    /// The token for gnudi, where that is another one.
    #[arg(long, value_name = "TOKEN", env = "GNUDI_TOKEN", hide_env_values = true)]
    pub gnudi_token: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Compare the measures of N metrics and the histories of N resources, chosen at random [default: of all]. All else is compared
    /// whole.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: Option<u32>,
    /// With --sample: choose the same as another time [default: a random one, which is printed].
    #[arg(long, value_name = "SEED", requires = "sample")]
    pub seed: Option<u64>,
    /// Requests at once to each of the two.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Print so many differences at most. All are counted.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub differences_max: u64,
}

#[derive(Clone, Debug, Args)]
pub struct MoveArgs {
    /// Gnocchi's configuration file, as the processes have it now.
    #[arg(long, value_name = "FILE")]
    pub config_file: PathBuf,
    /// The file that they are to have: its [storage] names the engine to copy to. Index, coordination and incoming measures stay.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Then close the engine that is in use, for ever, and copy what is left: from then on measures wait, until processes are
    /// started with the new file.
    #[arg(long)]
    pub cut_over: bool,
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
    /// Stop once nothing waits.
    #[arg(long)]
    pub stop_after_processing_metrics: bool,
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
