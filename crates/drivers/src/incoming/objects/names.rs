//! Names of the objects.

use uuid::Uuid;

pub const CLUSTER: &str = "incoming/cluster";
pub const HINT: &str = "incoming/hint";
pub const LOG: &str = "incoming/log/";
pub const ACKNOWLEDGED: &str = "incoming/acknowledged/";

pub fn log(number: u64) -> String {
    format!("{LOG}{number:020}")
}

/// The inverse of [`log`].
pub fn log_number(name: &str) -> Option<u64> {
    name.strip_prefix(LOG)?.parse().ok()
}

pub fn mark(version: u64) -> String {
    format!("incoming/mark/{version:020}")
}

pub fn generation(generation: u64) -> String {
    format!("incoming/generation/{generation:020}")
}

pub fn acknowledged(process: Uuid) -> String {
    format!("{ACKNOWLEDGED}{process}")
}

/// The inverse of [`acknowledged`].
pub fn acknowledging_process(name: &str) -> Option<Uuid> {
    name.strip_prefix(ACKNOWLEDGED)?.parse().ok()
}

pub fn quarantined(number: u64) -> String {
    format!("incoming/quarantine/{number:020}")
}
