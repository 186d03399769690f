//! `gnudi agent ...`: what takes the place of Ceilometer's agents, with their own configuration files.
//!
//! One file per agent; `broker` turns options into what connects to the message bus, `credentials` into who calls
//! services, `metrics` shows an agent's figures.

pub mod broker;
pub mod credentials;
mod metrics;
pub mod notification;
mod partition;
pub mod polling;

use anyhow::Result;
use gnudi_telemetry::meters::ReservedMetadata;

use crate::{
    args::{AgentArgs, StoreArgs},
    config::{Config, Files},
    logging,
};

/// Reads ceilometer.conf and starts logging.
fn prepare(args: &AgentArgs) -> Result<Config> {
    let config = load(args)?;
    logging::start(&StoreArgs { debug: args.debug, verbose: args.verbose, ..StoreArgs::default() }, &config);
    if args.log_file.is_some() {
        tracing::warn!("--log-file: logs go to standard error: let the service manager keep them");
    }
    Ok(config)
}

/// Reads ceilometer.conf.
pub fn load(args: &AgentArgs) -> Result<Config> {
    let files = Files { config_files: args.config_file.clone(), config_dirs: args.config_dir.clone() };
    Config::load_ceilometer(&files)
}

/// What this machine is called, in messages.
pub fn host(config: &Config) -> String {
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    config.text("DEFAULT", "host").map_or_else(own, str::to_owned)
}

/// What of users' own metadata goes into samples.
fn reserved_metadata(config: &Config) -> ReservedMetadata {
    ReservedMetadata {
        prefixes: config.list("DEFAULT", "reserved_metadata_namespace"),
        keys: config.list("DEFAULT", "reserved_metadata_keys"),
        value_length_max: config.size("DEFAULT", "reserved_metadata_length"),
    }
}
