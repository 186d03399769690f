//! The options of ceilometer.conf, with their names there; gnudi's own are marked.

mod agents;
mod credentials;
mod default;
mod messaging;

use super::{
    ANY, Kind, LOG_DATE_FORMAT, LOG_DIR, LOG_FILE, LOGS, PORT, POSITIVE, Spec, THREADS, WATCH_LOG_FILE,
    inheriting,
};

/// All options by section, in the order of `gnudi config --ceilometer`.
pub const GROUPS: &[&[Spec]] = &[
    default::OPTIONS,
    agents::OPTIONS,
    messaging::OPTIONS,
    credentials::SERVICE,
    credentials::SERVICE_ONLY,
    &credentials::GNOCCHI,
    credentials::GNOCCHI_ONLY,
    &credentials::ZAQAR,
    credentials::OTHERS,
];
