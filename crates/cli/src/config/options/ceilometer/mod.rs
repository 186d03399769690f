//! The options of ceilometer.conf, by their names there; gnudi's own are marked.

mod agents;
mod credentials;
mod default;
mod messaging;

use super::{ANY, Kind, LOGS, POSITIVE, Spec, idle, option, secret};

/// All options, by section, in the order in which `gnudi config --ceilometer` prints them.
pub const GROUPS: &[&[Spec]] = &[
    default::OPTIONS,
    agents::OPTIONS,
    messaging::NOTIFICATIONS,
    messaging::RABBIT,
    &credentials::SERVICE,
    &credentials::GNOCCHI,
    credentials::OTHERS,
];
