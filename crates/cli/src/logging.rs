//! Logs on standard error, one line an event. `RUST_LOG` overrides the level.

use tracing_subscriber::EnvFilter;

use crate::{args::StoreArgs, config::Config};

/// Starts logging and logs what the configuration warns of.
pub fn start(args: &StoreArgs, config: &Config) {
    let level = if args.debug || config.bool("DEFAULT", "debug") {
        "debug"
    } else if args.verbose || config.bool("DEFAULT", "verbose") {
        "info"
    } else {
        "warn"
    };
    start_at(level, config);
}

/// As [`start`], for commands whose output is what matters: information only where the command line asks for it.
pub fn start_quietly(args: &StoreArgs, config: &Config) {
    let level = if args.debug {
        "debug"
    } else if args.verbose {
        "info"
    } else {
        "warn"
    };
    start_at(level, config);
}

fn start_at(level: &str, config: &Config) {
    // Libraries speak up from warnings on: their debug lines drown ours.
    let ours = ["gnudi", "gnudi_api", "gnudi_engine", "gnudi_drivers", "gnudi_indexer", "gnudi_telemetry"];
    // It would write whole messages, byte by byte; what becomes of them, our own lines tell.
    let quiet = "warn,lapin::returned_messages=error".to_owned();
    let default = ours.iter().fold(quiet, |filter, target| format!("{filter},{target}={level}"));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        .with_target(false)
        .init();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}
