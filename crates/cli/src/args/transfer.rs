//! Arguments of the commands that move a store: from Gnocchi, back to it, or to other engines.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::TrustArgs;
use crate::config::Files;

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Import all data of a Gnocchi 4.3 to 4.7 into an empty store, while Gnocchi keeps running; nothing is changed
    /// there. A later run updates an earlier import, also an interrupted one: new and changed data is written, deleted
    /// data is deleted. Refuses a store that a gnudi server has opened since.
    Gnocchi(ImportGnocchiArgs),
    /// Compare a Gnocchi and a gnudi over their APIs, and print every difference. Both should be idle, without backlog.
    /// Exit status: 0 no differences, 1 differences, 2 one of them does not respond, or refuses.
    Verify(Box<ImportVerifyArgs>),
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Write to a file what differs in gnudi from the imported Gnocchi, and the measures kept by `[incoming] journal`.
    /// An embedded store must not be open. Gnocchi's database must be as it was at the cut-over; it is only read. A
    /// later run with the same file continues where the last one ended, also if it was interrupted.
    Gnocchi(ExportGnocchiArgs),
    /// Post such a file to Gnocchi's API, in order. The position is kept in FILE.posted: a later run continues there. A
    /// request that Gnocchi rejects ends the run, with the line and the response.
    Post(ExportPostArgs),
}

#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("config_file", |arg| arg.help(
        "A configuration file of Gnocchi, which names its index, storage and incoming storage; can be repeated, the last \
         takes precedence [default: those of its metricd, such as /etc/gnocchi/gnocchi.conf]"
    ))
)]
pub struct ImportGnocchiArgs {
    #[command(flatten)]
    pub gnocchi: Files,
    /// Data directory to write; created if missing.
    #[arg(long, value_name = "DIR", required_unless_present = "target", conflicts_with = "target")]
    pub data_dir: Option<PathBuf>,
    /// gnudi's configuration file, which names the store to write.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// Keep following until interrupted: update the store every few seconds, and once more at the interrupt, for the
    /// cut-over.
    #[arg(long)]
    pub follow: bool,
}

#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("config_file", |arg| arg.help(
        "A configuration file of Gnocchi, which names its index; can be repeated, the last takes precedence [default: \
         those of its metricd, such as /etc/gnocchi/gnocchi.conf]"
    ))
)]
pub struct ExportGnocchiArgs {
    #[command(flatten)]
    pub gnocchi: Files,
    /// gnudi's data directory.
    #[arg(long, value_name = "DIR", required_unless_present = "target")]
    pub data_dir: Option<PathBuf>,
    /// gnudi's configuration file, which names its store.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// A journal; several processes have one each [default: `[incoming] journal` of --target].
    #[arg(long, value_name = "DIR")]
    pub journal: Vec<PathBuf>,
    /// File to write, or to continue.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Maximum measures per request.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch_measures_max: u32,
    /// The creator that will post the file, in Gnocchi's form: with Keystone `USER_ID:PROJECT_ID`. Resources of this
    /// creator keep ids that are not UUIDs; others are created by their UUID.
    #[arg(long, value_name = "CREATOR", default_value = "admin")]
    pub creator: String,
}

/// Credentials for Gnocchi; also for gnudi, unless it has options of its own.
#[derive(Clone, Debug, Args)]
pub struct GnocchiCallerArgs {
    /// Administrator for basic authentication [default: admin].
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
    /// A file written by `gnudi export gnocchi`.
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
    /// User for gnudi, if different from Gnocchi's.
    #[arg(long, value_name = "NAME")]
    pub gnudi_user: Option<String>,
    /// Password for gnudi, if different.
    #[arg(long, value_name = "PASSWORD", env = "GNUDI_PASSWORD", hide_env_values = true)]
    pub gnudi_password: Option<String>,
    /// Token for gnudi, if different.
    #[arg(long, value_name = "TOKEN", env = "GNUDI_TOKEN", hide_env_values = true)]
    pub gnudi_token: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Compare the measures of N random metrics and the histories of N random resources [default: of all]. Everything
    /// else is compared completely.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: Option<u32>,
    /// With --sample: seed of the random choice, to repeat it [default: random, printed].
    #[arg(long, value_name = "SEED", requires = "sample")]
    pub seed: Option<u64>,
    /// Concurrent requests to each of the two.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Maximum number of differences to print. All are counted.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub differences_max: u64,
}

#[derive(Clone, Debug, Args)]
pub struct MoveArgs {
    /// Gnocchi's configuration file, as the processes use it now.
    #[arg(long, value_name = "FILE")]
    pub config_file: PathBuf,
    /// The new configuration file: its [storage] names the engine to copy to. Index, coordination and incoming storage
    /// stay.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Then close the current engine for good, and copy the rest: from then on measures wait until processes are
    /// started with the new file.
    #[arg(long)]
    pub cut_over: bool,
}
