//! `gnudi agent ...`: what takes the place of Ceilometer's agents, with their own configuration files.
//!
//! One file per agent; `broker` turns options into what connects to the message bus, `credentials` into who calls
//! services, `shown` is what the polling agent shows of what it polls, `upgrade` what precedes the agents' first start,
//! `aside` looks after what could not be published.

pub mod aside;
pub mod broker;
pub mod credentials;
pub mod notification;
mod partition;
pub mod polling;
mod shown;
pub mod upgrade;

use anyhow::Result;
use gnudi_telemetry::meters::ReservedMetadata;

use crate::{
    config::{Config, Project},
    logging,
    program_args::ProgramArgs,
};

/// Reads ceilometer.conf and starts the log. `command` is the agent's.
fn prepare(args: &ProgramArgs, command: &str) -> Result<Config> {
    let config = Config::load_project(Project::Ceilometer, args)?;
    logging::start_service(&config, command)?;
    Ok(config)
}

/// All that would stop an agent with these files, as far as nobody need be asked.
pub fn faults(config: &Config) -> Vec<anyhow::Error> {
    let checks = [
        broker::brokers(config, "check").map(drop),
        credentials::keystone(config, "service_credentials").map(drop),
        polling::check(config),
        notification::check(config),
    ];
    checks.into_iter().filter_map(Result::err).collect()
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
