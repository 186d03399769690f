//! What the commands take that bring a store from Gnocchi, back to it, or to other engines.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::TrustArgs;

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
