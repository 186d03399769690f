//! `gnudi agent ...`: replaces Ceilometer's agents, with their configuration files.
//!
//! One file per agent. `broker` converts options to broker connections, `credentials` to service credentials; `exports` is
//! the polling agent's exporter and heartbeats; `upgrade` prepares the store before the agents' first start; `aside` manages
//! messages that could not be published.

pub mod aside;
pub mod broker;
pub mod credentials;
mod exports;
pub mod notification;
mod partition;
pub mod polling;
pub mod upgrade;

use anyhow::Result;
use gnudi_http::with_causes;
use gnudi_telemetry::meters::ReservedMetadata;

use crate::{
    args::CheckedAgents,
    commands::metrics,
    config::{Config, Project},
    logging,
    program_args::ProgramArgs,
};

/// Loads ceilometer.conf and starts logging. `command` is the agent's name.
fn prepare(args: &ProgramArgs, command: &str) -> Result<Config> {
    let config = Config::load_project(Project::Ceilometer, args)?;
    logging::start_service(&config, command)?;
    Ok(config)
}

/// All errors that would prevent the agents' start with these files, found without network access.
pub fn faults(config: &Config, agents: CheckedAgents) -> Vec<anyhow::Error> {
    let mut checks = vec![
        credentials::keystone(config, "service_credentials").map(drop),
        metrics::check(config, "agent"),
        logging::check(config),
    ];
    if agents != CheckedAgents::Polling {
        checks.extend([broker::brokers(config, "check").map(drop), notification::check(config)]);
    }
    if agents != CheckedAgents::Notification {
        checks.extend(polling::checks(config));
    }
    let mut faults: Vec<anyhow::Error> = Vec::new();
    for fault in checks.into_iter().filter_map(Result::err) {
        // Some options are needed for several parts.
        let text = with_causes(&*fault);
        if faults.iter().all(|known| with_causes(&**known) != text) {
            faults.push(fault);
        }
    }
    faults
}

/// This machine's name in messages.
pub fn host(config: &Config) -> String {
    config.string("DEFAULT", "host").unwrap_or_else(crate::commands::hostname)
}

/// Which user metadata samples keep.
fn reserved_metadata(config: &Config) -> ReservedMetadata {
    ReservedMetadata {
        prefixes: config.list("DEFAULT", "reserved_metadata_namespace"),
        keys: config.list("DEFAULT", "reserved_metadata_keys"),
        value_length_max: config.size("DEFAULT", "reserved_metadata_length"),
    }
}
